"""The broker of the tests."""

from __future__ import annotations

from tests.support.kafka_topic import broker

__all__ = ["broker"]
