"""`python -m mutants [PLACE …]`: plant a random sample of small faults and run the nearest tests against each.

A place is a room, a file or a line below src/penstock: kernel, kernel/item.py, kernel/item.py:185. The exit code is 0
when enough faults were caught, 1 when too many survived, 2 when the sample could not be tried.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from random import Random, randrange
from typing import NamedTuple

from mutants.faults import Fault, find_faults
from mutants.rooms import PACKAGE, ROOMS, ROOT, nearest, sources
from mutants.trial import Outcome, Trees

# Of a hundred faults, so many must be caught.
ENOUGH = 90
EXPLAINED = Path(__file__).with_name("explained.toml")


class Mutant(NamedTuple):
    path: Path
    fault: Fault
    was: str
    now: str

    @property
    def place(self) -> str:
        return f"{self.path.relative_to(PACKAGE)}:{self.fault.line}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Stays the same when lines above it come and go."""
        return str(self.path.relative_to(PACKAGE)), self.was, self.now


class Unfit(Exception):
    """The sample cannot be tried."""


@cache
def mutants(room: str) -> list[Mutant]:
    found = []
    for path in sources(room):
        source = (ROOT / path).read_text()
        found += [Mutant(path, fault, *fault.lines(source)) for fault in find_faults(source)]
    return found


def explained(known: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    """The survivors that have a reason; one that does not fit the source any more is an error."""
    entries = tomllib.loads(EXPLAINED.read_text()).get("survivor", [])
    for entry in entries:
        if not entry.get("because") or (entry["file"], entry["was"], entry["now"]) not in known:
            raise Unfit(f"{EXPLAINED.name}: no such fault, or no reason: {entry}")
    return {(entry["file"], entry["was"], entry["now"]) for entry in entries}


def draw(places: list[str], size: int, seed: int) -> list[Mutant]:
    """As many faults from each room as from any other, each fault of a room as likely as any other."""
    all_of_them = [mutants(room) for room in ROOMS]
    reasons = explained({mutant.key for mutant in chain.from_iterable(all_of_them)})
    random = Random(seed)
    rooms = []
    for found in all_of_them:
        left = [mutant for mutant in found if mutant.key not in reasons and _is_in(mutant, places)]
        random.shuffle(left)
        rooms.append(left)
    mixed = [mutant for mutant in chain.from_iterable(zip_longest(*rooms)) if mutant is not None]
    if not mixed:
        raise Unfit(f"no faults to plant in {' '.join(places)}")
    return mixed[:size]


def _is_in(mutant: Mutant, places: list[str]) -> bool:
    return not places or any(mutant.place == at or mutant.place.startswith((f"{at}/", f"{at}:")) for at in places)


def attempt(sample: list[Mutant], workers: int, folder: Path) -> Iterator[tuple[Mutant, Outcome]]:
    """Each fault against its tests."""
    trees = Trees(folder, workers)

    def faulty(mutant: Mutant) -> Outcome:
        source = mutant.fault.plant((ROOT / mutant.path).read_text())
        return trees.run_faulty(mutant.path, source, nearest(mutant.path))

    with ThreadPoolExecutor(workers) as pool:
        try:
            yield from zip(sample, pool.map(faulty, sample), strict=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            trees.stop()
            raise


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("places", nargs="*", metavar="PLACE", help="all rooms when none is named")
    parser.add_argument("--sample", type=int, default=50, help="how many faults")
    parser.add_argument("--seed", type=int, default=None, help="the same seed, the same faults; any when none is given")
    parser.add_argument("--workers", type=int, default=2, help="faults that are tried at the same time")
    options = parser.parse_args()
    seed = randrange(10_000) if options.seed is None else options.seed
    survivors = 0
    # As an interrupt does: with it ends what is running.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        sample = draw(options.places, options.sample, seed)
        print(f"mutants: {len(sample)} faults, seed {seed}", flush=True)
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            for mutant, outcome in attempt(sample, options.workers, Path(folder)):
                how = outcome.how if outcome.caught or outcome.unsure else ""
                print(f"{outcome.verdict:8}  {mutant.place}  {outcome.seconds:.0f} s  {how}")
                print(f"    - {mutant.was}\n    + {mutant.now}", flush=True)
                survivors += not outcome.caught
    except Unfit as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    share = 100 * (len(sample) - survivors) / len(sample)
    print(f"mutants: {len(sample) - survivors} of {len(sample)} caught, {share:.0f} %; at least {ENOUGH} % are wanted")
    return 0 if share >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
