"""Push notifications to Apple over HTTP/2: the provider, and beside it a bare loop of httpx with the same requests.

Both send to a stand-in in a process of its own (`rig.apns_peer`), which checks every request. They take turns in one
process, because what else the machine does changes over minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeAlias

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from bench.rig.apns_peer import CERTIFICATE, TOPIC
from bench.rig.child import Child
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.rig.table import row
from penstock.providers.apns import ApnsProvider, ApnsSettings
from penstock.push.ports import Verdict
from penstock.push.records import Notification

ABOUT = "push notifications a second to a stand-in of Apple's service over HTTP/2, beside a bare loop of httpx"

PAYLOAD = '{"aps":{"alert":"Price of Anduct now is 2.97","badge":1,"sound":"Default"}}'
NOW = 1_800_000_000
TIMEOUT = 60.0

# Sends one notification by its number; a text says what went wrong.
Send: TypeAlias = Callable[[int], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Notifications a second, by the clock and by the sender's CPU time; the stand-in's share of a core."""

    by_clock: float
    by_cpu: float
    peer_share: float


@dataclass(frozen=True, slots=True)
class Figures:
    ours: list[Pace]
    theirs: list[Pace]
    failures: Counter[str]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each, in turns (default %(default)s)")
    parser.add_argument("--open", type=int, default=500, help="notifications under way (default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return 2


def token(number: int) -> str:
    return f"{number:064x}"


def identifier(number: int) -> str:
    return f"0b5e0000-0000-4000-8000-{number:012}"


def of_provider(provider: ApnsProvider) -> Send:
    async def send(number: int) -> str:
        millis = NOW * 1_000
        notification = Notification(identifier(number), "", "", PAYLOAD, millis, millis + 60_000, lasting=True)
        handover = await provider.send(token(number), notification, NOW)
        return "" if handover.verdict is Verdict.ACCEPTED else handover.reason

    return send


def of_httpx(client: httpx.AsyncClient, address: str, bearer: str) -> Send:
    async def send(number: int) -> str:
        headers = {
            "apns-topic": TOPIC,
            "apns-push-type": "alert",
            "apns-priority": "10",
            "apns-id": identifier(number),
            "apns-expiration": str(NOW + 60),
            "authorization": bearer,
        }
        reply = await client.post(f"{address}/3/device/{token(number)}", content=PAYLOAD, headers=headers)
        return "" if reply.status_code == 200 else f"{reply.status_code} {reply.text}"

    return send


async def measure(send: Send, child: Child, seconds: float, under_way: int, failures: Counter[str]) -> Pace:
    done = 0

    async def work(numbers: Iterator[int]) -> None:
        nonlocal done
        for number in numbers:
            if wrong := await send(number):
                failures[wrong] += 1
            done += 1

    def until(end: float) -> Iterator[int]:
        number = 0
        while time.perf_counter() < end:
            yield number
            number += 1

    # The first makes the connection.
    await work(iter([0]))
    done = 0
    begun, cpu, peer = time.perf_counter(), time.process_time(), child.cpu_seconds()
    numbers = until(begun + seconds)
    await asyncio.gather(*[work(numbers) for _ in range(under_way)])
    took, cpu, peer = time.perf_counter() - begun, time.process_time() - cpu, child.cpu_seconds() - peer
    return Pace(done / took, done / cpu, peer / took)


async def compare(seconds: float, rounds: int, under_way: int, cores: Cores) -> Figures:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        key_file = directory / "key.p8"
        key = generate_private_key(SECP256R1())
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        figures = Figures([], [], Counter())
        with Child(directory, cores.server, "bench.rig.apns_peer") as child:
            address = f"https://localhost:{child.port}"
            provider = ApnsProvider(
                ApnsSettings(TOPIC, address, str(key_file), "KEY", "TEAM", trusted_ca=str(CERTIFICATE), timeout=TIMEOUT)
            )
            context = ssl.create_default_context(cafile=CERTIFICATE)
            # A signature is made once an hour by both.
            bearer = "bearer ey" + "x" * 180
            async with httpx.AsyncClient(http2=True, verify=context, timeout=TIMEOUT) as client:
                senders = (
                    (of_provider(provider), figures.ours),
                    (of_httpx(client, address, bearer), figures.theirs),
                )
                for number in range(rounds):
                    for send, paces in senders if number % 2 == 0 else reversed(senders):
                        paces.append(await measure(send, child, seconds, under_way, figures.failures))
            await provider.close()
    return figures


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("notifications")
    figures = await compare(options.seconds, options.rounds, options.open, cores)

    def middle(paces: list[Pace], name: str) -> float:
        return float(median([getattr(pace, name) for pace in paces]))

    rows = [
        row(title, middle(figures.ours, name), middle(figures.theirs, name), form)
        for title, name, form in (
            ("notifications a second", "by_clock", ",.0f"),
            ("notifications per CPU-second of the sender", "by_cpu", ",.0f"),
            ("core: stand-in", "peer_share", ".0%"),
        )
    ]
    title = f"{options.open:,} notifications under way, medians of {options.rounds} × {options.seconds:g} s"
    report.table(title, ("penstock", "httpx", "ratio"), rows)
    report.failures("the stand-in", figures.failures)
    return report.save()
