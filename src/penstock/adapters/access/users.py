"""Users in a file: one per line, as `name:hash:role,role`, read again when the file changes.

Hashes are argon2id; checking one takes much time and memory on purpose, so it is done on a thread.
Not here: changing the file (editing, commands). Read next: docs/access.md.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from argon2 import PasswordHasher, Type, extract_parameters
from argon2.exceptions import Argon2Error, InvalidHashError
from argon2.profiles import get_default_parameters

from penstock.adapters.access.settings import AccessError
from penstock.log import get

log = get(__name__)

# Longer ones are rejected without checking the hash: nobody types them, and they cost the sender nothing.
MAX_PASSWORD_CHARACTERS = 1_024

NAME = re.compile(
    r"[^\s:#\x00-\x1f\x7f\ud800-\udfff]([^:\x00-\x1f\x7f\ud800-\udfff]{0,253}[^\s:\x00-\x1f\x7f\ud800-\udfff])?"
)
A_NAME = "1 to 255 characters without a colon, not beginning with # and without spaces around it"
ROLE = re.compile(r"[^\s:,\x00-\x1f\x7f\ud800-\udfff]{1,255}")
A_ROLE = "1 to 255 characters without spaces, colons and commas"
A_LINE = "name:hash:role,role with an argon2id hash, as `penstock user add` writes it"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    # Not part of `repr`, so that it never gets into a log.
    hash: str
    roles: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"User({self.name!r}, roles={self.roles!r})"

    def line(self) -> str:
        return f"{self.name}:{self.hash}:{','.join(self.roles)}"


class UserFile:
    """May be asked from any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = Lock()
        self._version: object = None
        self._users: dict[str, User] = {}
        self._decoy = ""

    def load(self) -> None:
        """Read the file; raises AccessError if it cannot be used."""
        version = _version(self.path)
        self._take(parse(read_text(self.path), self.path))
        self._version = version

    def check(self, name: str, password: str) -> User | None:
        """The user, if the password is right. An unknown name takes as long as a wrong password."""
        self._follow()
        if len(password) > MAX_PASSWORD_CHARACTERS:
            return None
        user = self._users.get(name)
        return user if verify(self.hash_to_check(user), password) else None

    def find(self, name: str) -> User | None:
        """The user as the file has them now, whatever the password."""
        self._follow()
        return self._users.get(name)

    def hash_to_check(self, user: User | None) -> str:
        """The user's hash, or for an unknown user a random one that costs as much to check."""
        return self._decoy if user is None else user.hash

    def _follow(self) -> None:
        """Read a changed file. An invalid one changes nothing: an incomplete file must lock nobody out."""
        with self._lock:
            version = _version(self.path)
            if version == self._version:
                return
            self._version = version
            try:
                self._take(parse(read_text(self.path), self.path))
            except AccessError as error:
                log.error("users not read again, the old ones stay", reason=str(error))
            else:
                log.info("users read again", file=self.path, users=len(self._users))

    def _take(self, users: Iterable[User]) -> None:
        found = {user.name: user for user in users}
        first = next(iter(found.values()), None)
        parameters = get_default_parameters() if first is None else extract_parameters(first.hash)
        if not self._decoy or extract_parameters(self._decoy) != parameters:
            self._decoy = PasswordHasher.from_parameters(parameters).hash(secrets.token_hex(16))
        self._users = found


def hashed(password: str) -> str:
    return PasswordHasher().hash(password)


def verify(hash: str, password: str) -> bool:
    try:
        return PasswordHasher().verify(hash, password)
    except (Argon2Error, InvalidHashError, UnicodeEncodeError):
        # The last: text that came as no valid text at all.
        return False


def parse(text: str, place: str) -> list[User]:
    """The users of a file; raises AccessError with the line at fault, and nothing of what is secret in it."""
    users: dict[str, User] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if is_comment(line):
            continue
        name, _, rest = line.strip().partition(":")
        hash, _, roles = rest.partition(":")
        user = User(name, hash, tuple([role.strip() for role in roles.split(",") if role.strip()]))
        where = f"{place}: line {number}"
        if not NAME.fullmatch(name):
            raise AccessError(f"{where}: expected {A_LINE}; a name is {A_NAME}")
        if not _is_usable(hash):
            raise AccessError(f"{where}: user {name}: expected {A_LINE}")
        for role in user.roles:
            if not ROLE.fullmatch(role):
                raise AccessError(f"{where}: user {name}: role {role}: expected {A_ROLE}")
        if name in users:
            raise AccessError(f"{where}: user {name} is given twice: expected each user once")
        users[name] = user
    return list(users.values())


def is_comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise AccessError(f"{path}: expected a readable file of users ({error.strerror})") from None
    except UnicodeDecodeError:
        raise AccessError(f"{path}: expected a file of users in UTF-8") from None


def _is_usable(hash: str) -> bool:
    try:
        return extract_parameters(hash).type is Type.ID
    except InvalidHashError:
        return False


def _version(path: str) -> object:
    """Changes with the file."""
    try:
        found = os.stat(path)
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino
