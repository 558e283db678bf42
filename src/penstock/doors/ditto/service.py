"""All that Ditto clients can ask for, over any transport: the one object that the HTTP and WebSocket doors use.

    login = await service.authenticate(headers, client, origin)    who it is; raises 401
    answer = await service.submit(command, login)                  any command of `wire.ditto.twin`, also about the past
    past = await service.history_of(topic, selection, login)       then `await past.next()` until None, `past.close()`
    stop = service.listen(login, listener, namespaces, miss)       live events, as far as this login may know them

Everything runs on the server's event loop, and raises `DittoError` with the answer to give. Items of data adapters are
things like all others here (`items`). Rules of things and policies are in `penstock.twins`, which knows nothing of
Ditto's messages: `commands` and `answers` translate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from msgspec import UNSET

from penstock.doors.ditto.answers import RETRIEVED, DittoAnswer, answer_of, error_of, event_of
from penstock.doors.ditto.commands import moment_of, things_asked_for, twin_command
from penstock.doors.ditto.description import Described, description
from penstock.doors.ditto.identity import DittoIdentity, Login, ShownCredentials
from penstock.doors.ditto.item_events import ItemEvents
from penstock.doors.ditto.items import READ_ALL, ItemPast, Items, fields_of
from penstock.doors.ditto.live_channel import LiveChannel, Ticket
from penstock.doors.ditto.models import ModelStore
from penstock.doors.ditto.past import HistoryReader, PastEvents, kept_in
from penstock.doors.ditto.search import Searches, SearchPages
from penstock.doors.ditto.search_writer import SearchWriter
from penstock.doors.ditto.waiting_events import Losses
from penstock.kernel.ledger import Ledger
from penstock.kernel.ports import ClientFacts
from penstock.log import get, incident
from penstock.twins.access import NO_RIGHTS, Permission, ResourceKind, readable
from penstock.twins.command import Caller, RetrieveThings, TwinCommand
from penstock.twins.decision import Result
from penstock.twins.enforcement import enforce, not_found
from penstock.twins.history import PastMoment
from penstock.twins.names import EntityKey, TwinNames, policy_key, thing_key
from penstock.twins.preconditions import check_condition
from penstock.twins.reasons import ModelNotAccessible, ModelsNeeded, TwinRefusal
from penstock.twins.record import records_of
from penstock.twins.registry import Twins
from penstock.twins.retrieval import retrieve, seen
from penstock.twins.told import Told
from penstock.twins.twin import Change, Document, Twin
from penstock.twins.wot.model import ModelProblem, ThingModel
from penstock.twins.wot.validation import ModelRules
from penstock.wire.ditto.acks import PERSISTED, SEARCH_PERSISTED
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import MAX_DURATION, boolean_header, duration_header
from penstock.wire.ditto.errors import (
    AUTHENTICATION_FAILED,
    COMMAND_TIMEOUT,
    CONNECTION_NOT_FOUND,
    INTERNAL,
    DittoError,
)
from penstock.wire.ditto.ids import EntityId, entity_id
from penstock.wire.ditto.instant import NANOS_PER_MICRO, print_instant
from penstock.wire.ditto.items import ItemName
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.permission_check import PermissionCheck
from penstock.wire.ditto.pointer import get as get_at
from penstock.wire.ditto.ranges import HistoryRange, resolve
from penstock.wire.ditto.resource import Part, Resource
from penstock.wire.ditto.rql import parse_rql
from penstock.wire.ditto.search import Selection
from penstock.wire.ditto.topic import Criterion, Topic, thing_topic
from penstock.wire.ditto.twin import Command, RetrieveSeveral, TwinEvent

log = get(__name__)

T = TypeVar("T")

# How often a command may turn out to need more models: those of a thing, then of its features, and so on.
MAX_MODEL_ROUNDS = 8

NO_MODEL = "There is no definition, or the configuration does not say where its model is."


@dataclass(frozen=True, slots=True)
class HeardEvent:
    """A live event, without what its listener may not read. Filters are evaluated on `event.partial()`.

    `told` is None for an event of an item.
    """

    event: TwinEvent
    told: Told | None
    _login: Login

    @property
    def namespace(self) -> str:
        return self.event.topic.namespace

    def entity(self) -> Document:
        """The thing as it is now, as far as the listener may read it: for extra fields. {} if gone, or an item."""
        told = self.told
        if told is None or told.after is None:
            return {}
        rights = NO_RIGHTS if told.access is None else told.access.rights(self._login.caller.subjects)
        return seen(told.key.group, told.after, rights)


EventListener = Callable[[HeardEvent], None]


class TwinService:
    """`now` returns microseconds since 1970; `executor` is where histories are read.

    `kept_headers` names the headers of commands that are journaled with their events, in lower case.
    """

    def __init__(
        self,
        twins: Twins,
        names: TwinNames,
        identity: DittoIdentity,
        items: Items,
        reader: HistoryReader,
        executor: Executor,
        ledger: Ledger | None = None,
        kept_headers: tuple[str, ...] = (),
        now: Callable[[], int] = lambda: time.time_ns() // 1000,
        search_writer: SearchWriter | None = None,
        models: ModelStore | None = None,
        model_rules: ModelRules | None = None,
        base: str = "",
    ) -> None:
        self.twins = twins
        self._models = models
        self._model_rules = model_rules or ModelRules()
        # The address of this server in descriptions of things.
        self._base = base
        self.identity = identity
        self.items = items
        self.kept_headers = kept_headers
        self._item_events = ItemEvents(items)
        self._names = names
        self._reader = reader
        self._executor = executor
        self._now = now
        self.live = LiveChannel(twins)
        self._search_writer = search_writer
        self._tasks: set[asyncio.Task[None]] = set()
        self.searches = Searches(twins, search_writer, executor, now)
        # Live events that slow readers did not get; a counter for the monitor.
        self.losses = Losses(ledger)
        # Other figures: commands, those that were answered with an error, and streams of live events just now.
        self.commands = 0
        self.refused_commands = 0
        self.listeners = 0
        # The event of the latest change, for those who may know all of it.
        self._latest: tuple[Told, TwinEvent] | None = None
        # The server is shutting down: endless streams must end.
        self.is_closing = False

    def now(self) -> int:
        """Microseconds since 1970."""
        return self._now()

    # -- who it is -------------------------------------------------------------------------------------------------

    async def authenticate(self, headers: Mapping[str, str], client: ClientFacts, origin: object = None) -> Login:
        """Who sends a request with these headers, by names in lower case; raises 401 `gateway:authentication.failed`.

        `origin` identifies the connection, which does not get the events that it causes. `Login.time_to_live` says
        when a token expires: a connection that is still open then must be closed.
        """
        return await self.identity.authenticate(headers, client, origin)

    async def renew(self, login: Login, token: str) -> Login:
        """The same user with another token, sent with `JWT-TOKEN`; raises 401 also for a token of another user."""
        credentials = ShownCredentials(None, token, login.credentials.client)
        renewed = await self.identity.login(credentials, login.caller.origin)
        if renewed.caller.names != login.caller.names:
            raise AUTHENTICATION_FAILED.of("The token belongs to another subject.")
        return renewed

    # -- commands --------------------------------------------------------------------------------------------------

    async def submit(self, command: Command | RetrieveSeveral, login: Login) -> DittoAnswer:
        """The result of a command, once it is on the disk; its `response(command)` is the message for it.

        Retrieving understands `at-historical-revision` and `at-historical-timestamp` among the command's headers.
        After the time in `timeout` it raises 408; the command is not undone.
        """
        if "timeout" not in command.headers or not boolean_header(command.headers, "response-required", True):
            return await self._submit(command, login)
        seconds = duration_header(command.headers, "timeout", MAX_DURATION)
        try:
            async with asyncio.timeout(seconds):
                return await self._submit(command, login)
        except TimeoutError:
            raise COMMAND_TIMEOUT.of(f"{seconds:g}") from None

    async def _submit(self, command: Command | RetrieveSeveral, login: Login) -> DittoAnswer:
        self.commands += 1
        try:
            return await self._carry_out(command, login)
        except DittoError:
            self.refused_commands += 1
            raise

    async def _carry_out(self, command: Command | RetrieveSeveral, login: Login) -> DittoAnswer:
        try:
            if isinstance(command, RetrieveSeveral):
                return await self._retrieve_several(command, login)
            item = self.items.sets.item(command.entity) if command.topic.group is EntityGroup.THINGS else None
            if item is not None:
                return await self._submit_to_item(command, item, login)
            moment = moment_of(command.headers) if command.action is Action.RETRIEVE else None
            asked = twin_command(command, login.caller, self.kept_headers)
            if moment is not None:
                return await self._retrieve_past(asked, moment, login)
            return answer_of(await self._with_models(asked, lambda each: ask(self.twins, each, login.caller)))
        except TwinRefusal as refusal:
            raise error_of(refusal) from None

    async def _with_models(self, command: TwinCommand, work: Callable[[TwinCommand], Awaitable[T]]) -> T:
        """Work that is done again with the models that it turns out to need."""
        if self._models is None:
            return await work(command)
        loaded: dict[str, ThingModel | ModelProblem] = {}
        for _ in range(MAX_MODEL_ROUNDS):
            try:
                return await work(replace(command, models=self._models.known(loaded)))
            except TwinRefusal as refusal:
                if not isinstance(refusal.reason, ModelsNeeded):
                    raise
                loaded |= await self._models.load(refusal.reason.urls)
        return await work(replace(command, models=loaded))

    async def describe(self, command: Command, login: Login) -> Json:
        """The Thing Description of a thing or a feature, with what this user may use of it."""
        try:
            asked = twin_command(command, login.caller)
            await ask(self.twins, asked, login.caller)
            key = asked.key
            twin = self.twins.thing(key.id)
            if twin is None:
                raise not_found(key.group, key.id)
            rights = self.twins.rights(key, login.caller.subjects)
            name = command.resource.feature
            definition = twin.document.get("definition")
            if name is not None:
                several = get_at(twin.document, ("features", name, "definition"))
                definition = several[0] if type(several) is list and several else None
            created = print_instant(twin.created * NANOS_PER_MICRO)

            async def work(each: TwinCommand) -> Json:
                model = self._model_rules.model(definition, each.models)
                if model is None:
                    raise TwinRefusal(ModelNotAccessible(str(definition), NO_MODEL))
                return description(model, Described(self._base, twin.document, name, created, rights))

            return await self._with_models(asked, work)
        except TwinRefusal as refusal:
            raise error_of(refusal) from None

    async def _retrieve_several(self, command: RetrieveSeveral, login: Login) -> DittoAnswer:
        """Those that can be read, in the order of the request."""
        items = {entity: item for entity in command.entities if (item := self.items.sets.item(entity)) is not None}
        if not items:
            return answer_of(await ask(self.twins, things_asked_for(command), login.caller))
        found: list[Json] = []
        for entity in command.entities:
            topic = thing_topic(entity.namespace, entity.name, Criterion.COMMANDS, Action.RETRIEVE)
            whole = Resource(Part.THING, ())
            one = Command(Action.RETRIEVE, topic, {}, command.path, entity, whole, fields=command.fields)
            try:
                found.append((await self.submit(one, login)).value)
            except DittoError as error:
                if error.status != 404:
                    raise
        return DittoAnswer(RETRIEVED, found)

    async def _retrieve_past(self, command: TwinCommand, moment: PastMoment, login: Login) -> DittoAnswer:
        key = command.key
        rights = self.twins.check_history(key, login.caller.subjects)
        twin = self._twin(key)
        if twin is None:
            raise not_found(key.group, key.id)
        moment.check(key, twin.revision, self._now())

        def fold() -> tuple[Twin, str | None]:
            entity = self._names.entity(key)
            found = moment.find(self._reader, key, entity)
            if not self.kept_headers:
                return found, None
            records = records_of(self._reader.read(entity, first=found.revision, last=found.revision))
            return found, next((record.headers for record in records), None)

        past, headers = await asyncio.get_running_loop().run_in_executor(self._executor, fold)
        if key.group is EntityGroup.THINGS:
            check_condition(command.conditions.condition, past, readable(key.group, rights), self._now())
        policy = None if key.group is EntityGroup.POLICIES else self._twin(policy_key(twin.document["policyId"]))
        result = retrieve(command, past, rights, None if policy is None else policy.document)
        return answer_of(result, kept_in(headers, self.kept_headers))

    def _twin(self, key: EntityKey) -> Twin | None:
        return self.twins.policy(key.id) if key.group is EntityGroup.POLICIES else self.twins.thing(key.id)

    # -- items as things -------------------------------------------------------------------------------------------

    async def _submit_to_item(self, command: Command, item: ItemName, login: Login) -> DittoAnswer:
        id = str(command.entity)
        asked = twin_command(command, login.caller, self.kept_headers)
        twin = await self._read_item(item, id, login)
        if twin is None:
            # Missing, or not for this caller: the answer is the same, even to those who want to create it.
            return answer_of(await ask(self.twins, asked, login.caller))
        enforce(asked, READ_ALL)
        moment = moment_of(command.headers)
        if moment is not None:
            key = EntityKey(EntityGroup.THINGS, id)
            moment.check(key, twin.revision, self._now())
            past = await self.items.at(item, id, moment)
            if past is None:
                raise moment.not_found(key)
            if not await self.items.may_read(item, login, fields_of(past)):
                raise not_found(key.group, key.id)
            twin = past
        check_condition(asked.conditions.condition, twin, readable(EntityGroup.THINGS, READ_ALL), self._now())
        return answer_of(retrieve(asked, twin, READ_ALL, None))

    async def _read_item(self, item: ItemName, thing_id: str, login: Login) -> Twin | None:
        """The item as it is now; None for those who may not know."""
        if not self.items.latest(item):
            return None
        twin = await self.items.now(item, thing_id)
        if twin is None or not await self.items.may_read(item, login, fields_of(twin)):
            return None
        return twin

    # -- history ---------------------------------------------------------------------------------------------------

    async def history_of(self, topic: Topic, selection: HistoryRange, login: Login) -> PastEvents | ItemPast:
        """The events of one entity that match a selection now; raises 404, and 400 for an invalid filter.

        `topic` is any of the entity's. Events that come later are not among them. The filter of a policy's history is
        ignored.
        """
        if topic.group is EntityGroup.CONNECTIONS:
            raise CONNECTION_NOT_FOUND.of(topic.entity)
        entity = entity_id(topic.namespace, topic.name)
        if entity is None:
            raise error_of(not_found(topic.group, topic.entity))
        query = None
        if selection.filter is not None and topic.group is EntityGroup.THINGS:
            query = parse_rql(selection.filter)
        item = self.items.sets.item(entity) if topic.group is EntityGroup.THINGS else None
        if item is not None:
            fields = await self.items.open_fields(item, login)
            if fields is None:
                raise error_of(not_found(topic.group, str(entity)))
            chosen = resolve(selection, self.items.latest(item))
            past = PastEvents(
                self._reader, self._executor, topic, self.items.entity(item), chosen, query, item=True, now=self._now()
            )
            return ItemPast(past, fields, partial(self.items.may_read, item, login))
        key = EntityKey(topic.group, str(entity))
        try:
            self.twins.check_history(key, login.caller.subjects)
        except TwinRefusal as refusal:
            raise error_of(refusal) from None
        found = self._twin(key)
        chosen = resolve(selection, 0 if found is None else found.revision)
        name, kept = self._names.entity(key), self.kept_headers
        return PastEvents(
            self._reader, self._executor, topic, name, chosen, query, item=False, kept=kept, now=self._now()
        )

    # -- search ----------------------------------------------------------------------------------------------------

    async def search(self, selection: Selection, login: Login) -> SearchPages:
        """The pages of a search by the search protocol; raises 400 for one that cannot be read."""
        return await self.searches.stream(selection, login.caller.subjects)

    # -- permissions -----------------------------------------------------------------------------------------------

    def may(self, check: PermissionCheck, login: Login) -> bool:
        """Whether the caller has all these permissions there, and everywhere below; False for what does not exist."""
        key = policy_key(check.entity) if check.kind == ResourceKind.POLICY else thing_key(check.entity)
        rights = self.twins.rights(key, login.caller.subjects)
        kind = ResourceKind(check.kind)
        return all(rights.scope(kind, Permission(each)).covers_all(check.pointer) for each in check.permissions)

    # -- live events -----------------------------------------------------------------------------------------------

    async def check_readable(self, thing: EntityId, login: Login) -> None:
        """Raises 404 for those who may read nothing of a thing, or if there is none."""
        key = thing_key(thing)
        item = self.items.sets.item(thing)
        if item is not None and await self.items.open_fields(item, login) is not None:
            return
        if not readable(key.group, self.twins.rights(key, login.caller.subjects)).touches(()):
            raise error_of(not_found(key.group, key.id))

    def listen(
        self, login: Login, listener: EventListener, namespaces: Collection[str], miss: Callable[[int], None]
    ) -> Callable[[], None]:
        """Call back with changes of things and policies, once they are on the disk. Returns a function that ends it.

        A listener gets what the login may read by the policies in force, and nothing that its own origin caused. Items
        have many events: only listeners that name their namespaces get them, such as `WELCOME.STOCKS`. Naming some does
        not leave out other things; filtering is up to the listener. `miss` is called with how many events of items were
        lost because too many came before it was known whether they may be read.
        """
        caller: Caller = login.caller

        def hear(told: Told) -> None:
            if caller.origin is not None and told.origin is caller.origin:
                return
            change = told.change_for(caller.subjects)
            if change is not None:
                listener(HeardEvent(self._event(told, change), told, login))

        end_things = self.twins.listen(hear)
        end_items = self._item_events.listen(
            login, namespaces, lambda event: listener(HeardEvent(event, None, login)), miss
        )

        self.listeners += 1

        def end() -> None:
            self.listeners -= 1
            end_things()
            end_items()

        return end

    def _event(self, told: Told, change: Change) -> TwinEvent:
        """One object for all listeners that may read all of a change: it is encoded once for them."""
        if change is not told.change:
            return self._asking(told, event_of(told, change))
        if self._latest is None or self._latest[0] is not told:
            self._latest = told, self._asking(told, event_of(told, change))
        return self._latest[1]

    def _asking(self, told: Told, event: TwinEvent) -> TwinEvent:
        """The event, with the acknowledgements that the sender of the command waits for."""
        labels = self.live.wanted((told.key.id, str(told.correlation)))
        return replace(event, headers={**event.headers, "requested-acks": list(labels)}) if labels else event

    # -- acknowledgements ------------------------------------------------------------------------------------------

    def acknowledge(self, ticket: Ticket, labels: Collection[str], result: DittoAnswer) -> None:
        """A change of a twin is on the disk: acknowledge what the server itself acknowledges of these labels."""
        if PERSISTED in labels:
            self.live.take(ticket, PERSISTED, result.status, result.value, etag=result.etag)
        if SEARCH_PERSISTED in labels:
            task = asyncio.get_running_loop().create_task(self._indexed(ticket))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.live.all_were_sent(ticket)

    async def _indexed(self, ticket: Ticket) -> None:
        if self._search_writer is not None:
            await self._search_writer.settled()
        self.live.take(ticket, SEARCH_PERSISTED, 204, UNSET)


async def ask(twins: Twins, command: TwinCommand | RetrieveThings, caller: Caller) -> Result:
    """The result, once it is on the disk; raises the refusal. Cancelling does not undo the command."""
    waiting: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def answer(result: Result | TwinRefusal) -> None:
        if waiting.done():
            return
        if isinstance(result, TwinRefusal):
            waiting.set_exception(result)
        else:
            waiting.set_result(result)

    twins.submit(command, caller, answer)
    return await waiting


def as_answer(error: Exception, what: str) -> DittoError:
    """The answer to the exception being handled: its own, or 500 with a number that is also in the log."""
    if isinstance(error, DittoError):
        return error
    number = incident()
    log.exception("a request of a Ditto client failed", number=number, request=what)
    return INTERNAL.of(description=f"The server's log has details under number {number}.")
