"""Adapters from the tables of the configuration: imported, checked against the signature of their class, and made."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters import DataAdapter, MetadataAdapter
from penstock.adapters.loading import DATA_ADAPTERS, METADATA_ADAPTERS, Loader, SetPlan, Unusable
from penstock.config import AdapterSetSection, ConfigError, DataSection, MetadataSection

# Modules live as long as the process: every one that a test writes has a name of its own.
NUMBERS = count(1)

QUOTES = """
from __future__ import annotations
from collections.abc import Sequence
from pathlib import Path
from typing import Required, TypedDict, Unpack
from penstock.adapters import DataAdapter, MetadataAdapter

class Quotes(DataAdapter):
    def __init__(self, url: str, seconds: float = 1.0, *, file: Path | None = None, names: Sequence[str] = ()) -> None:
        self.given = (url, seconds, file, names)

class Anything(DataAdapter):
    def __init__(self, **parameters: object) -> None:
        self.given = parameters

class Settings(TypedDict, total=False):
    port: Required[int]
    certificate: Path

class Unpacked(DataAdapter):
    def __init__(self, depth: int = 1, **settings: Unpack[Settings]) -> None:
        self.given = (depth, settings)

class Placed(DataAdapter):
    def __init__(self, depth: int = 1, directory: Path = Path()) -> None:
        self.given = directory

class Untyped(DataAdapter):
    def __init__(self, market, levels=None):
        self.given = (market, levels)

class Failing(DataAdapter):
    def __init__(self) -> None:
        raise ValueError("no such market")

class Leaving(DataAdapter):
    def __init__(self) -> None:
        raise SystemExit(3)

class Access(MetadataAdapter):
    pass

class Neither:
    pass

def function() -> None:
    pass
"""


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def module(directory: Path, source: str = QUOTES) -> str:
    name = f"loaded_{next(NUMBERS)}"
    (directory / f"{name}.py").write_text(source)
    return name


def loader(directory: Path) -> Loader:
    return Loader(directory, "penstock.toml")


def one(adapter: str, optional: bool = False, **parameters: Any) -> AdapterSetSection:
    return AdapterSetSection(data={"D": DataSection(adapter=adapter, parameters=parameters, optional=optional)})


def given(plan: SetPlan) -> Any:
    return plan.adapter_set.data["D"].given  # type: ignore[attr-defined]


def complaint(directory: Path, table: AdapterSetSection) -> str:
    """The one line."""
    with pytest.raises(ConfigError) as made:
        loader(directory).load("Q", table)
    assert len(str(made.value).splitlines()) == 1
    return str(made.value)


# -- what is made --------------------------------------------------------------------------------------------------


def test_a_set_is_made_of_classes_in_files_next_to_the_configuration(tmp_path: Path) -> None:
    name = module(tmp_path)
    table = AdapterSetSection(
        timeout_millis=700,
        metadata=MetadataSection(adapter=f"{name}:Access"),
        data={
            "B": DataSection(adapter=f"{name}:Quotes", parameters={"url": "b"}),
            "A": DataSection(adapter=f"{name}:Anything"),
        },
    )
    adapter_set = loader(tmp_path).load("Q", table).adapter_set
    assert (adapter_set.name, adapter_set.timeout_millis) == ("Q", 700)
    assert type(adapter_set.metadata).__name__ == "Access"
    assert [(key, type(value).__name__) for key, value in adapter_set.data.items()] == [
        ("B", "Quotes"),
        ("A", "Anything"),
    ]


def test_without_a_table_the_metadata_adapter_is_the_literal_one(tmp_path: Path) -> None:
    assert type(loader(tmp_path).load("Q", AdapterSetSection()).adapter_set.metadata) is MetadataAdapter


def test_modules_of_packages_are_found(tmp_path: Path) -> None:
    package = tmp_path / f"package_{next(NUMBERS)}"
    package.mkdir()
    name = module(package)
    assert given(loader(tmp_path).load("Q", one(f"{package.name}.{name}:Quotes", url="x")))[0] == "x"


def test_every_set_has_adapters_of_its_own(tmp_path: Path) -> None:
    table = one(f"{module(tmp_path)}:Anything", levels=[1, 2])
    first, second = (loader(tmp_path).load(name, table) for name in ("A", "B"))
    assert first.adapter_set.data["D"] is not second.adapter_set.data["D"]
    given(first)["levels"].append(3)
    assert given(second) == {"levels": [1, 2]}
    assert table.data["D"].parameters == {"levels": [1, 2]}


def test_parameters_become_what_their_annotations_say(tmp_path: Path) -> None:
    plan = loader(tmp_path).load("Q", one(f"{module(tmp_path)}:Quotes", url="x", seconds=2, names=["a", "b"]))
    assert given(plan) == ("x", 2.0, None, ["a", "b"])
    assert type(given(plan)[1]) is float


def test_a_relative_path_begins_at_the_configuration_file(tmp_path: Path) -> None:
    name = module(tmp_path)
    plan = loader(tmp_path).load("Q", one(f"{name}:Quotes", url="x.txt", file="feed/x.csv"))
    assert given(plan)[:3] == ("x.txt", 1.0, tmp_path / "feed" / "x.csv")
    plan = loader(tmp_path).load("Q", one(f"{name}:Quotes", url="x.txt", file="/feed/x.csv"))
    assert given(plan)[2] == Path("/feed/x.csv")


def test_parameters_without_annotations_are_handed_over_as_they_are(tmp_path: Path) -> None:
    plan = loader(tmp_path).load("Q", one(f"{module(tmp_path)}:Untyped", market={"a": 1}, levels="x"))
    assert given(plan) == ({"a": 1}, "x")


def test_an_annotation_that_cannot_be_looked_up_is_no_mistake_and_the_others_hold(tmp_path: Path) -> None:
    source = QUOTES.replace("url: str", "url: Elsewhere")
    plan = loader(tmp_path).load("Q", one(f"{module(tmp_path, source)}:Quotes", url=5, file="x.csv"))
    assert given(plan)[:3] == (5, 1.0, tmp_path / "x.csv")


def test_parameters_of_an_unpacked_table_are_parameters_like_others(tmp_path: Path) -> None:
    path = f"{module(tmp_path)}:Unpacked"
    plan = loader(tmp_path).load("Q", one(path, port=5, certificate="x.pem"))
    assert given(plan) == (1, {"port": 5, "certificate": tmp_path / "x.pem"})
    assert complaint(tmp_path, one(path)).endswith(".port: missing; Unpacked takes depth, port, certificate")
    assert complaint(tmp_path, one(path, port="x")).endswith('.port = "x": expected int, got str')
    assert ".prt = 5: unknown parameter (did you mean port?)" in complaint(tmp_path, one(path, port=5, prt=5))


def test_a_class_that_asks_for_the_directory_is_given_that_of_the_configuration_file(tmp_path: Path) -> None:
    path = f"{module(tmp_path)}:Placed"
    assert given(loader(tmp_path).load("Q", one(path))) == tmp_path
    assert given(loader(tmp_path).load("Q", one(path, directory="inner"))) == tmp_path / "inner"


@pytest.mark.parametrize("name", METADATA_ADAPTERS)
def test_every_ready_made_metadata_adapter_can_be_imported(tmp_path: Path, name: str) -> None:
    recipe = loader(tmp_path)._metadata("Q", MetadataSection(adapter=name))
    assert issubclass(recipe._class(), MetadataAdapter)


@pytest.mark.parametrize("name", DATA_ADAPTERS)
def test_every_ready_made_data_adapter_can_be_imported(tmp_path: Path, name: str) -> None:
    recipe = loader(tmp_path)._data("Q", "D", DataSection(adapter=name))
    assert issubclass(recipe._class(), DataAdapter)


def test_a_file_next_to_the_configuration_does_not_take_the_place_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "wave.py").write_text("raise RuntimeError('the wrong one')")
    loader(tmp_path).load("Q", one(f"{module(tmp_path)}:Anything"))
    sys.modules.pop("wave", None)
    import wave

    assert Path(wave.__file__ or "").parent != tmp_path


# -- mistakes ------------------------------------------------------------------------------------------------------


def test_a_module_that_is_not_there_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    assert complaint(tmp_path, one("nowhere_at_all:Quotes")) == (
        'penstock.toml: adapters.Q.data.D.adapter = "nowhere_at_all:Quotes": '
        f"expected a module in {tmp_path} or an installed one, but there is no nowhere_at_all"
    )
    name = module(tmp_path)
    assert f"there is no {name}.inner" not in complaint(tmp_path, one("json.inner.more:Quotes"))
    assert complaint(tmp_path, one("json.inner.more:Quotes")).endswith("there is no json.inner")


def test_a_module_that_fails_is_named_with_the_place_and_the_reason(tmp_path: Path) -> None:
    name = module(tmp_path, "x = 1\ny = undefined\n")
    assert complaint(tmp_path, one(f"{name}:Quotes")) == (
        f'penstock.toml: adapters.Q.data.D.adapter = "{name}:Quotes": module {name} cannot be imported: '
        f"NameError: name 'undefined' is not defined ({name}.py, line 2)"
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import not_installed_anywhere", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("class Quotes(:\n", "SyntaxError: "),
        ("raise SystemExit(2)", "SystemExit: 2"),
        ("raise ValueError('two\\nlines')", "ValueError: two\\u000alines"),
        ("raise ValueError", "ValueError ("),
    ],
)
def test_whatever_a_module_does_when_it_is_imported_is_one_line(tmp_path: Path, source: str, reason: str) -> None:
    name = module(tmp_path, source)
    assert f"module {name} cannot be imported: {reason}" in complaint(tmp_path, one(f"{name}:Quotes"))


def test_a_class_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    name = module(tmp_path)
    assert complaint(tmp_path, one(f"{name}:Quotez")) == (
        f'penstock.toml: adapters.Q.data.D.adapter = "{name}:Quotez": expected a class of module {name} '
        f"({tmp_path}/{name}.py), it has Quotes, Anything, Unpacked, Placed, Untyped, Failing, Leaving"
    )


@pytest.mark.parametrize("wrong", ["Neither", "function", "Access", "Path", "__name__"])
def test_what_is_no_data_adapter_is_refused(tmp_path: Path, wrong: str) -> None:
    name = module(tmp_path)
    assert complaint(tmp_path, one(f"{name}:{wrong}")) == (
        f'penstock.toml: adapters.Q.data.D.adapter = "{name}:{wrong}": '
        "expected a subclass of penstock.adapters.DataAdapter"
    )


def test_what_is_no_metadata_adapter_is_refused(tmp_path: Path) -> None:
    name = module(tmp_path)
    assert complaint(tmp_path, AdapterSetSection(metadata=MetadataSection(adapter=f"{name}:Quotes"))) == (
        f'penstock.toml: adapters.Q.metadata.adapter = "{name}:Quotes": '
        "expected a subclass of penstock.adapters.MetadataAdapter"
    )


def test_a_ready_made_name_that_does_not_exist_is_met_with_those_that_do(tmp_path: Path) -> None:
    assert complaint(tmp_path, one("reply")) == (
        'penstock.toml: adapters.Q.data.D.adapter = "reply": '
        'expected "module:Class" or one of "replay", "ingest", "remote", "kafka", "mqtt", "nats", "tlex", "monitor", '
        '"MONITOR"'
    )
    assert complaint(tmp_path, AdapterSetSection(metadata=MetadataSection(adapter="replay"))) == (
        'penstock.toml: adapters.Q.metadata.adapter = "replay": '
        'expected "module:Class" or one of "literal", "access", "remote"'
    )


TAKES = "Quotes takes url, seconds, file, names"
PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({}, f".url: missing; {TAKES}"),
    ({"urll": "x"}, f'.urll = "x": unknown parameter (did you mean url?); {TAKES}'),
    ({"url": "x", "zzz": 1}, f".zzz = 1: unknown parameter; {TAKES}"),
    ({"url": "x", "password": "hunter2"}, f'.password = "***": unknown parameter; {TAKES}'),
    ({"url": "x", "self": 1}, f".self = 1: unknown parameter; {TAKES}"),
    ({"url": "x", "a b": 1}, f'."a b" = 1: unknown parameter; {TAKES}'),
    ({"url": 5}, ".url = 5: expected str, got int"),
    ({"url": "x", "seconds": "fast"}, '.seconds = "fast": expected float, got str'),
    ({"url": "x", "seconds": True}, ".seconds = true: expected float, got bool"),
    ({"url": "x", "file": 5}, ".file = 5: expected "),
    ({"url": "x", "names": ["a", 5]}, '.names = ["a", 5]: expected str, got int - at $[1]'),
]


@pytest.mark.parametrize(("parameters", "expected"), PARAMETERS)
def test_a_wrong_parameter_is_named_with_what_the_class_takes(
    tmp_path: Path, parameters: dict[str, Any], expected: str
) -> None:
    line = complaint(tmp_path, one(f"{module(tmp_path)}:Quotes", **parameters))
    assert line.startswith(f"penstock.toml: adapters.Q.data.D.parameters{expected}")


def test_a_class_without_parameters_says_so(tmp_path: Path) -> None:
    line = complaint(tmp_path, AdapterSetSection(metadata=MetadataSection(adapter="literal", parameters={"x": 1})))
    assert line == (
        "penstock.toml: adapters.Q.metadata.parameters.x = 1: unknown parameter; MetadataAdapter takes none"
    )


@pytest.mark.parametrize(("wrong", "reason"), [("Failing", "ValueError: no such market"), ("Leaving", "SystemExit: 3")])
def test_a_constructor_that_fails_is_named_with_the_reason(tmp_path: Path, wrong: str, reason: str) -> None:
    name = module(tmp_path)
    with pytest.raises(Unusable) as caught:
        loader(tmp_path).load("Q", one(f"{name}:{wrong}"))
    line = str(caught.value)
    assert line.startswith(f"penstock.toml: adapters.Q.data.D: {wrong} cannot be made: {reason} ({name}.py, line ")


# -- optional ones -------------------------------------------------------------------------------------------------


def test_an_optional_adapter_is_made_later(tmp_path: Path) -> None:
    plan = loader(tmp_path).load("Q", one(f"{module(tmp_path)}:Quotes", optional=True, url="x"))
    assert plan.adapter_set.data == {}
    assert plan.optional["D"]().given == ("x", 1.0, None, ())  # type: ignore[attr-defined]


def test_an_optional_adapter_can_be_made_once_its_module_is_there(tmp_path: Path) -> None:
    name = f"loaded_{next(NUMBERS)}"
    table = one(f"{name}:Quotes", optional=True, url="x")
    plan = loader(tmp_path).load("Q", table)
    with pytest.raises(Unusable, match=f"there is no {name}"):
        plan.optional["D"]()
    (tmp_path / f"{name}.py").write_text("1 / 0")
    with pytest.raises(Unusable, match="ZeroDivisionError"):
        plan.optional["D"]()
    (tmp_path / f"{name}.py").write_text(QUOTES)
    assert type(plan.optional["D"]()).__name__ == "Quotes"


@pytest.mark.parametrize(
    ("wrong", "parameters", "expected"),
    [("Quotez", {}, "expected a class"), ("Neither", {}, "expected a subclass"), ("Quotes", {}, ".url: missing")],
)
def test_a_mistake_that_time_does_not_heal_is_one_in_an_optional_adapter_too(
    tmp_path: Path, wrong: str, parameters: dict[str, Any], expected: str
) -> None:
    assert expected in complaint(tmp_path, one(f"{module(tmp_path)}:{wrong}", optional=True, **parameters))
