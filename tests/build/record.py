"""`python -m tests.build.record kernel|wire`: drives the build that PENSTOCK_BUILD names, prints what comes out of it.

The inputs are random but always the same, so that the outputs of two builds can be compared line by line.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from fuzz.seeds import SEEDS, WORDS
from fuzz.targets import read_answers
from penstock.client.requests import StreamWishes
from penstock.kernel.item import Mode
from penstock.kernel.ports import Codec
from penstock.testing import Harness, MemoryChannel, TruthSource
from penstock.testing.ari_peer import parse_request
from penstock.testing.text6_reader import PushReader
from penstock.wire.ari.lines import LineReader
from penstock.wire.ari.packets import AriStream, parse_packet
from penstock.wire.ari.version import NEWEST, OLDEST
from penstock.wire.ditto.envelope import parse_envelope
from penstock.wire.ditto.fields import parse_fields
from penstock.wire.ditto.rql import parse_rql, print_rql
from penstock.wire.form import parse_line, split_lines
from penstock.wire.http1 import RequestParser
from penstock.wire.text6.codec import Text6Codec
from penstock.wire.text6.requests import REQUESTS
from penstock.wire.text6.requests import parse_requests as parse_text6
from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.requests import parse_requests
from penstock.wire.tlcp.values import decode_values
from penstock.wire.tlcp.version import SUPPORTED
from penstock.wire.tlex.datagrams import decode
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.frames import TlexFrameReader as TlexReader
from penstock.wire.websocket import FrameReader, text_messages
from tests.kernel.test_model import (
    BANDWIDTHS,
    BUFFERS,
    FREQUENCIES,
    MODES,
    PATIENCE,
    SCHEMAS,
    TIGHT,
    UNENDED,
    WIDE,
    Customer,
)
from tests.wire.tlex.cases import CASES

# Plays with a kernel, and steps of each.
RUNS = 60
STEPS = 60

VALUES = (None, "", "1", "2", "#", "a|b", "%41", "\r\n", "\u00e9\U0001f600", "a longer text" * 9)
COMMANDS = ("ADD", "UPDATE", "UPDATE", "DELETE")

# Inputs for each codec, made from its seeds.
INPUTS = 400

LIMIT = 2_000

# The first bytes of a stream say how it is cut into pieces, as in the seeds for fuzzing.
CUT = b"\x05\x00\x40\x11"

CODECS: list[Codec] = [*(TlcpCodec(version) for version in SUPPORTED), TlcpCodec(SUPPORTED[-1], "T", 5), Text6Codec()]
ORDERS = ("", "T", "P", "PT", "TP")
NAMES = ("create_session", "bind_session", "control", "msg", "heartbeat", "wsok", "unknown")

ARI = [
    b"1|RAC|S|user|S|u|S|password|S|p|S|enableClosePacket|S|true\r\n10000010c3e4d0462|SUB|V\r\n",
    b"1|UD3|S|item|S|10c3|B|0|S|last|S|1.5%7C|S|time|S|$|S|none|S|#\r\nKEEPALIVE\r\n2|EOS|S|item|S|10c3\r\n",
    b"3|CLS|S|item|S|1\r\n4|DFD|S|item|S|1|S|text|FD|PT\r\n5|FAL|E|broken\r\n",
    b"6|NUS|D|0|B|1\r\n7|GIS|S|a|S|b\r\n8|GIT|I|3|I|0|D|0|M|RMDC\r\n9|GUI|I|1|D|0.5|M|M\r\n10|NUS|EC|no|C|-7|S|why\r\n",
]
DITTO = [
    b'{"topic":"org.eclipse/x/things/twin/commands/modify","headers":{"correlation-id":"c"},"path":"/features/a/b",'
    b'"value":{"x":[1,2.5,"\\u00e9",null,true]},"revision":3,"fields":"thingId,attributes(a/b,c)"}',
    b'{"topic":"_/_/things/twin/search/subscribe","path":"/","value":{"filter":"and(eq(a,1),not(like(b,\\"x*\\")))"}}',
]
RQL = [
    b'and(eq(attributes/a,"x"),or(gt(features/b/c,-1.5e3),in(d,1,true,null)),not(exists(e)))',
    b'like(thingId,"a*?b\\u00e9")',
    b"thingId,attributes(a,b/c(d,e)),_revision",
]
TEXT6 = [
    b"LS_op=add&LS_session=S1&LS_table=1&LS_id=g&LS_schema=s&LS_mode=MERGE&LS_snapshot=true&LS_requested_max_frequency=2",
    b"LS_session=S1&LS_sequence=A&LS_msg_prog=1&LS_message=%C3%A9&LS_op=reconf&LS_table=2&LS_Requested_Max_Frequency=.5",
    b"LS_op2=create&LS_cid=c&LS_adapter_set=DEMO&LS_polling=true&LS_polling_millis=0&LS_idle_millis=1&LS_user=u",
]
PUSHES = [
    CUT + b"OK\r\nSessionId:S1\r\nControlAddress:h\r\nKeepaliveMillis:5000\r\n\r\n"
    b"1,1|a|\\u00e9|#|$\r\nPROBE\r\n1,1,EOS\r\nLOOP 0\r\n"
]


# -- the kernel ----------------------------------------------------------------------------------------------------


class Play:
    """One kernel with two clients, to which anything may happen."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.source = TruthSource(MODES, UNENDED)
        limits = replace(
            PATIENCE, max_recovery_length=chance.choice((300, 1_000_000)), max_buffer_size=chance.choice((TIGHT, WIDE))
        )
        self.harness = Harness(limits, source=self.source, overhead=chance.choice((0, 9)))
        self.customers = [Customer(self.harness) for _ in range(2)]

    def step(self) -> None:
        move = self.chance.choice(
            (
                self.publish,
                self.publish,
                self.publish,
                self.advance,
                self.subscribe,
                self.limit,
                self.network,
                self.clear,
            )
        )
        move(self.chance.choice(self.customers))

    def publish(self, customer: Customer) -> None:
        for _ in range(self.chance.randrange(12)):
            item = self.chance.choice(sorted(MODES))
            event: dict[str, str | None] = {name: self.chance.choice(VALUES) for name in self.chance.sample("xyz", 2)}
            if MODES[item] is Mode.COMMAND:
                event |= {"key": self.chance.choice("abc"), "command": self.chance.choice(COMMANDS)}
            self.source.publish(item, event)
            if self.chance.random() < 0.3:
                self.harness.turn()

    def advance(self, customer: Customer) -> None:
        self.harness.advance(self.chance.choice((0.0, 0.01, 0.3, 2.0)))
        customer.peer.receive(self.chance.choice((None, 50)))

    def subscribe(self, customer: Customer) -> None:
        numbers = sorted(customer.model.subscriptions)
        if numbers and self.chance.random() < 0.4:
            customer.unsubscribe(self.chance.choice(numbers))
            return
        mode = self.chance.choice(sorted(SCHEMAS, key=lambda mode: mode.value))
        items = [item for item, bound in MODES.items() if mode in (bound, Mode.RAW)]
        customer.subscribe(
            " ".join(self.chance.choices(items, k=2)),
            self.chance.choice(SCHEMAS[mode]),
            mode,
            snapshot=self.chance.random() < 0.5,
            frequency=self.chance.choice(FREQUENCIES),
            buffer_size=self.chance.choice(BUFFERS),
            unfiltered=self.chance.random() < 0.3,
        )

    def limit(self, customer: Customer) -> None:
        customer.constrain(self.chance.choice(BANDWIDTHS))
        if customer.filtered:
            customer.reconfigure(self.chance.choice(customer.filtered), self.chance.choice(FREQUENCIES))
        self.harness.kernel.set_strain(self.chance.choice((0.0, 0.0, 0.05)))

    def network(self, customer: Customer) -> None:
        peer = customer.peer
        move = self.chance.choice((peer.channel.congest, peer.channel.relieve, peer.session.rebind, peer.cut))
        if not customer.must_bind:
            move()
            peer.receive()
        if customer.must_bind:
            customer.bind(StreamWishes(polling=self.chance.random() < 0.3), self.chance.choice((0, 1, 7)))

    def clear(self, customer: Customer) -> None:
        item = self.chance.choice(sorted(MODES))
        self.source.clear(item)
        self.harness.feed.end_of_snapshot(item)
        customer.messages += 1
        self.harness.submit(customer.peer.session, "hello", "S", customer.messages)


def record_kernel() -> Iterator[str]:
    """Every write to every client. Not by Hypothesis, whose choices depend on the sources that it can see."""
    written: list[str] = []
    write = MemoryChannel.write

    def recorded(channel: MemoryChannel, lines: Sequence[bytes]) -> int:
        written.append(f"{channel._clock()} {channel.writes} {b''.join(lines)!r}")
        return write(channel, lines)

    MemoryChannel.write = recorded  # type: ignore[method-assign,assignment]
    for number in range(RUNS):
        play = Play(random.Random(number))
        for _ in range(STEPS):
            play.step()
        for customer in play.customers:
            customer.settle()
    yield from written


# -- the wire ------------------------------------------------------------------------------------------------------


def pieces(data: bytes) -> list[bytes]:
    """The data behind the first four bytes, in pieces whose sizes they say."""
    sizes, found = data[:4], list[bytes]()
    start = len(sizes)
    while start < len(data):
        size = sizes[len(found) % len(sizes)] + 1
        found.append(data[start : start + size])
        start += size
    return found


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def read_requests(data: bytes) -> object:
    name = NAMES[data[0] % len(NAMES)] if data else ""
    found = parse_requests(name, split_lines(text(data[1:])), {})
    return [said(entry) for entry in found]


def read_text6(data: bytes) -> object:
    return [said(entry) for name in REQUESTS for entry in parse_text6(name, split_lines(text(data)), {})]


def read_http(data: bytes) -> object:
    parser = RequestParser(LIMIT, LIMIT)
    found = [request for piece in pieces(data) for request in parser.feed(piece)]
    return found, said(parser.error), parser.leftover


def read_frames(data: bytes) -> object:
    reader = FrameReader(LIMIT)
    return [(reader.feed(piece), reader.to_send(), reader.is_open) for piece in pieces(data)]


def read_http2(data: bytes) -> object:
    return read_answers(pieces(data))


def read_ari(data: bytes) -> object:
    reader = LineReader(LIMIT)
    lines = [line for piece in pieces(data) for line in reader.feed(piece)]
    return [
        [tried(parse_packet, line, stream, version) for stream in AriStream for version in (None, OLDEST, NEWEST)]
        + [tried(parse_request, line, NEWEST)]
        for line in lines
    ] + [said(reader.error)]


def read_tlex(data: bytes) -> object:
    reader = TlexReader(LIMIT)
    frames = [frame for piece in pieces(data) for frame in reader.feed(piece)]
    return [tried(decode, frame) for frame in frames], said(reader.error)


def read_push(data: bytes) -> object:
    reader = PushReader(stream=True)
    return [reader.feed(piece) for piece in pieces(data)], tried(reader.close)


def encode(data: bytes) -> object:
    """Value lists, old and new, and lines in frames."""
    chance = random.Random(data)
    size = 1 + len(data) % 7
    given = [word.decode("utf-8", "replace") * chance.choice((1, 1, 9)) for word in data.split(b"|")] + [""]
    new: tuple[str | None, ...] = tuple(chance.choice((None, *given)) for _ in range(size))
    old = tuple(chance.choice((value, value, chance.choice(given))) for value in new)
    orders = [chance.choice(ORDERS) for _ in range(size)]
    return [
        (codec.update_prefix(1, size), codec.update_body(new, before, wanted, size % 2))
        for codec in CODECS
        for before in (None, old)
        for wanted in ((), orders)
    ] + [text_messages([line + b"\r\n" for line in data.split(b"\n")], 20)]


TARGETS: dict[str, tuple[Callable[[bytes], object], list[bytes], list[bytes]]] = {
    "form": (lambda data: parse_line(text(data)), SEEDS["requests"], WORDS["requests"]),
    "requests": (read_requests, SEEDS["requests"], WORDS["requests"]),
    "text6": (read_text6, TEXT6, WORDS["requests"]),
    "push": (read_push, PUSHES, [b"|", b"\r\n", b"\\u00e9", b",OV3", b"EOS", b"END 7"]),
    "values": (lambda data: decode_values(text(data), ("a", None, "c"), 3), SEEDS["values"], WORDS["values"]),
    "encode": (encode, [*SEEDS["values"], b'{"a":[1,2]}|{"a":[1,3],"b":"\xc3\xa9"}|long text|short'], WORDS["values"]),
    "http1": (read_http, SEEDS["http1"], WORDS["http1"]),
    "websocket": (read_frames, SEEDS["websocket"], WORDS["websocket"]),
    "http2": (read_http2, SEEDS["http2"], WORDS["http2"]),
    "ari": (read_ari, [CUT + line for line in ARI], [b"|", b"\r\n", b"|S|", b"%41", b"KEEPALIVE", b"|#", b"|$"]),
    "tlex": (read_tlex, [CUT + PREAMBLE + data for data, _ in CASES], [b"\xaa\xbb", b"\0\1", b"\xff"]),
    "ditto": (parse_envelope, DITTO, [b'"', b"{", b"}", b"/", b"null", b"_", b",", b":"]),
    "rql": (lambda data: print_rql(parse_rql(text(data))), RQL, [b"(", b")", b",", b"eq", b'"', b"1e9", b"\\"]),
    "fields": (lambda data: parse_fields(text(data)), RQL, [b"(", b")", b",", b"/", b"a"]),
}


def said(entry: object) -> str:
    """An outcome, told by what it says: errors have no equality."""
    return f"{type(entry).__name__}: {entry}" if isinstance(entry, Exception) else repr(entry)


def tried(attempt: Callable[..., object], *arguments: object) -> str:
    try:
        return said(attempt(*arguments))
    except (AttributeError, NameError, TypeError):
        # Nothing that a peer could send: both builds would fail alike, and nothing would be compared.
        raise
    except Exception as error:
        return f"raised {said(error)}"


def mutated(seeds: list[bytes], words: list[bytes], chance: random.Random) -> bytes:
    """One of the seeds with a few words put in, pieces left out, bytes changed."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(data) + 1)
        change = chance.randrange(3)
        if change == 0:
            data[place:place] = chance.choice(words)
        elif change == 1:
            del data[place : place + chance.randrange(8)]
        elif place < len(data):
            data[place] = chance.randrange(256)
    return bytes(data)


def record_wire() -> Iterator[str]:
    """What every codec makes of many inputs."""
    for name, (target, seeds, words) in TARGETS.items():
        chance = random.Random(name)
        for data in [*seeds, *(mutated(seeds, words, chance) for _ in range(INPUTS))]:
            yield f"{name} {data!r} {tried(target, data)}"


RECORDERS = {"kernel": record_kernel, "wire": record_wire}

if __name__ == "__main__":
    for line in RECORDERS[sys.argv[1]]():
        print(line)
