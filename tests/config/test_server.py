"""Keys of the server as a whole that depend on others."""

from __future__ import annotations

import pytest

from penstock.config import ConfigError, load


def test_the_dashboard_is_not_at_the_streaming_port_of_workers() -> None:
    load(None, {"server.workers": 0, "admin.dashboard_at_stream": True})
    with pytest.raises(ConfigError) as refused:
        load(None, {"server.workers": "2", "admin.dashboard_at_stream": True})
    assert refused.value.key == "admin.dashboard_at_stream"
    assert "false, because of" in refused.value.problem
    assert "server.workers = 2" in refused.value.problem


def test_ports_that_are_taken_already_stand_in_place_of_those_configured() -> None:
    loaded = load(None, {"stream.port": "0"}, ports={"stream": 4711, "api": 4712, "nobody": 1})
    assert (loaded.config.stream.port, loaded.config.api.port) == (4711, 4712)
    assert (loaded.again().config.stream.port, loaded.again().config.api.port) == (4711, 4712)
