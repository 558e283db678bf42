from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from penstock.wire.tlcp.codec import TlcpCodec
from penstock.wire.tlcp.version import NEWEST
from tests.interop.libraries import ROOT, require
from tests.interop.published import CLIENTS

pytestmark = pytest.mark.interop

DRIVER = ROOT / "drivers" / "python_decoder.py"
DECODERS = {"python-2.2.3": CLIENTS["python-2.2.3"].program}

# Orders of formats, one for each field.
ORDERS = ("PT", "TP", "P", "T", "")
CHAINS = 60
UPDATES = 12

Values = tuple[str | None, ...]
Chain = list[tuple[Values, int]]

LETTERS = 'abcdefgh |%^#$,é€\r\n"\\~/'


class Chance:
    """Random texts and documents, and edits of them as feeds make them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        letters = LETTERS + "𝄞" * (self._random.random() < 0.1)
        return "".join(self._random.choices(letters, k=self._random.choice([1, 30, 80, 700, 3000])))

    def edited(self, text: str) -> str:
        for _ in range(self._random.randint(1, 4)):
            start = self._random.randint(0, len(text))
            end = min(len(text), start + self._random.choice([0, 1, 5, 40]))
            text = (
                text[:start] + "".join(self._random.choices(LETTERS, k=self._random.choice([0, 1, 8, 40]))) + text[end:]
            )
        return text

    def document(self, depth: int = 4) -> Any:
        choice = self._random.randint(0, 9 if depth else 5)
        if choice < 6:
            return [None, True, 1, 1.0, -0.5, "".join(self._random.choices(LETTERS + "𝄞", k=9))][choice]
        inner = [self.document(depth - 1) for _ in range(self._random.randint(0, 7))]
        return inner if choice < 8 else {self._random.choice(["", "a/b", "~"]) + str(n): v for n, v in enumerate(inner)}

    def changed(self, document: Any) -> Any:
        """The same with one part another, somewhere."""
        if isinstance(document, list) and document and self._random.random() < 0.9:
            index = self._random.randrange(len(document))
            middle = self._random.choice([[], [self.document(1), document[index]], [self.changed(document[index])]])
            return document[:index] + middle + document[index + 1 :]
        if isinstance(document, dict) and document and self._random.random() < 0.9:
            name = self._random.choice(list(document))
            return document | {name: self.changed(document[name]), str(self._random.randrange(9)): self.document(1)}
        return self.document(2)

    def next(self, value: str | None) -> str | None:
        chance = self._random.random()
        if chance < 0.1:
            return value
        if chance < 0.2:
            return self._random.choice([None, ""])
        if chance < 0.3 or not value:
            return self.text() if chance < 0.25 else json.dumps([self.document() for _ in range(9)], ensure_ascii=False)
        try:
            document = json.loads(value)
        except ValueError:
            return self.edited(value)
        if chance < 0.4:
            return self.edited(value)
        return json.dumps(self.changed(document), ensure_ascii=chance < 0.6)


def make_chain(seed: int) -> tuple[Chain, list[str]]:
    """Values, with which of them are patched at the client, and the lines that carry them."""
    chance = Chance(seed)
    codec = TlcpCodec(NEWEST, min_length=0)
    chain: Chain = []
    lines: list[str] = []
    previous: Values | None = None
    patched = 0
    for _ in range(UPDATES):
        values = tuple(chance.next(None if previous is None else previous[index]) for index in range(len(ORDERS)))
        body, patched = codec.update_body(values, previous, ORDERS, patched)
        lines.append((codec.update_prefix(1, 1) + body).decode().removesuffix("\r\n"))
        chain.append((values, patched))
        previous = values
    return chain, lines


def canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


@pytest.mark.parametrize("program", DECODERS.values(), ids=DECODERS)
def test_the_published_client_rebuilds_every_value_from_our_differences(program: Path) -> None:
    chains = [make_chain(seed) for seed in range(CHAINS)]
    requests = [json.dumps({"lines": lines, "fields": len(ORDERS)}) + "\n" for _, lines in chains]
    done = subprocess.run(
        [require(program), DRIVER], input="".join(requests), capture_output=True, text=True, timeout=50, check=True
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == CHAINS, done.stderr
    compared = {"P": 0, "T": 0}
    for (chain, lines), states in zip(chains, answers, strict=True):
        assert isinstance(states, list), (states, lines)
        for (values, patched), line, state in zip(chain, lines, states, strict=True):
            for letter in compared:
                compared[letter] += line.count(f"^{letter}")
            for index, (value, held) in enumerate(zip(values, state, strict=True)):
                if patched >> index & 1:
                    assert canonical(held) == canonical(value or ""), line
                else:
                    assert held == value, line
    # Otherwise the test has compared nothing.
    assert min(compared.values()) > 200, compared
