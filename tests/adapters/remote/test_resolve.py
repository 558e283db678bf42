"""What the adapter API has for those who decide in one go, and for sessions that may live so long only."""

from __future__ import annotations

from penstock.adapters import MetadataAdapter
from penstock.adapters.api import Maybe
from penstock.kernel.ports import Grant, ItemGrant, SessionFacts, Wish
from tests.adapters.remote.support import RemoteServer
from tests.support.background import HandAdapter


class InOneGo(MetadataAdapter):
    """Grants two items for every group; for group `nonsense` it returns something else."""

    quick = True

    async def resolve(self, session: SessionFacts, wish: Wish) -> Grant:
        if wish.group == "nonsense":
            return "everything"  # type: ignore[return-value]
        return Grant((ItemGrant("one"), ItemGrant("two", max_frequency=3.0)), tuple(wish.schema.split()))

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> list[str]:
        raise AssertionError("it was asked one by one")

    def new_session(self, session: SessionFacts) -> Maybe[float | None]:
        return {"mayfly": 0.05, "nonsense": "soon"}.get(session.user or "")  # type: ignore[return-value]


def test_an_adapter_that_decides_in_one_go_is_asked_nothing_else() -> None:
    with RemoteServer(HandAdapter(), InOneGo()) as server, server.client() as client:
        client.subscribe(1, "any", "x y")
        assert client.read("SUBOK") == "SUBOK,1,2,2"


def test_a_decision_that_is_none_is_an_error_of_the_adapter() -> None:
    with RemoteServer(HandAdapter(), InOneGo()) as server, server.client() as client:
        client.subscribe(1, "nonsense", "x")
        assert client.read("REQERR").startswith("REQERR,1,66,")


def test_a_new_session_may_be_given_a_time_to_live() -> None:
    with RemoteServer(HandAdapter(), InOneGo()) as server:
        with server.client(user="mayfly") as client:
            assert client.read("END").startswith("END,")
        with server.client(user="nonsense") as refused:
            assert refused.head[-1].startswith("CONERR,66")
        with server.client(user="me") as other:
            assert other.head[0].startswith("CONOK")
