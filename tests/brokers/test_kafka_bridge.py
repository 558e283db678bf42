"""Which options of librdkafka a document may have."""

from __future__ import annotations

import pytest

from penstock.brokers.bridge import BridgeLost
from penstock.brokers.kafka_bridge import options_of
from penstock.connections.document import ConnectionDocument


def options(**given: str) -> dict[str, object]:
    config = {name.replace("_", "."): value for name, value in given.items()}
    return options_of(ConnectionDocument(connection_type="kafka", uri="tcp://host:9092", specific_config=config))


def test_options_are_passed_on() -> None:
    assert options(fetch_max_bytes="1000")["fetch.max.bytes"] == "1000"


@pytest.mark.parametrize(
    "name",
    [
        "plugin_library_paths",
        "sasl_kerberos_kinit_cmd",
        "ssl_engine_location",
        "ssl_providers",
        "ssl_key_location",
        "ssl_keystore_location",
    ],
)
def test_options_that_run_code_or_read_files_are_refused(name: str) -> None:
    with pytest.raises(BridgeLost, match="is not allowed: it would run code or read files"):
        options(**{name: "x"})


@pytest.mark.parametrize("name", ["group_id", "bootstrap_servers", "enable_auto_commit"])
def test_options_of_the_connection_itself_are_refused(name: str) -> None:
    with pytest.raises(BridgeLost, match="is set by the connection itself"):
        options(**{name: "x"})
