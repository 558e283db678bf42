"""Ready-made jobs on a machine that does not see the server's disk: they read and publish over the network."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.config import load
from penstock.journal.selection import EventSelection
from penstock.pipeline.errors import BadOption
from penstock.pipeline.place import Place
from penstock.pipeline.progress import QueryMeter
from penstock.pipeline.remote import RemoteJournalAddress
from penstock.pipeline.replay import open_history
from penstock.pipeline.status import QueryStatus
from tests.pipeline.jobs.test_candles import DELAY, SIZES, expected, market, trades
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN
from tests.pipeline.world import NOON, SECOND, held, make_journal, some
from tests.support.journal_server import TOKEN as READER_TOKEN
from tests.support.journal_server import JournalServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "journal.readers.spark.token": READER_TOKEN,
    "journal.readers.spark.entities": ["WELCOME/STOCKS/*"],
    'adapters.SET.data.OUT.parameters.items."candle.*"': "MERGE",
    'adapters.SET.data.OUT.parameters.items."candles.*"': "DISTINCT",
}
EVENTS = 900


def configured(directory: Path, content: str) -> Place:
    path = directory / "penstock.toml"
    path.write_text(content)
    return Place.of(load(path, {"server.data_dir": str(directory / "own")}).config)


REMOTE = f'[pipeline]\napi = "http://127.0.0.1:1"\njournal = "server"\nreader_token = "{READER_TOKEN}"\n'


def test_the_configuration_says_that_the_journal_is_read_from_the_server(tmp_path: Path) -> None:
    place = configured(tmp_path, f'{REMOTE}checkpoints = "s3a://bucket/x/"\n')
    assert place.remote_journal == RemoteJournalAddress("http://127.0.0.1:1", READER_TOKEN)
    assert place.checkpoint("candles") == "s3a://bucket/x/candles"
    assert READER_TOKEN not in repr(place)
    # The server has it, or says that it has none.
    place.check_data()
    here = configured(tmp_path, "[pipeline]\n")
    assert here.remote_journal is None
    assert here.checkpoint("candles") == str(tmp_path / "own" / "checkpoints" / "candles")
    assert configured(tmp_path, '[pipeline]\ncheckpoints = "/shared"\n').checkpoint("candles") == "/shared/candles"


@pytest.mark.parametrize("token", ["", f'reader_token = "{READER_TOKEN}"\nreader_token_file = "x"\n'])
def test_a_server_without_exactly_one_token_for_it_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(BadOption) as refused:
        configured(tmp_path, f'[pipeline]\njournal = "server"\n{token}')
    assert str(refused.value) == (
        'pipeline.journal is "server"; expected pipeline.reader_token or pipeline.reader_token_file as well'
    )


def test_what_needs_the_directory_says_so(tmp_path: Path) -> None:
    from penstock.pipeline.backfill import past_events
    from penstock.pipeline.jobs import history

    place = configured(tmp_path, REMOTE)
    never: Any = None
    with pytest.raises(BadOption, match=r"^pipeline.journal is .server., so the job history needs lake.url"):
        history.start(never, place, history.Settings())
    with pytest.raises(BadOption, match=r"^a replay needs the journal's directory"):
        open_history(place)
    with pytest.raises(BadOption, match=r"^source = both needs the journal's directory"):
        past_events(never, place, ["*"], (), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


def test_how_far_a_query_is_behind_is_asked_of_the_server(tmp_path: Path) -> None:
    progress = {"batchId": 4, "sources": [{"endOffset": '{"sequence": 7, "salt": 5}'}], "stateOperators": []}
    status = QueryStatus(name="candles")
    with JournalServer(tmp_path) as server:
        server.append(some(10))
        meter = QueryMeter(
            RemoteJournalAddress(server.api, READER_TOKEN), clock=lambda: 0.0, wall=lambda: (NOON + 20 * SECOND) / 1e6
        )
        for _ in range(2):
            meter.take(status, [progress])
            assert (status.lag_events, status.lag_seconds) == (3, 12.0)
    # Nobody waits for a server that is away: the figures stay.
    meter.take(status, [{**progress, "batchId": 5}])
    assert (status.batch, status.lag_events) == (5, 3)


# Two servers and two queries; the machine may have much other work.
@pytest.mark.timeout(900)
def test_candles_over_the_network_are_those_of_the_directory(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.jobs import candles

    settings = candles.Settings(adapter_set="SET", adapter="OUT", delay_seconds=DELAY, max_events=500)
    published = {}
    for kind in ("directory", "server"):
        folder = tmp_path / kind
        path = make_journal(folder / "data" / "journal", market(EVENTS, too_late=False))
        wanted = expected(trades(path))
        with RealServer(folder, SETTINGS) as server:
            if kind == "directory":
                place = Place(folder / "data", server.api, TOKEN)
            else:
                place = Place(
                    folder / "own",
                    server.api,
                    TOKEN,
                    remote=True,
                    reader_token=READER_TOKEN,
                    checkpoint_root=f"file://{folder}/shared",
                )
            candles.start(spark, place, settings, once=True).awaitTermination()
            made = EventSelection(entities=("SET/OUT/candle*",))
            published[kind] = list(zip(*held(path, made).select(["entity", "value"]).to_pydict().values(), strict=True))
    assert published["server"] == published["directory"]
    newest = trades(path)["micros"].max()
    over = [key for key in wanted if (key[2] + SIZES[key[0]] + DELAY) * SECOND <= newest]
    assert len([item for item, _ in published["server"] if item.startswith("SET/OUT/candles.")]) == len(over)
    assert (tmp_path / "server" / "shared" / "candles" / "windows").is_dir()
    assert not (tmp_path / "server" / "own" / "checkpoints").exists()
