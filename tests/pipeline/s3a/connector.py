"""Hadoop's connector for S3, which `make test-spark` brings."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[3]
JARS = ROOT / ".interop" / "s3a" / "jars"
