"""How a Python worker calls Spark back at once, and imports afterwards what it needs.

Spark gives a worker of its driver (that of a streaming source, for one) ten seconds to connect and to say its secret,
and has no setting for it. A worker imports pyspark, pandas and pyarrow first, which takes a loaded machine longer than
that. So a bare interpreter connects (`connect`, below `__main__`) and becomes the worker, which finds the connection
open (`adopt`). This file runs without site-packages: nothing but the standard library may be imported above `adopt`.
Not here: the launcher that Spark is told to start (workers).
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Any

# Where Spark waits for a worker, and what it has to say first; both are in the environment.
PORT = "PYTHON_WORKER_FACTORY_PORT"
SECRET = "PYTHON_WORKER_FACTORY_SECRET"

# The worker's own: the number of the open connection.
CONNECTION = "PENSTOCK_WORKER_CONNECTION"

# Seconds that Spark has to accept the secret; it waits for it.
ANSWER_SECONDS = 120.0

_BECOME = "from penstock.pipeline.callback import adopt; adopt()"


def connect(environment: dict[str, str]) -> socket.socket:
    """A connection to Spark that has been accepted. Raises OSError, EOFError, PermissionError."""
    host = "::1" if environment.get("SPARK_PREFER_IPV6", "").lower() == "true" else "127.0.0.1"
    connection = socket.create_connection((host, int(environment[PORT])), ANSWER_SECONDS)
    secret = environment[SECRET].encode()
    connection.sendall(struct.pack("!i", len(secret)) + secret)
    (length,) = struct.unpack("!i", _exactly(connection, 4))
    if _exactly(connection, length) != b"ok":
        raise PermissionError("Spark did not accept the secret that it gave to this worker")
    return connection


def _exactly(connection: socket.socket, count: int) -> bytes:
    """Not a byte more: what follows is for the worker."""
    got = b""
    while len(got) < count:
        more = connection.recv(count - len(got))
        if not more:
            raise EOFError("Spark closed the connection to its worker")
        got += more
    return got


def become_worker(python: str, arguments: list[str]) -> None:
    """Connect, then run `python -m MODULE …` in this process, with the connection."""
    connection = connect(dict(os.environ))
    os.set_inheritable(connection.fileno(), True)
    os.environ[CONNECTION] = str(connection.fileno())
    os.execv(python, [python, "-c", _BECOME, *arguments])


def adopt() -> None:
    """Run the module that Spark asked for; when it is about to connect, it finds that done."""
    import runpy

    from pyspark import util, worker_util

    descriptor = int(os.environ.pop(CONNECTION))
    usual = util.local_connect_and_auth
    left = [socket.socket(fileno=descriptor)]
    # Not for processes that the worker may start.
    left[0].set_inheritable(False)

    def given(place: str | int | None, secret: str | None) -> tuple[Any, ...]:
        """In place of pyspark's own, which returns a connection as a file and as a socket."""
        if not left or str(place) != os.environ.get(PORT):
            return usual(place, secret)
        connection = left.pop()
        connection.settimeout(int(os.environ.get("SPARK_AUTH_SOCKET_TIMEOUT", 15)))
        return connection.makefile("rwb", int(os.environ.get("SPARK_BUFFER_SIZE", 65536))), connection

    # Not one that pyspark exports. If it had another name, the worker would find Spark's port closed, and a test fail.
    vars(worker_util)["local_connect_and_auth"] = given
    _, option, module, *rest = sys.argv
    assert option == "-m", sys.argv
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    become_worker(sys.argv[1], sys.argv[2:])
