"""Spark's checkpoints in an object store, by Hadoop's connector for S3."""
