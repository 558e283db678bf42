"""A supervisor with workers that only pretend, as a program: `python -m tests.cluster.supervised FOLDER`.

Each start of a worker takes the next word of `FOLDER/NAME`: `ready` works until it is told to stop, `ready-die` is
ready and dies, `ready-wait` when there is a file `FOLDER/die`, `ready-wait-longer` when there is `die-later`, `die`
dies at once, `fail` says why it cannot start. After the last word it is `ready`.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from pathlib import Path

from penstock.cluster import supervisor
from penstock.cluster.control import Words, WorkerFailed, WorkerReady, WorkerTask, written
from penstock.cluster.supervisor import Supervisor
from penstock.log import configure, configure_levels, get, relay_to

# The files that are waited for.
WAITS = {"ready-wait": "die", "ready-wait-longer": "die-later"}


def pretend(folder: Path, name: str, control: socket.socket, lines: socket.socket) -> int:
    relay_to(lines)
    configure_levels("info", {})
    file = folder / name
    words = file.read_text().split() if file.exists() else []
    file.write_text(" ".join(words[1:]))
    word = words[0] if words else "ready"
    (task,) = Words().feed(control.recv(1 << 16))
    assert isinstance(task, WorkerTask)
    given_up = [each.name for each in task.given_up]
    get("penstock.worker").info("begun", word=word, ports=task.ports, **({"given_up": given_up} if given_up else {}))
    if word == "fail":
        control.sendall(written(WorkerFailed("it is Monday")))
    if word in ("fail", "die"):
        return 1
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    control.sendall(written(WorkerReady([f"{name}=here"], [], {"api": 4711} if name == "hub" else {})))
    if word == "ready-die":
        return 3
    if word in WAITS:
        while not (folder / WAITS[word]).exists():
            time.sleep(0.02)
        return 3
    heard = Words()
    while data := control.recv(1 << 16):
        for each in heard.feed(data):
            get("penstock.worker").info("heard", what=type(each).__name__)
    return 0


def main(folder: Path, edges: int) -> int:
    configure("info", "text")
    supervisor.COMMAND = (sys.executable, "-m", "tests.cluster.supervised", str(folder))
    supervisor.PAUSES = (0.0, 0.05)

    def task_of(name: str, ports: dict[str, int]) -> WorkerTask:
        return WorkerTask(name, 0, "", None, None, {}, ports, [], False, bool(ports))

    def ready(workers: object) -> None:
        print("ready", flush=True)

    def before_stop() -> None:
        print("before stop", flush=True)

    return Supervisor(edges, task_of, lambda: None, ready, before_stop).run()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
    ends = [socket.socket(fileno=int(number)) for number in sys.argv[3:5]]
    sys.exit(pretend(Path(sys.argv[1]), sys.argv[2], *ends))
