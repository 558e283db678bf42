from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.providers.log import LogProvider
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Platform
from penstock.push.refusals import PushReason, PushRefusal
from tests.providers.peers import NOW, notification


def test_notifications_are_logged_as_in_the_specification_and_tokens_are_not(caplog: pytest.LogCaptureFixture) -> None:
    provider = LogProvider(Platform.APPLE, "com.mydomain.myapp")
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            handover = asyncio.run(provider.send("the-token", notification('{"aps":{"badge":1}}'), NOW))
            assert handover == Handover(Verdict.ACCEPTED)
    assert [record.getMessage() for record in caplog.records] == [
        f'Payload for subscription subscription with notification ID {number}: {{"aps":{{"badge":1}}}}'
        for number in (1, 2)
    ]
    assert "the-token" not in str([record.__dict__ for record in caplog.records])


def test_any_token_and_any_format_will_do_but_none_that_is_empty() -> None:
    provider = LogProvider(Platform.GOOGLE, "com.mydomain.myapp")
    assert (provider.platform, provider.application, provider.max_payload) == (
        Platform.GOOGLE,
        "com.mydomain.myapp",
        4_096,
    )
    provider.check_token("any string at all")
    assert provider.check_format({"any": "thing"}) == {"any": "thing"}
    with pytest.raises(PushRefusal) as refusal:
        provider.check_token("")
    assert refusal.value.reason is PushReason.TOKEN
    with pytest.raises(PushRefusal) as refusal:
        provider.check_format({})
    assert refusal.value.reason is PushReason.FORMAT_EMPTY
    provider.reload()
    asyncio.run(provider.close())
