"""Clients of message brokers and HTTP endpoints, as asyncio shells: what reads from them, and what writes to them.

Used by data adapters (`penstock.adapters`) and by connections (`penstock.services.connections`). Not here: what becomes
of a message. Those of Kafka and NATS need the extras of these names.
"""
