"""The demo's traffic-light controllers: each has a TLEX session of its own at the hub, and sends what its signals show.

Account, controllers and token are made in the hub's database as `penstock tlex` would make them. What the signals show
is in `intersection`. Specification: TLEX 1.1.1.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.client.errors import ClientError
from penstock.client.tlex import TlexApi, connect
from penstock.devices.intersection import Intersection
from penstock.log import get
from penstock.wire.tlex.vocabulary import SessionType, TlcType

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.store.store import Store

log = get(__name__)

# Of everything that the demo adds to the hub; its adapter set shows this domain and no other.
DOMAIN = "demo"
ACCOUNT = "Penstock demo"

# How the payloads are marked. The specification leaves the types below 0xF0 to its users; this is that of JSON here.
PAYLOAD_TYPE = 0x02

# Seconds between two payloads of a controller: often enough for signals to look alive.
TICK = 0.5

# Seconds before a session is tried again: the hub may be restarting, or see the database only after its next look.
AGAIN = 1.0


def register(store: Store, town: Sequence[Intersection]) -> str:
    """A new token for the demo's controllers; those of earlier runs end. Raises StoreError."""
    from penstock.exchange.authorization import Role
    from penstock.store.errors import NoSuchRecord

    now = time.time_ns() // 1_000_000
    try:
        account = store.account(ACCOUNT)
    except NoSuchRecord:
        account = store.add_account(ACCOUNT)
    known = {each.identifier for each in store.tlcs() if each.domain == DOMAIN}
    for intersection in town:
        if intersection.identifier not in known:
            store.add_tlc(DOMAIN, intersection.identifier, TlcType.TCP_STREAMING, account.uuid)
    found = [each for each in store.authorizations(account.uuid) if each.role is Role.TLC_SYSTEM]
    authorization = found[0] if found else store.authorize(account.uuid, DOMAIN, Role.TLC_SYSTEM)
    for token in store.tokens(authorization.uuid):
        if token.revoked is None:
            store.revoke(token.uuid, now)
    return store.add_token(authorization.uuid, now).secret


def registered(named: str, data_dir: Path, town: Sequence[Intersection]) -> str:
    """The same in the database of a server that runs; raises StoreError and OSError. Takes its time."""
    from penstock.store.opening import open_store

    store = open_store(named, data_dir)
    try:
        return register(store, town)
    finally:
        store.close()


async def control(intersection: Intersection, api: TlexApi, tick: float = TICK) -> None:
    """Be this controller until cancelled; a lost connection is made again."""
    while True:
        try:
            session = await api.create(DOMAIN, SessionType.TLC, [intersection.identifier], singleplex=True)
            async with await connect(session) as stream:
                while not (stream.closed or stream.is_to_reconnect):
                    stream.send(intersection.payload(time.time()), PAYLOAD_TYPE)
                    await stream.drain()
                    await asyncio.sleep(tick)
        except (ClientError, OSError) as error:
            log.debug("demo controller is not connected", controller=intersection.identifier, reason=str(error))
        await asyncio.sleep(AGAIN)
