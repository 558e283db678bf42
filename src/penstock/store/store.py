"""The database itself: SQLite in a file, or PostgreSQL by URL. Every call blocks and is a transaction of its own.

May be asked from any thread, never from the event loop: see `thread`. Tables are in `schema`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count
from secrets import token_bytes, token_urlsafe
from typing import Any, Protocol
from uuid import uuid4

from sqlalchemy import Connection, Engine, Row, Table, create_engine, delete, event, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from penstock.exchange.authorization import Authorization, Role
from penstock.exchange.payload_policy import EVERYTHING, PayloadPolicy
from penstock.store import schema
from penstock.store.digest import KEY_SIZE, MAX_SECRET, digest
from penstock.store.errors import AlreadyExists, NoSuchAccount, NoSuchRecord
from penstock.store.integrity import check_integrity
from penstock.store.names import IDENTIFIER, checked, domain_name
from penstock.store.records import Account, NewToken, SessionLog, StoredToken
from penstock.wire.tlex.vocabulary import Tlc, TlcType

# Random bytes of a token: 43 characters.
TOKEN_BYTES = 32

# How long a transaction waits for that of another process, such as a command that changes accounts.
BUSY_SECONDS = 10

# PostgreSQL ends a transaction in which nothing was said for so long, because what it has locked keeps others waiting:
# that of a server whose machine was frozen or cut off in its middle.
IDLE_SECONDS = 10

# Which connection has answered, the commits of others that it has noticed, and rows that it has changed itself.
StoreVersion = tuple[int, int, int]

# Connections are told apart by them.
_NUMBERS = count()


class StoreFence(Protocol):
    """The epoch of the hub that writes: see `hub_lease`."""

    def enter(self, engine: Engine) -> None:
        """Before anything is read that is to be written again. Raises Ousted."""

    def hold(self, connection: Connection) -> None:
        """At the beginning of a transaction that writes. Raises Ousted."""

    def left(self) -> float:
        """Seconds for which the hub may go on. From any thread."""


class Store:
    """Open it with `Store.open`; close it at the end."""

    def __init__(self, engine: Engine, key: bytes, fence: StoreFence | None = None) -> None:
        self.engine = engine
        self.fence = fence
        # The same, for transactions that only read. Both are also used by `push`.
        self.reader = engine.execution_options(reads=True)
        self._key = key

    @classmethod
    def open(cls, url: str, fence: StoreFence | None = None) -> Store:
        """A database by its URL, as `sqlite:///store.db`; created if it is new, brought up to date if it is old.

        With a fence every transaction that may write fails by Ousted when another hub has opened the database after
        this one.
        """
        # A connection that was cut while it was idle is replaced: a database may be restarted under a running server.
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        elif engine.dialect.name == "postgresql":
            event.listen(engine, "connect", _prepare_postgresql)
        try:
            if engine.dialect.name == "sqlite":
                check_integrity(engine, str(engine.url.database))
            with engine.begin() as connection:
                key = schema.prepare(connection, token_bytes(KEY_SIZE))
            if fence is not None:
                fence.enter(engine)
                event.listen(engine, "begin", partial(_hold, fence))
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, key, fence)

    def close(self) -> None:
        self.engine.dispose()

    def version(self) -> StoreVersion | None:
        """Another one after anything was written, by whomever; None if this kind of database does not tell.

        SQLite counts for each connection what others have written, and apart from that what it has written itself.
        """
        if self.engine.dialect.name != "sqlite":
            return None
        # Not as a transaction, whose BEGIN and end would cost more than the question: servers ask once a second.
        connection = self.engine.raw_connection()
        try:
            number = connection.info.setdefault("number", next(_NUMBERS))
            row = connection.cursor().execute("PRAGMA data_version").fetchone()
            driver: Any = connection.driver_connection
            return number, row[0], driver.total_changes
        finally:
            connection.close()

    # -- accounts -------------------------------------------------------------------------------------------------

    def add_account(self, name: str) -> Account:
        account = Account(str(uuid4()), checked("name", name))
        self._insert(schema.accounts, f"Account {name!r}", uuid=account.uuid, name=name)
        return account

    def accounts(self) -> list[Account]:
        with self.reader.connect() as connection:
            found = connection.execute(select(schema.accounts).order_by(schema.accounts.c.name))
            return [Account(row.uuid, row.name) for row in found]

    def account(self, name: str) -> Account:
        with self.reader.connect() as connection:
            row = connection.execute(select(schema.accounts).where(schema.accounts.c.name == name)).one_or_none()
        if row is None:
            raise NoSuchRecord(f"Account {name!r} does not exist")
        return Account(row.uuid, row.name)

    def rename_account(self, uuid: str, name: str) -> Account:
        """Raises AlreadyExists if another one has this name."""
        table = schema.accounts
        try:
            with self.engine.begin() as connection:
                query = update(table).where(table.c.uuid == uuid).values(name=checked("name", name))
                changed = connection.execute(query).rowcount
        except IntegrityError:
            raise AlreadyExists(f"Account {name!r} exists already") from None
        if not changed:
            raise NoSuchRecord(f"Account {uuid} does not exist")
        return Account(uuid, name)

    def remove_account(self, uuid: str) -> None:
        """With its authorizations and tokens; raises AlreadyExists as long as it owns controllers."""
        try:
            with self.engine.begin() as connection:
                gone = connection.execute(delete(schema.accounts).where(schema.accounts.c.uuid == uuid)).rowcount
        except IntegrityError:
            raise AlreadyExists(f"Account {uuid} still owns controllers; they must go first") from None
        if not gone:
            raise NoSuchRecord(f"Account {uuid} does not exist")

    # -- authorizations and their tokens --------------------------------------------------------------------------

    def authorize(
        self, account: str, domain: str, role: Role, identifiers: Iterable[str] = (), policy: PayloadPolicy = EVERYTHING
    ) -> Authorization:
        """Let an account be something in a domain, perhaps only for some controllers."""
        scope = frozenset([checked("identifier", each, IDENTIFIER) for each in identifiers])
        made = Authorization(str(uuid4()), account, domain_name(domain), role, scope, policy=policy)
        with self.engine.begin() as connection:
            if connection.execute(select(schema.accounts).where(schema.accounts.c.uuid == account)).first() is None:
                raise NoSuchAccount(f"Account {account} does not exist")
            need_domain(connection, made.domain)
            connection.execute(
                insert(schema.authorizations).values(
                    uuid=made.uuid, account=account, domain=made.domain, role=role.value
                )
            )
            for identifier in made.identifiers:
                connection.execute(insert(schema.scopes).values(authorization=made.uuid, identifier=identifier))
            _keep_policy(connection, made)
        return made

    def authorizations(self, account: str | None = None) -> list[Authorization]:
        """Of one account, or of all."""
        table = schema.authorizations
        query = select(table) if account is None else select(table).where(table.c.account == account)
        with self.reader.connect() as connection:
            found = connection.execute(query.order_by(table.c.domain, table.c.account, table.c.uuid)).all()
            scopes: dict[str, set[str]] = {}
            for row in connection.execute(select(schema.scopes)):
                scopes.setdefault(row.authorization, set()).add(row.identifier)
            policies = {row.authorization: _policy(row) for row in connection.execute(select(schema.payload_policies))}
        return [
            _restricted(row, frozenset(scopes.get(row.uuid, ())), policies.get(row.uuid, EVERYTHING)) for row in found
        ]

    def authorization(self, uuid: str) -> Authorization | None:
        with self.reader.connect() as connection:
            query = select(schema.authorizations).where(schema.authorizations.c.uuid == uuid)
            row = connection.execute(query).one_or_none()
            return None if row is None else _authorization(connection, row)

    def change_authorization(self, changed: Authorization) -> None:
        """Role, domain, account and controllers of the one with this uuid; its tokens stay."""
        domain = domain_name(changed.domain)
        table = schema.authorizations
        values = {"account": changed.account, "domain": domain, "role": changed.role.value}
        try:
            with self.engine.begin() as connection:
                need_domain(connection, domain)
                query = update(table).where(table.c.uuid == changed.uuid).values(**values)
                if not connection.execute(query).rowcount:
                    raise NoSuchRecord(f"Authorization {changed.uuid} does not exist")
                connection.execute(delete(schema.scopes).where(schema.scopes.c.authorization == changed.uuid))
                for identifier in changed.identifiers:
                    connection.execute(insert(schema.scopes).values(authorization=changed.uuid, identifier=identifier))
                connection.execute(
                    delete(schema.payload_policies).where(schema.payload_policies.c.authorization == changed.uuid)
                )
                _keep_policy(connection, changed)
        except IntegrityError:
            raise NoSuchAccount(f"Account {changed.account} does not exist") from None

    def remove_authorization(self, uuid: str) -> None:
        """With its tokens."""
        table = schema.authorizations
        with self.engine.begin() as connection:
            gone = connection.execute(delete(table).where(table.c.uuid == uuid)).rowcount
        if not gone:
            raise NoSuchRecord(f"Authorization {uuid} does not exist")

    def add_token(self, authorization: str, now: int) -> NewToken:
        """A new token; its secret is not kept."""
        made = NewToken(str(uuid4()), token_urlsafe(TOKEN_BYTES))
        with self.engine.begin() as connection:
            found = select(schema.authorizations).where(schema.authorizations.c.uuid == authorization)
            if connection.execute(found).first() is None:
                raise NoSuchRecord(f"Authorization {authorization} does not exist")
            connection.execute(
                insert(schema.tokens).values(
                    uuid=made.uuid, authorization=authorization, digest=digest(self._key, made.secret), created=now
                )
            )
        return made

    def tokens(self, authorization: str) -> list[StoredToken]:
        table = schema.tokens
        with self.reader.connect() as connection:
            found = connection.execute(
                select(table).where(table.c.authorization == authorization).order_by(table.c.created, table.c.uuid)
            )
            return [StoredToken(row.uuid, row.authorization, row.created, row.revoked) for row in found]

    def all_tokens(self) -> list[StoredToken]:
        """Those of all authorizations that are not revoked."""
        table = schema.tokens
        query = select(table).where(table.c.revoked.is_(None))
        with self.reader.connect() as connection:
            found = connection.execute(query.order_by(table.c.authorization, table.c.created, table.c.uuid))
            return [StoredToken(row.uuid, row.authorization, row.created, row.revoked) for row in found]

    def revoke(self, token: str, now: int) -> None:
        """By its uuid. A second time changes nothing: the first counts."""
        table = schema.tokens
        with self.engine.begin() as connection:
            if connection.execute(select(table.c.uuid).where(table.c.uuid == token)).first() is None:
                raise NoSuchRecord(f"Token {token} does not exist")
            connection.execute(
                update(table).where(table.c.uuid == token, table.c.revoked.is_(None)).values(revoked=now)
            )

    def find(self, secret: str) -> Authorization | None:
        """Whose token this is; None if nobody's, or revoked."""
        if len(secret) > MAX_SECRET:
            return None
        table = schema.authorizations
        query = (
            select(table, schema.tokens.c.uuid.label("token"))
            .join(schema.tokens, schema.tokens.c.authorization == table.c.uuid)
            .where(schema.tokens.c.digest == digest(self._key, secret), schema.tokens.c.revoked.is_(None))
        )
        with self.reader.connect() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            return _authorization(connection, row, row.token)

    def good_tokens(self, among: Iterable[str]) -> dict[str, Authorization]:
        """Those of these tokens, by uuid, that are there and not revoked, with what they are for."""
        table = schema.authorizations
        query = (
            select(table, schema.tokens.c.uuid.label("token"))
            .join(schema.tokens, schema.tokens.c.authorization == table.c.uuid)
            .where(schema.tokens.c.uuid.in_(list(among)), schema.tokens.c.revoked.is_(None))
        )
        with self.reader.connect() as connection:
            return {row.token: _authorization(connection, row, row.token) for row in connection.execute(query).all()}

    def token(self, uuid: str) -> StoredToken:
        """One that is not revoked."""
        table = schema.tokens
        with self.reader.connect() as connection:
            row = connection.execute(select(table).where(table.c.uuid == uuid, table.c.revoked.is_(None))).one_or_none()
        if row is None:
            raise NoSuchRecord(f"Token {uuid} does not exist")
        return StoredToken(row.uuid, row.authorization, row.created, row.revoked)

    def move_token(self, uuid: str, authorization: str) -> None:
        """Give a token that is not revoked to another authorization, which must exist."""
        table = schema.tokens
        try:
            with self.engine.begin() as connection:
                moved = connection.execute(
                    update(table)
                    .where(table.c.uuid == uuid, table.c.revoked.is_(None))
                    .values(authorization=authorization)
                ).rowcount
        except IntegrityError:
            raise NoSuchRecord(f"Authorization {authorization} does not exist") from None
        if not moved:
            raise NoSuchRecord(f"Token {uuid} does not exist")

    # -- controllers ----------------------------------------------------------------------------------------------

    def add_tlc(self, domain: str, identifier: str, type: TlcType, account: str) -> Tlc:
        tlc = Tlc(
            uuid=str(uuid4()),
            identifier=checked("identifier", identifier, IDENTIFIER),
            type=type,
            domain=domain_name(domain),
            account=account,
        )
        what = f"Controller {identifier!r} in domain {tlc.domain!r}"
        with self.reader.connect() as connection:
            if connection.execute(select(schema.accounts).where(schema.accounts.c.uuid == account)).first() is None:
                raise NoSuchRecord(f"Account {account} does not exist")
        values = {"uuid": tlc.uuid, "identifier": identifier, "type": type.value, "domain": tlc.domain}
        try:
            with self.engine.begin() as connection:
                need_domain(connection, tlc.domain)
                connection.execute(insert(schema.tlcs).values(account=account, **values))
        except IntegrityError:
            raise AlreadyExists(f"{what} exists already") from None
        return tlc

    def tlcs(self) -> list[Tlc]:
        """All of them, of every domain."""
        with self.reader.connect() as connection:
            found = connection.execute(select(schema.tlcs).order_by(schema.tlcs.c.domain, schema.tlcs.c.identifier))
            return [_tlc(row) for row in found]

    def change_tlc(self, changed: Tlc) -> None:
        """Identifier, type and domain of the one with this uuid. Raises AlreadyExists if the identifier is in use."""
        table = schema.tlcs
        values = {"identifier": changed.identifier, "type": changed.type.value, "domain": domain_name(changed.domain)}
        try:
            with self.engine.begin() as connection:
                need_domain(connection, values["domain"])
                query = update(table).where(table.c.uuid == changed.uuid).values(**values)
                if not connection.execute(query).rowcount:
                    raise NoSuchRecord(f"Controller {changed.uuid} does not exist")
        except IntegrityError:
            raise AlreadyExists(
                f"Controller {changed.identifier!r} in domain {changed.domain!r} exists already"
            ) from None

    def remove_tlc(self, uuid: str) -> None:
        with self.engine.begin() as connection:
            gone = connection.execute(delete(schema.tlcs).where(schema.tlcs.c.uuid == uuid)).rowcount
        if not gone:
            raise NoSuchRecord(f"Controller {uuid} does not exist")

    # -- past sessions --------------------------------------------------------------------------------------------

    def log_sessions(self, ended: Sequence[SessionLog]) -> None:
        rows = [
            {
                "id": each.id,
                "account": each.account,
                "domain": each.domain,
                "type": each.type,
                "protocol": each.protocol,
                "identifiers": json.dumps(each.identifiers),
                "created": each.created,
                "connected": each.connected,
                "ended": each.ended,
                "end_reason": each.end_reason,
                "digest": digest(self._key, each.token) if each.token else None,
            }
            for each in ended
        ]
        if rows:
            with self.engine.begin() as connection:
                connection.execute(insert(schema.session_logs), rows)

    def session_logs(self, since: int, until: int, account: str | None = None, limit: int = 10_000) -> list[SessionLog]:
        """Sessions that were there at some time from `since` to `until`, the oldest first; of one account or of all."""
        table = schema.session_logs
        query = select(table).where(table.c.created <= until, table.c.ended >= since)
        if account is not None:
            query = query.where(table.c.account == account)
        with self.reader.connect() as connection:
            found = connection.execute(query.order_by(table.c.created, table.c.id).limit(limit))
            return [_session_log(row) for row in found]

    def session_log(self, key: str) -> SessionLog | None:
        """By the session's token, or by the id that lists show."""
        table = schema.session_logs
        is_it = table.c.id == key
        if len(key) <= MAX_SECRET:
            is_it |= table.c.digest == digest(self._key, key)
        with self.reader.connect() as connection:
            row = connection.execute(select(table).where(is_it)).one_or_none()
        return None if row is None else _session_log(row)

    def forget_sessions(self, before: int) -> int:
        """Delete the entries of sessions that ended before a time; returns how many."""
        table = schema.session_logs
        with self.engine.begin() as connection:
            return connection.execute(delete(table).where(table.c.ended < before)).rowcount

    def _insert(self, table: Table, what: str, **values: object) -> None:
        try:
            with self.engine.begin() as connection:
                connection.execute(insert(table).values(**values))
        except IntegrityError:
            raise AlreadyExists(f"{what} exists already") from None


def need_domain(connection: Connection, name: str) -> None:
    """Make it unless it exists. Either way its row is locked: nobody may remove it before something is in it."""
    connection.execute(
        text(
            "INSERT INTO domains (uuid, name) VALUES (:uuid, :name) "
            "ON CONFLICT (name) DO UPDATE SET name = excluded.name"
        ),
        {"uuid": str(uuid4()), "name": name},
    )


def _authorization(connection: Connection, row: Row[Any], token: str = "") -> Authorization:
    table = schema.payload_policies
    found = connection.execute(select(table).where(table.c.authorization == row.uuid)).one_or_none()
    return _restricted(row, _scope(connection, row.uuid), EVERYTHING if found is None else _policy(found), token)


def _restricted(row: Row[Any], scope: frozenset[str], policy: PayloadPolicy, token: str = "") -> Authorization:
    return Authorization(row.uuid, row.account, row.domain, Role(row.role), scope, token, policy)


def _keep_policy(connection: Connection, authorization: Authorization) -> None:
    policy = authorization.policy
    if policy != EVERYTHING:
        send = None if policy.send is None else json.dumps(sorted(policy.send))
        receive = None if policy.receive is None else json.dumps(sorted(policy.receive))
        values = {"authorization": authorization.uuid, "send": send, "receive": receive}
        connection.execute(insert(schema.payload_policies).values(**values))


def _policy(row: Row[Any]) -> PayloadPolicy:
    types = [None if each is None else frozenset(json.loads(each)) for each in (row.send, row.receive)]
    return PayloadPolicy(*types)


def _scope(connection: Connection, authorization: str) -> frozenset[str]:
    query = select(schema.scopes.c.identifier).where(schema.scopes.c.authorization == authorization)
    return frozenset(connection.execute(query).scalars())


def _tlc(row: Row[Any]) -> Tlc:
    return Tlc(uuid=row.uuid, identifier=row.identifier, type=TlcType(row.type), domain=row.domain, account=row.account)


def _session_log(row: Row[Any]) -> SessionLog:
    values = row._asdict()
    del values["digest"]
    values["identifiers"] = tuple(json.loads(values["identifiers"]))
    return SessionLog(**values)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver would begin transactions by itself, and not before some statements: see `_begin_sqlite`.
    connection.isolation_level = None
    for pragma in (f"busy_timeout = {BUSY_SECONDS * 1000}", "journal_mode = WAL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _prepare_postgresql(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute(f"SET idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000}")
    cursor.close()
    connection.commit()


def _hold(fence: StoreFence, connection: Connection) -> None:
    # Here, because this is where no transaction gets past, whoever begins it.
    if not connection.get_execution_options().get("reads"):
        fence.hold(connection)


def _begin_sqlite(connection: Connection) -> None:
    # Immediately for writing: a transaction that begins by reading could fail when it wants to write.
    reads = connection.get_execution_options().get("reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
