"""Topics of Kafka as items. Importing this needs the extra `kafka`. Read next: docs/brokers.md."""

try:
    import confluent_kafka  # noqa: F401
except ImportError:
    raise ImportError("the adapter kafka needs the extra kafka: pip install 'penstock[kafka]'") from None

from penstock.adapters.kafka.adapter import KafkaAdapter

__all__ = ["KafkaAdapter"]
