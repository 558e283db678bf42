"""A lake in the stand-in for S3: its address, with short limits, so that a store that fails is soon known to fail."""

from __future__ import annotations

import uuid
from pathlib import Path

from penstock.history.lake_url import LakeUrl
from tests.support.object_store import BUCKET, KEY, SECRET, ObjectStore

# A request that fails is tried again a few times, within a second.
LIMITS = {"timeout": "20s", "max_retries": "3", "retry_timeout": "60s"}
# For a store that does not answer: given up soon, but not by a busy machine that does.
HASTY = {"timeout": "2s", "max_retries": "1", "retry_timeout": "4s"}


def options(store: ObjectStore, key: str = KEY) -> dict[str, str]:
    return {"endpoint": store.endpoint, "region": "us-east-1", "access_key_id": key, "secret_access_key": SECRET}


def lake_in(
    store: ObjectStore, key: str = KEY, credentials_file: Path | None = None, limits: dict[str, str] = LIMITS
) -> LakeUrl:
    """One that nobody else has."""
    given = {"endpoint": store.endpoint, "region": "us-east-1"} if credentials_file else options(store, key)
    return LakeUrl(f"s3://{BUCKET}/{uuid.uuid4().hex}/lake", {**given, **limits}, credentials_file)
