"""The public key of a site for Web Push, which pages get as an item: from a file, and from another one after SIGHUP."""

from __future__ import annotations

import base64
import signal
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.providers.peers import write_key
from tests.support.process import ServerProcess
from tests.support.raw import Exchange, params

ADAPTER = "MPN_INTERNAL_DATA_ADAPTER"


def public(key: EllipticCurvePrivateKey) -> str:
    point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return base64.urlsafe_b64encode(point).rstrip(b"=").decode()


def wish(site: str, number: int) -> str:
    return params(
        reqId=number,
        op="add",
        subId=number,
        data_adapter=ADAPTER,
        group=f"WEB-{site}",
        schema="public_key",
        mode="MERGE",
        snapshot=True,
    )


def test_the_key_of_a_site_is_an_item_that_changes_when_credentials_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "site.pem"
    first = write_key(file)
    settings = {
        "push.enabled": True,
        "push.web.shop.service_level": "production",
        "push.web.shop.contact": "mailto:ops@example.com",
        "push.web.shop.key_file": str(file),
        "push.web.logged.service_level": "test",
    }
    with (
        ServerProcess(tmp_path, settings) as process,
        Exchange("127.0.0.1", process.port).socket() as socket,
    ):
        socket.create("WELCOME", send_sync=False)
        socket.send("control", wish("shop", 1))
        assert socket.read_until("U")[-1] == f"U,1,1,{public(first)}"
        second = write_key(file)
        process.send_signal(signal.SIGHUP)
        assert socket.read_until("U")[-1] == f"U,1,1,{public(second)}"
        for number, site in ((2, "logged"), (3, "unknown")):
            socket.send("control", wish(site, number))
            expected = f"REQERR,{number},21,LS_group: There is no site {site} for Web Push that has a key"
            assert socket.read_until("REQERR")[-1] == expected
