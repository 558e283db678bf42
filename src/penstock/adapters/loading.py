"""From the tables of adapter sets in the configuration to adapters: classes imported by name, made with parameters.

Not here: the tables themselves (config/schema/adapters.py), starting the adapters (running.py).
Every error is a ConfigError: one line with file, key, value and what is allowed. Read next: docs/configuration.md.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, Generic, NotRequired, Required, TypeVar, Unpack, get_args, get_origin, get_type_hints

import msgspec

from penstock.adapters.api import Adapter, AdapterSet, DataAdapter, Journaling, MetadataAdapter
from penstock.adapters.faults import CONTAINED, is_of_adapter
from penstock.config import AdapterSetSection as Table
from penstock.config import ConfigError, DataSection, MetadataSection
from penstock.config.keys import KeyPath, dotted
from penstock.config.secret import MASK, is_secret

# Imported when a set asks for them: some need libraries that take their time to load.
METADATA_ADAPTERS: Mapping[str, str] = MappingProxyType(
    {
        "literal": "penstock.adapters.api:MetadataAdapter",
        "access": "penstock.adapters.access:AccessMetadata",
        "remote": "penstock.adapters.remote:RemoteMetadataAdapter",
    }
)
DATA_ADAPTERS: Mapping[str, str] = MappingProxyType(
    {
        "replay": "penstock.adapters.replay:ReplayAdapter",
        "ingest": "penstock.adapters.ingest:IngestAdapter",
        "remote": "penstock.adapters.remote:RemoteDataAdapter",
        "kafka": "penstock.adapters.kafka:KafkaAdapter",
        "mqtt": "penstock.adapters.mqtt:MqttAdapter",
        "nats": "penstock.adapters.nats:NatsAdapter",
        "tlex": "penstock.adapters.tlex:TlexAdapter",
        "monitor": "penstock.adapters.monitor:MonitorAdapter",
        # The reserved name of General Concepts 4.2.1.
        "MONITOR": "penstock.adapters.monitor:MonitorAdapter",
    }
)

DIRECTORY = "directory"
"""A parameter of this name that is annotated as Path is given the directory of the configuration file."""

A = TypeVar("A", bound=Adapter)


class Unusable(ConfigError):
    """The code of an adapter fails, which the configuration did not cause: an optional one may succeed later."""


@dataclass(frozen=True, slots=True)
class SetPlan:
    """An adapter set ready to be started, and how to make those of its data adapters that may come later."""

    adapter_set: AdapterSet
    optional: Mapping[str, Callable[[], DataAdapter]] = field(default_factory=dict)


class Loader:
    """Makes the adapters of one configuration file."""

    def __init__(self, directory: Path, place: str) -> None:
        """`directory` is that of the file: modules are found there, and paths are relative to it."""
        self._directory = directory
        self._place = place

    def load(self, name: str, table: Table) -> SetPlan:
        """Make the adapters of a set, except for the optional ones. Imports and constructors may be slow."""
        metadata = self._metadata(name, table.metadata)
        data = {adapter: self._data(name, adapter, entry) for adapter, entry in table.data.items()}
        for adapter, entry in table.data.items():
            if entry.optional:
                # Other causes may be temporary, but not an error in the configuration.
                with contextlib.suppress(Unusable):
                    data[adapter].check()
        made = {adapter: recipe.make() for adapter, recipe in data.items() if not table.data[adapter].optional}
        later = {adapter: recipe.make for adapter, recipe in data.items() if table.data[adapter].optional}
        journal = {
            adapter: Journaling(entry.journal.items, entry.journal.policy)
            for adapter, entry in table.data.items()
            if entry.journal.items
        }
        return SetPlan(AdapterSet(name, metadata.make(), made, table.timeout_millis, journal), later)

    def _metadata(self, name: str, entry: MetadataSection) -> Recipe[MetadataAdapter]:
        path = ("adapters", name, "metadata")
        return Recipe(MetadataAdapter, METADATA_ADAPTERS, entry, path, self._place, self._directory)

    def _data(self, name: str, adapter: str, entry: DataSection) -> Recipe[DataAdapter]:
        path = ("adapters", name, "data", adapter)
        return Recipe(DataAdapter, DATA_ADAPTERS, entry, path, self._place, self._directory)


class Recipe(Generic[A]):
    """One table of an adapter, and how to make the adapter from it."""

    def __init__(
        self,
        base: type[A],
        ready_made: Mapping[str, str],
        entry: MetadataSection | DataSection,
        path: KeyPath,
        place: str,
        directory: Path,
    ) -> None:
        self._base = base
        self._ready_made = ready_made
        self._entry = entry
        self._path = path
        self._place = place
        self._directory = directory

    def make(self) -> A:
        """A new adapter; raises ConfigError."""
        found, arguments = self.check()
        try:
            return found(**arguments)
        except BaseException as error:
            if not is_of_adapter(error):
                raise
            raise Unusable(
                self._place, f"{found.__name__} cannot be made: {_reason(error)}", key=dotted(self._path)
            ) from error

    def check(self) -> tuple[type[A], dict[str, Any]]:
        """The class and what to call it with; raises ConfigError."""
        found = self._class()
        return found, self._arguments(found)

    # -- the class ------------------------------------------------------------------------------------------------

    def _class(self) -> type[A]:
        given = self._entry.adapter
        target = self._ready_made.get(given, given)
        module_name, _, name = target.rpartition(":")
        if not module_name:
            known = ", ".join(f'"{one}"' for one in self._ready_made)
            raise self._wrong(f'expected "module:Class" or one of {known}')
        module = self._import(module_name)
        found = getattr(module, name, None)
        if found is None:
            raise self._wrong(f"expected a class of {_where(module)}{_classes(module, self._base)}")
        if not (isinstance(found, type) and issubclass(found, self._base)):
            raise self._wrong(f"expected a subclass of penstock.adapters.{self._base.__name__}")
        return found

    def _import(self, name: str) -> ModuleType:
        directory = str(self._directory)
        # At the end: a file there must not shadow a library that the server itself uses.
        if directory not in sys.path:
            sys.path.append(directory)
        # The file may have been written after the last look at the directory.
        importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        except BaseException as error:
            if not is_of_adapter(error):
                raise
            if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
                problem = f"expected a module in {directory} or an installed one, but there is no {error.name}"
            else:
                problem = f"module {name} cannot be imported: {_reason(error)}"
            raise self._unusable(problem) from error

    # -- its parameters -------------------------------------------------------------------------------------------

    def _arguments(self, found: type[A]) -> dict[str, Any]:
        given = self._entry.parameters
        takes = Signature(found)
        for name in given:
            if name not in takes.hints and not takes.anything:
                raise self._wrong_parameter(name, f"unknown parameter{_advice(name, takes.hints)}; {takes}")
        for name in takes.required:
            if name not in given:
                path = (*self._path, "parameters", name)
                raise ConfigError(self._place, f"missing; {takes}", key=dotted(path))
        arguments = {name: self._converted(name, value, takes.hints.get(name, Any)) for name, value in given.items()}
        if takes.hints.get(DIRECTORY) is Path:
            # For relative paths deeper inside the parameters, which only the class knows.
            arguments.setdefault(DIRECTORY, self._directory)
        return arguments

    def _converted(self, name: str, value: object, hint: Any) -> Any:
        """The value as its parameter wants it: of the annotated type, a path beginning at the configuration file."""
        if isinstance(value, str) and (hint is Path or Path in get_args(hint)):
            return self._directory / value
        try:
            return msgspec.convert(copy.deepcopy(value), hint)
        except msgspec.ValidationError as error:
            text = str(error).replace("`", "")
            raise self._wrong_parameter(name, f"{text[:1].lower()}{text[1:]}") from None
        except TypeError:
            # An annotation that says nothing about plain data.
            return copy.deepcopy(value)

    # -- mistakes -------------------------------------------------------------------------------------------------

    def _wrong(self, problem: str) -> ConfigError:
        return ConfigError(self._place, problem, key=dotted((*self._path, "adapter")), value=self._entry.adapter)

    def _unusable(self, problem: str) -> Unusable:
        return Unusable(self._place, problem, key=dotted((*self._path, "adapter")), value=self._entry.adapter)

    def _wrong_parameter(self, name: str, problem: str) -> ConfigError:
        value = MASK if is_secret(name) else self._entry.parameters[name]
        return ConfigError(self._place, problem, key=dotted((*self._path, "parameters", name)), value=value)


class Signature:
    """What the constructor of a class takes, by keyword."""

    def __init__(self, found: type) -> None:
        self.hints: dict[str, Any] = {}
        """Every parameter with its annotation; Any for one without."""
        self.required: list[str] = []
        self.anything = False
        """Whether it takes parameters of any other name as well."""
        self._class = found.__name__
        annotations = _annotations(found)
        for name, parameter in inspect.signature(found).parameters.items():
            annotation = annotations.get(name, Any)
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                self.hints[name] = annotation
                if parameter.default is parameter.empty:
                    self.required.append(name)
            elif parameter.kind is parameter.VAR_KEYWORD and get_origin(annotation) is Unpack:
                # `**parameters: Unpack[Parameters]`, a TypedDict.
                (table,) = get_args(annotation)
                self.hints |= get_type_hints(table)
                self.required += _required_keys(table)
            elif parameter.kind is parameter.VAR_KEYWORD:
                self.anything = True

    def __str__(self) -> str:
        return f"{self._class} takes {', '.join(self.hints) or 'none'}"


def _required_keys(table: Any) -> list[str]:
    """Of a TypedDict; by itself it does not know of `Required` in annotations that are kept as text."""
    origins = {name: get_origin(hint) for name, hint in get_type_hints(table, include_extras=True).items()}
    by_itself = table.__required_keys__
    return [
        one for one, origin in origins.items() if origin is Required or (one in by_itself and origin is not NotRequired)
    ]


def _annotations(found: type) -> dict[str, Any]:
    """Those of the constructor, but for those that cannot be looked up: names that only type checkers see."""
    constructor = inspect.unwrap(found.__init__)  # type: ignore[misc]
    annotations: dict[str, Any] = {}
    for name, annotation in getattr(constructor, "__annotations__", {}).items():
        with contextlib.suppress(Exception), CONTAINED:
            written = isinstance(annotation, str)
            annotations[name] = eval(annotation, constructor.__globals__) if written else annotation
    return annotations


def _advice(name: str, names: Iterable[str]) -> str:
    import difflib  # needed only for errors

    near = difflib.get_close_matches(name, list(names), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def _where(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    return f"module {module.__name__} ({file})" if file else f"module {module.__name__}"


def _classes(module: ModuleType, base: type) -> str:
    """Those of the module that would do; not those that it has only imported."""
    found = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__
    ]
    return f", it has {', '.join(found)}" if found else ""


def _reason(error: BaseException) -> str:
    """The error with the place where it was raised, because the log has only one line."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    return f"{text} ({Path(last.filename).name}, line {last.lineno})"
