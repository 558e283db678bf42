"""The metadata adapter that admits users of a file, bearers of tokens or anybody, and grants them what rules allow.

Not here: each of these (users, tokens, rules). Read next: docs/access.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.adapters.access.rules import KnownUser, Rule, Rules
from penstock.adapters.access.settings import AccessError
from penstock.adapters.api import Maybe, MetadataAdapter
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import Admission, ClientFacts, DeviceFacts, PushFacts, SessionFacts
from penstock.log import get

if TYPE_CHECKING:
    from penstock.adapters.access.tokens import TokenChecker
    from penstock.adapters.access.users import UserFile

log = get(__name__)

# The only answer to a client that is not admitted: it does not say what was wrong.
NOT_ADMITTED = "User/password check failed"

# Password checks at a time, because each takes much memory and CPU. Further ones wait.
MAX_CHECKS = 4

NAME_SHOWN = 60


class AccessMetadata(MetadataAdapter):
    """Without `users` and `tokens` everybody is admitted as anonymous; without `rules` everybody may see everything.

    Subclass it to do more: rules hold for items whatever `items` makes of a group, and `take_message` is asked only
    about messages of those who may send them.
    """

    def __init__(
        self,
        *,
        users: Path | None = None,
        tokens: Mapping[str, Any] | None = None,
        rules: Sequence[Mapping[str, Any]] | None = None,
        anonymous: bool = False,
        sessions_per_user: int | None = None,
        directory: Path = Path(),
    ) -> None:
        """Paths in `tokens` are relative to `directory`. Raises AccessError: one line that says what is wrong."""
        self._anonymous = anonymous
        self.sessions_per_user = sessions_per_user
        self._users: UserFile | None = None
        self._tokens: TokenChecker | None = None
        # Both imported here, because their libraries are slow to load, and one of them may not be needed.
        if users is not None:
            from penstock.adapters.access.users import UserFile

            self._users = UserFile(str(users))
        if tokens is not None:
            from penstock.adapters.access.tokens import TokenChecker

            self._tokens = TokenChecker(tokens, directory)
        self.knows_names = self._users is not None or self._tokens is not None
        self._rules = None if rules is None else Rules(rules, self.knows_names)
        if sessions_per_user is not None and sessions_per_user < 1:
            raise AccessError(f"sessions_per_user = {sessions_per_user}: expected a whole number from 1 up")
        if sessions_per_user is not None and not self.knows_names:
            raise AccessError("sessions_per_user without users or tokens: expected one of them, or all are anonymous")
        # A subclass that overrides `authenticate` may use more facts.
        self.decides_by_password = type(self).authenticate is AccessMetadata.authenticate
        self._threads: ThreadPoolExecutor | None = None

    async def start(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_CHECKS, thread_name_prefix="passwords")
        try:
            if self._users is not None:
                await self._on_thread(self._users.load)
            if self._tokens is not None:
                await self._tokens.load()
        except BaseException:
            # Nobody stops what has not started.
            await self.stop()
            raise

    async def check_start(self) -> None:
        if self._users is not None:
            self._users.load()
        if self._tokens is not None:
            await self._tokens.load()

    async def stop(self) -> None:
        if self._tokens is not None:
            self._tokens.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    # -- sessions -------------------------------------------------------------------------------------------------

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        who, time_to_live = await self._identify(user or None, password or None, client)
        rules = self._rules
        return Admission(
            max_bandwidth=None if rules is None else rules.max_bandwidth(who),
            manages_bandwidth=True if rules is None else rules.manages_bandwidth(who),
            user=who.user,
            roles=who.roles,
            time_to_live=time_to_live,
        )

    async def _identify(
        self, user: str | None, password: str | None, client: ClientFacts
    ) -> tuple[KnownUser, float | None]:
        """Who it is, and for how long; raises a Refusal."""
        nobody = KnownUser(None, frozenset())
        if not self.knows_names:
            return nobody, None
        token = self._token(password, client)
        if token is not None and self._tokens is not None:
            bearer = await self._tokens.identify(token)
            # A name besides the token is not needed, but must be the same.
            if bearer is not None and user in (None, bearer.user):
                return KnownUser(bearer.user, bearer.roles), bearer.time_to_live
        elif self._users is not None and user is not None and password is not None:
            found = await self._on_thread(self._users.check, user, password)
            if found is not None:
                return KnownUser(found.name, frozenset(found.roles)), None
        elif self._anonymous and user is None and password is None:
            return nobody, None
        log.debug("client not admitted", by="password" if token is None else "token", address=client.address)
        raise Refusal(Reason.CREDENTIALS, NOT_ADMITTED)

    def _token(self, password: str | None, client: ClientFacts) -> str | None:
        if self._tokens is None:
            return None
        if password is None:
            return self._tokens.of_header(client)
        if self._users is None:
            return password
        from penstock.adapters.access.tokens import looks_like_token

        return password if looks_like_token(password) else None

    async def _on_thread(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    # -- subscriptions --------------------------------------------------------------------------------------------

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Maybe[Sequence[str]]:
        names = group.split()
        for name in names:
            if not self._may_see(session, data_adapter, name):
                # The same text as for an item that does not exist, because that must not be revealed.
                raise Refusal(Reason.GROUP, f"{name[:NAME_SHOWN]} is not among the items of this user")
        return names

    def allows_mode(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Maybe[bool]:
        if self._rules is None:
            return True
        rule = self._rule(session, data_adapter, item)
        return rule is not None and mode in rule.modes

    def max_frequency(self, session: SessionFacts, data_adapter: str, item: str) -> Maybe[float | None]:
        rule = self._rule(session, data_adapter, item)
        return None if rule is None else rule.max_frequency

    def max_buffer_size(self, session: SessionFacts, data_adapter: str, item: str) -> Maybe[int | None]:
        rule = self._rule(session, data_adapter, item)
        return None if rule is None else rule.max_buffer_size

    def snapshot_length(self, data_adapter: str, item: str) -> Maybe[int]:
        length = None if self._rules is None else self._rules.snapshot_length(data_adapter, item)
        return super().snapshot_length(data_adapter, item) if length is None else length

    def prefilter_frequency(self, data_adapter: str, item: str) -> Maybe[float]:
        frequency = None if self._rules is None else self._rules.prefilter_frequency(data_adapter, item)
        return super().prefilter_frequency(data_adapter, item) if frequency is None else frequency

    def _may_see(self, session: SessionFacts, data_adapter: str, item: str) -> bool:
        return self._rules is None or self._rule(session, data_adapter, item) is not None

    def _rule(self, session: SessionFacts, data_adapter: str, item: str) -> Rule | None:
        return None if self._rules is None else self._rules.grant(self._who(session), data_adapter, item)

    def _who(self, session: SessionFacts) -> KnownUser:
        # Without authentication the name that a client gives means nothing.
        return KnownUser(session.user or None if self.knows_names else None, session.roles)

    # -- push notifications ---------------------------------------------------------------------------------------

    def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:
        self._check_application(session, device)

    def change_device_token(self, session: SessionFacts, device: DeviceFacts, new_token: str) -> None:
        self._check_application(session, device)

    def activate_push(self, session: SessionFacts, device: DeviceFacts, subscription: PushFacts) -> None:
        self._check_application(session, device)
        for item in subscription.items:
            rule = self._rule(session, subscription.data_adapter, item)
            if self._rules is not None and (rule is None or not rule.push):
                raise Refusal(Reason.GROUP, f"{item[:NAME_SHOWN]} is not among the items that this user gets by push")

    def _check_application(self, session: SessionFacts, device: DeviceFacts) -> None:
        if self._rules is not None and not self._rules.may_use_application(self._who(session), device.application):
            shown = device.application[:NAME_SHOWN]
            raise Refusal(Reason.APPLICATION, f"{shown} is not among the applications of this user")

    # -- messages -------------------------------------------------------------------------------------------------

    def message(self, session: SessionFacts, text: str) -> Maybe[str | None]:
        if self._rules is not None and not self._rules.may_send_messages(self._who(session)):
            raise Refusal(Reason.MESSAGE_FAILED, "This user may not send messages")
        return self.take_message(session, text)

    def take_message(self, session: SessionFacts, text: str) -> Maybe[str | None]:
        """A message from a client that may send messages; the return value is sent back to it."""
        return super().message(session, text)
