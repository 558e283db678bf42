"""What is journaled, written to topics of Kafka, exactly once. Read next: docs/brokers.md."""
