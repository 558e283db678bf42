"""From documents to a Thing Model: extensions (`tm:extends`) and references (`tm:ref`) are resolved.

Asks for documents by raising `DocumentsNeeded`; whoever has a network gets them and calls again. Everything is bounded,
because documents come from elsewhere: a small one can refer to itself, or name another one a million times.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urldefrag, urljoin

from penstock.twins.wot.model import ModelProblem, ThingModel
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.patch_keys import quick_pattern
from penstock.wire.ditto.pointer import Absent, BadPointer, get, keys_of

# Models that extend or refer to one another, one after the other.
MAX_STEPS = 16

# Documents of which one model is made.
MAX_DOCUMENTS = 64

# Values in a model with all that it refers to, each as often as it is referred to.
MAX_VALUES = 50_000

_TYPE = "tm:ThingModel"


class DocumentsNeeded(Exception):
    """These documents, by address, must be there before the model can be made."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


class BadModel(Exception):
    """The document is not a Thing Model, or what it names is not there; the text says why, in one sentence."""


# Documents by address; in place of one that cannot be had, what is wrong.
Documents = Mapping[str, Json | ModelProblem]


def resolved(url: str, documents: Documents) -> ThingModel | ModelProblem:
    """The model at an address; raises DocumentsNeeded."""
    try:
        return _Resolution(documents).model(url)
    except BadModel as bad:
        return ModelProblem(url, str(bad), is_invalid=True)


class _Resolution:
    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._values = 0

    def model(self, url: str) -> ThingModel:
        document, extends = self._extended(url, ())
        _check_patterns(document.get("properties"))
        links = document.get("links")
        submodels: dict[str, str] = {}
        for link in links if type(links) is list else ():
            if type(link) is dict and link.get("rel") == "tm:submodel":
                name = link.get("instanceName")
                if type(name) is not str or not name or "/" in name:
                    raise BadModel("A link 'tm:submodel' has no 'instanceName' that can be the name of a feature.")
                submodels[name] = _address(url, link)
        return ThingModel(url, document, tuple(extends), submodels)

    def _extended(self, url: str, way: tuple[str, ...]) -> tuple[dict[str, Json], list[str]]:
        """A document without references, on top of those that it extends; and which these are."""
        if url in way:
            raise BadModel(f"The model refers to itself: {' -> '.join((*way, url))}.")
        if len(way) >= MAX_STEPS:
            raise BadModel(f"More than {MAX_STEPS} models extend one another.")
        document = self._without_references(self._document(url), url, ((url, ""),))
        if not _is_model(document):
            raise BadModel(f"The document at '{url}' is not of '@type' '{_TYPE}'.")
        links = document.get("links")
        links = links if type(links) is list else []
        base: dict[str, Json] = {}
        bases: list[str] = []
        for link in links:
            if type(link) is dict and link.get("rel") == "tm:extends":
                address = _address(url, link)
                below, more = self._extended(address, (*way, url))
                base = _on_top(base, below)
                bases += [each for each in (address, *more) if each not in bases]
        own = {**document, "links": [link for link in links if not _is_extension(link)]} if links else document
        return _on_top(base, own), bases

    def _document(self, url: str) -> dict[str, Json]:
        if url not in self._documents:
            if len(self._documents) >= MAX_DOCUMENTS:
                raise BadModel(f"The model needs more than {MAX_DOCUMENTS} documents.")
            raise DocumentsNeeded(url)
        found = self._documents[url]
        if isinstance(found, ModelProblem):
            raise BadModel(f"The model needs '{url}': {found.text}")
        if type(found) is not dict:
            raise BadModel(f"The document at '{url}' is not a JSON object.")
        return found

    def _without_references(self, value: Json, url: str, way: tuple[tuple[str, str], ...]) -> Json:
        self._values += 1
        if self._values > MAX_VALUES:
            raise BadModel(f"The model has more than {MAX_VALUES} values, with all that it refers to.")
        if type(value) is list:
            return [self._without_references(each, url, way) for each in value]
        if type(value) is not dict:
            return value
        rest = {name: self._without_references(each, url, way) for name, each in value.items() if name != "tm:ref"}
        if "tm:ref" not in value:
            return rest
        target = self._referred(value["tm:ref"], url, way)
        if type(target) is not dict:
            raise BadModel(f"The reference '{value['tm:ref']}' does not lead to an object.")
        return {name: each for name, each in {**target, **rest}.items() if each is not None}

    def _referred(self, reference: Json, url: str, way: tuple[tuple[str, str], ...]) -> Json:
        address, pointer = urldefrag(_joined(url, reference))
        step = (address, pointer)
        if step in way:
            raise BadModel(f"The reference '{reference}' leads to itself.")
        if len(way) > MAX_STEPS:
            raise BadModel(f"More than {MAX_STEPS} references lead from one to the next.")
        try:
            found = get(self._document(address), keys_of(pointer))
        except BadPointer:
            raise BadModel(f"The reference '{reference}' has no JSON pointer after '#'.") from None
        if isinstance(found, Absent):
            raise BadModel(f"The reference '{reference}' leads to nothing.")
        return self._without_references(found, address, (*way, step))


def _is_model(document: dict[str, Json]) -> bool:
    kind = document.get("@type")
    return kind == _TYPE or (type(kind) is list and _TYPE in kind)


def _is_extension(link: Json) -> bool:
    return type(link) is dict and link.get("rel") == "tm:extends"


def _address(url: str, link: dict[str, Json]) -> str:
    return urldefrag(_joined(url, link.get("href")))[0]


def _joined(url: str, reference: Json) -> str:
    if type(reference) is not str:
        raise BadModel("A link or a 'tm:ref' is not a text.")
    try:
        return urljoin(url, reference)
    except ValueError:
        raise BadModel(f"'{reference}' is not an address.") from None


def _on_top(base: dict[str, Json], own: dict[str, Json]) -> dict[str, Json]:
    """A model on top of one that it extends: what both say is as the upper one says it."""
    result = _merged(base, own)
    optional = [*_list(own, "tm:optional"), *_list(base, "tm:optional")]
    if optional:
        result["tm:optional"] = list(dict.fromkeys([each for each in optional if type(each) is str]))
    links = _list(own, "links")
    named = {_instance_name(link) for link in links if type(link) is dict}
    inherited = [
        link
        for link in _list(base, "links")
        if type(link) is dict and link.get("rel") == "tm:submodel" and _instance_name(link) not in named
    ]
    if links or inherited:
        result["links"] = [*links, *inherited]
    return result


def _instance_name(link: dict[str, Json]) -> Json:
    """To compare it with others: what is no text is refused later, and until then as good as what it is written as."""
    name = link.get("instanceName")
    return repr(name) if isinstance(name, list | dict) else name


def _merged(base: dict[str, Json], own: dict[str, Json]) -> dict[str, Json]:
    result = dict(base)
    for name, value in own.items():
        below = base.get(name)
        result[name] = _merged(below, value) if type(below) is dict and type(value) is dict else value
    return result


def _list(document: dict[str, Json], name: str) -> list[Json]:
    found = document.get(name)
    return found if type(found) is list else []


def _check_patterns(value: Json) -> None:
    """Values are matched on the server's loop, so that an expression must be one that is matched in little time."""
    if type(value) is dict:
        pattern = value.get("pattern")
        if type(pattern) is str and quick_pattern(pattern) is None:
            raise BadModel(f"The regular expression '{pattern[:100]}' is not accepted, because it could take long.")
    for each in value.values() if type(value) is dict else value if type(value) is list else ():
        _check_patterns(each)
