"""Topics of an MQTT broker as items. Importing this needs the extra `mqtt`. Read next: docs/brokers.md."""

try:
    import aiomqtt  # noqa: F401
except ImportError:
    raise ImportError("the adapter mqtt needs the extra mqtt: pip install 'penstock[mqtt]'") from None

from penstock.adapters.mqtt.adapter import MqttAdapter

__all__ = ["MqttAdapter"]
