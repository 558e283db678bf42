from __future__ import annotations

import pytest

from tests.support.background import BackgroundServer
from tests.support.hostile import FORGETFUL
from tests.support.raw import Exchange
from tests.support.witness import Witness

pytestmark = pytest.mark.config(FORGETFUL)


@pytest.mark.parametrize("query", ["", "x", "%", "LS_op2=create&LS_op2=create", "LS_user=%FF", "&&&"])
def test_a_wrong_query_string_of_the_older_protocol_is_answered(
    server: BackgroundServer, witness: Witness, query: str
) -> None:
    for name in ("create_session", "bind_session", "control", "send_message"):
        with Exchange(server.host, server.port).http() as http:
            http.post(name, "", query)
            assert http.read_head() == 500
            assert 5 < len(http.read_body()) < 400
