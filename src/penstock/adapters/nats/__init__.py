"""Subjects of NATS as items. Importing this needs the extra `nats`. Read next: docs/brokers.md."""

try:
    import nats  # noqa: F401
except ImportError:
    raise ImportError("the adapter nats needs the extra nats: pip install 'penstock[nats]'") from None

from penstock.adapters.nats.adapter import NatsAdapter

__all__ = ["NatsAdapter"]
