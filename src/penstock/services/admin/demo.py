"""The administrator of the demo: made at every start with a password that nobody has chosen, and told once.

Only its hash is kept. Whoever runs a server of their own names a file of users (`admin.users`) instead.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import NamedTuple

from penstock.adapters.access.settings import AccessError
from penstock.durable import make_directory
from penstock.services.admin.logins import AdminRole
from penstock.services.errors import StartError

NAME = "admin"

# Random bytes of the password.
PASSWORD_BYTES = 12


class DemoAdministrator(NamedTuple):
    users: Path
    password: str

    def line(self) -> str:
        """For the person who has started the demo."""
        return f"penstock: administrator {NAME}, password {self.password} (a new one at every start)"


def demo_users(data_dir: Path) -> Path:
    """The file in which the administrator is kept."""
    return data_dir / "admin" / "users"


def demo_administrator(data_dir: Path) -> DemoAdministrator:
    """Raises StartError. Slow, because of argon2: not for the event loop."""
    from penstock.adapters.access import editing  # takes its time to load, and not all need it
    from penstock.adapters.access.users import User, hashed

    path = demo_users(data_dir)
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    user = User(NAME, hashed(password), (AdminRole.ADMIN.value,))
    try:
        make_directory(path.parent)
        editing.add(path, NAME, lambda before: user)
    except OSError as error:
        raise StartError(f"the demo's administrator cannot be stored in {path}: {error.strerror}") from error
    except AccessError as error:
        raise StartError(f"the demo's administrator cannot be stored: {error}") from error
    return DemoAdministrator(path, password)
