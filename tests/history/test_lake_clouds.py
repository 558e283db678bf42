"""A lake at gs:// or abfss://: requests go where they belong, and what the store says is told in one sentence.

The store is a server that answers everything alike. That a lake is as safe in an object store as on a disk is shown
with one of S3 (tests/pipeline/test_lake_url.py): all stores are behind the same library.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penstock.history.lake_url import LakeUnavailable, LakeUrl

GOOGLE, AZURE = "gs://bucket/lake", "abfss://container@account.dfs.core.windows.net/lake"
KEY = "a2V5IG9mIG5vYm9keQ=="
HASTY = {"max_retries": "0", "retry_timeout": "1s", "timeout": "1s"}


class Store(ThreadingHTTPServer):
    """Answers every request with `status` and `body`, and remembers it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.status, self.body = 404, b""
        self.asked: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Store)
        self.server.asked.append(self.path)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def store() -> Iterator[Store]:
    with Store() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def given(url: str, address: str) -> dict[str, str]:
    """Options of requests to a store at this address."""
    if url == AZURE:
        return {"account_name": "account", "account_key": KEY, "endpoint": address}
    account = {"gcs_base_url": address, "disable_oauth": True, "client_email": "", "private_key": ""}
    return {"service_account_key": json.dumps({**account, "private_key_id": ""}), "allow_http": "true"}


def told(url: str, options: Mapping[str, str]) -> str:
    """What is said of a lake that cannot be opened, after the words that they all begin with."""
    with pytest.raises(LakeUnavailable) as unavailable:
        LakeUrl(url, {**HASTY, **options}).open_table()
    text = str(unavailable.value)
    assert "\n" not in text
    assert KEY not in text
    begin = f"the lake in {url} cannot be opened: "
    assert text.startswith(begin)
    return text.removeprefix(begin)


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (401, "AuthenticationRequired", "the object store refused the credentials (AuthenticationRequired)"),
        (403, "", "the object store refused the credentials (403 Forbidden)"),
        (404, "ContainerNotFound", "there is no such container"),
        (404, "NoSuchBucket", "there is no such bucket"),
        (503, "ServerBusy", "the object store answered 503 Service Unavailable (ServerBusy)"),
    ],
)
@pytest.mark.parametrize(("url", "path"), [(GOOGLE, "/bucket/lake"), (AZURE, "/container/lake")])
def test_what_the_store_answers_is_told_in_one_sentence(
    store: Store, url: str, path: str, status: int, code: str, reason: str
) -> None:
    store.status = status
    store.body = f"<Error><Code>{code}</Code></Error>".encode() if code else b""
    assert told(url, given(url, store.address)) == reason
    assert store.asked[0].startswith(path)


@pytest.mark.parametrize("url", [GOOGLE, AZURE])
def test_a_store_that_cannot_be_reached_is_told(store: Store, url: str) -> None:
    address = store.address
    store.server_close()
    assert told(url, given(url, address)).startswith("the object store cannot be reached: ")


@pytest.mark.parametrize(
    ("url", "options", "reason"),
    [
        (GOOGLE, {}, "there are no credentials for it, neither in the environment nor in lake.options"),
        (AZURE, {}, "there are no credentials for it, neither in the environment nor in lake.options"),
        (
            GOOGLE,
            {"service_account": "/nowhere.json"},
            "the credentials cannot be used: Unable to open service",
        ),
        (GOOGLE, {"service_account_key": "{"}, "the credentials cannot be used: Unable to decode service"),
        (AZURE, {"account_name": "account", "account_key": "?"}, "the credentials cannot be used: Invalid Access Key"),
    ],
)
def test_credentials_that_are_missing_or_damaged_are_told(url: str, options: Mapping[str, str], reason: str) -> None:
    assert told(url, options).startswith(reason)
