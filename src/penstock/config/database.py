"""URLs of databases, as `tlex.store`, `push.store` and `cluster.store` name them: whether one can be one at all.

Not here: whether there is such a database, which is found out by opening it (penstock.store).
"""

from penstock.config.schema.values import PORTS
from penstock.extras import lack_of

POSTGRES = "postgresql"


def fault(url: str) -> str:
    """What is wrong with it, empty if nothing is.

    Never with what it says: in one that cannot be read, the password may be anywhere.
    """
    # Only those who name a database wait for these.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        read = make_url(url)
    except (ArgumentError, ValueError):
        return "this one cannot be read"
    try:
        dialect = read.get_dialect()
    except ArgumentError:
        return f"there is no kind of database called {read.drivername}"
    if dialect.is_async:
        return f"{read.drivername} is asynchronous, and cannot be used here"
    if read.port is not None and read.port not in PORTS:
        return "its port is not one of 1 to 65535"
    return ""


def shown(url: str) -> str:
    """One without a fault, for people: neither its password nor its parameters, among which one may be as well."""
    from sqlalchemy.engine import make_url

    return make_url(url).set(query={}).render_as_string(hide_password=True) if url else ""


def is_postgres(url: str) -> bool:
    """Of one without a fault."""
    return url.partition(":")[0].partition("+")[0] == POSTGRES


def lack_of_driver(url: str) -> str:
    """Of one without a fault: what is missing to open it, and what to do about it; empty if nothing is."""
    from sqlalchemy.engine import make_url

    try:
        make_url(url).get_dialect().import_dbapi()
    except ImportError as error:
        return lack_of(error.name or "") or f"its driver cannot be loaded: {error}"
    return ""
