"""A real Kafka broker, and the example of docs/pipeline.md run against it."""
