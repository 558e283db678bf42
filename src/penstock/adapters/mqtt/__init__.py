"""Topics of an MQTT broker as items. Read next: docs/brokers.md."""

from penstock.adapters.mqtt.adapter import MqttAdapter

__all__ = ["MqttAdapter"]
