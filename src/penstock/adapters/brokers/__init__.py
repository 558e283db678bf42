"""What adapters for message brokers have in common: how a record becomes an event of an item, and what is kept of it.

Not here: connections to brokers (adapters/kafka, adapters/mqtt, adapters/nats). Read next: docs/brokers.md.
"""
