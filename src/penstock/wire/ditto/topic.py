"""The topic of an envelope: which entity a message is about, and of which kind it is.

`ns/name/things/(twin|live)/<criterion>/<action>`; policies and connections have no channel. What the specification
shows as `<channel>` for all groups exists for things only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from penstock.wire.ditto.errors import UNKNOWN_TOPIC, DittoError
from penstock.wire.ditto.kinds import Action, EntityGroup


class TopicChannel(StrEnum):
    TWIN = "twin"
    LIVE = "live"


class Criterion(StrEnum):
    COMMANDS = "commands"
    EVENTS = "events"
    SEARCH = "search"
    STREAMING = "streaming"
    MESSAGES = "messages"
    ERRORS = "errors"
    ACKS = "acks"
    ANNOUNCEMENTS = "announcements"


class StreamingAction(StrEnum):
    SUBSCRIBE = "subscribeForPersistedEvents"
    REQUEST = "request"
    CANCEL = "cancel"
    CREATED = "created"
    NEXT = "next"
    COMPLETE = "complete"
    FAILED = "failed"
    ERROR = "error"  # Known to upstream, but never sent


class SearchAction(StrEnum):
    SUBSCRIBE = "subscribe"
    REQUEST = "request"
    CANCEL = "cancel"
    CREATED = "created"
    NEXT = "next"
    COMPLETE = "complete"
    FAILED = "failed"
    ERROR = "error"


# Which actions a criterion has, and what they are called in error texts. The others have a subject, or nothing.
_ACTIONS: dict[str, tuple[type[StrEnum], str]] = {
    Criterion.COMMANDS: (Action, "action"),
    Criterion.EVENTS: (Action, "action"),
    Criterion.SEARCH: (SearchAction, "search action"),
    Criterion.STREAMING: (StreamingAction, "streaming action"),
}
_WITH_SUBJECT = (Criterion.MESSAGES, Criterion.ACKS, Criterion.ANNOUNCEMENTS)


@dataclass(frozen=True, slots=True)
class Topic:
    """`channel` is None if the group has none; so are `action` and `subject` if the criterion has none."""

    namespace: str
    name: str
    group: EntityGroup
    channel: TopicChannel | None
    criterion: Criterion
    action: str | None = None
    subject: str | None = None

    def __str__(self) -> str:
        parts = (
            self.namespace,
            self.name,
            self.group,
            self.channel,
            self.criterion,
            self.action if self.action is not None else self.subject,
        )
        return "/".join([part for part in parts if part is not None])

    @property
    def entity(self) -> str:
        """The identifier of the entity as error texts write it. Connections have no namespace."""
        return self.name if self.group is EntityGroup.CONNECTIONS else f"{self.namespace}:{self.name}"

    @property
    def is_about_several(self) -> bool:
        """Whether no entity is named: the value says which ones are meant. Published clients leave both parts empty."""
        return (self.namespace, self.name) in (("", ""), ("_", "_"))

    def streaming(self, action: StreamingAction) -> Topic:
        """The topic of a streaming message about the same entity, or of the same search. Always that of the twin."""
        if self.criterion is Criterion.SEARCH:
            return replace(self, action=action)
        return replace(self._on_twin(), criterion=Criterion.STREAMING, action=action, subject=None)

    def event(self, action: Action) -> Topic:
        """The topic of an event of the same entity."""
        return replace(self._on_twin(), criterion=Criterion.EVENTS, action=action, subject=None)

    def errors(self) -> Topic:
        """The topic of an error response about the same entity; it names none if there are several."""
        if self.is_about_several:
            return replace(self, namespace="unknown", name="unknown").errors()
        return replace(self, criterion=Criterion.ERRORS, action=None, subject=None)

    def _on_twin(self) -> Topic:
        return replace(self, channel=TopicChannel.TWIN) if self.group is EntityGroup.THINGS else self


# The topic of errors about a message whose own topic is not known.
UNKNOWN = Topic("unknown", "unknown", EntityGroup.THINGS, TopicChannel.TWIN, Criterion.ERRORS)


def thing_topic(namespace: str, name: str, criterion: Criterion, action: str | None = None) -> Topic:
    return Topic(namespace, name, EntityGroup.THINGS, TopicChannel.TWIN, criterion, action)


def policy_topic(namespace: str, name: str, criterion: Criterion, action: str | None = None) -> Topic:
    return Topic(namespace, name, EntityGroup.POLICIES, None, criterion, action)


def parse_topic(text: str) -> Topic:
    """Raises `protocoladapter:unknown.topicpath` whose description names the part at fault.

    What follows an action is ignored. Whether namespace and name are a valid identifier is not checked.
    """
    return _Parts(text).topic()


class _Parts:
    """The parts of a topic that have not been read yet."""

    def __init__(self, text: str) -> None:
        self._text = text
        # An empty text has no parts.
        self._parts = text.split("/") if text else []
        self._next = 0

    def topic(self) -> Topic:
        namespace, name = self._take("namespace"), self._take("entity name")
        group = EntityGroup(self._one_of(EntityGroup, "group"))
        channel = TopicChannel(self._one_of(TopicChannel, "channel")) if group is EntityGroup.THINGS else None
        criterion = Criterion(self._one_of(Criterion, "criterion"))
        action = subject = None
        if criterion in _ACTIONS:
            kinds, called = _ACTIONS[criterion]
            action = self._one_of(kinds, called)
        elif criterion in _WITH_SUBJECT:
            subject = "/".join(self._parts[self._next :]) or None
        return Topic(namespace, name, group, channel, criterion, action, subject)

    def _take(self, called: str) -> str:
        if self._next >= len(self._parts):
            raise self._unknown(f"The topic path has no {called} part.")
        self._next += 1
        return self._parts[self._next - 1]

    def _one_of(self, kinds: type[StrEnum], called: str) -> str:
        part = self._take(called)
        try:
            return kinds(part)
        except ValueError:
            raise self._unknown(f"{called.capitalize()} name <{part[:60]}> is unknown.") from None

    def _unknown(self, description: str) -> DittoError:
        return UNKNOWN_TOPIC.of(self._text, description=description)
