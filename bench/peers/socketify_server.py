"""The server of the peer `socketify`: `s` and names subscribes, `p` and lines of `item|payload` publishes.

Run by the interpreter of an environment that has socketify, with the port as its argument.
"""

from __future__ import annotations

import sys

from socketify import App, CompressOptions, OpCode  # type: ignore[import-not-found]

LARGEST = 16 * 1024 * 1024

# uWebSockets writes to a subscriber for whom 32 messages wait, and while a handler runs its socket has the one buffer
# in which writes are collected. More lines than this are published after the handler: four times as fast.
MANY = 200


def main(port: int) -> None:
    app = App()

    def publish(lines: list[str]) -> None:
        for line in lines:
            item, _, payload = line.partition("|")
            app.publish(item, payload, OpCode.TEXT)

    def take(socket, message, kind):  # type: ignore[no-untyped-def]
        if message.startswith("s"):
            for name in message.split()[1:]:
                socket.subscribe(name)
            socket.send("ok", OpCode.TEXT)
        else:
            lines = message[1:].splitlines()
            if len(lines) <= MANY:
                publish(lines)
            else:
                app.loop.loop.call_soon(publish, lines)

    app.ws(
        "/*",
        {
            "compression": CompressOptions.DISABLED,
            "max_payload_length": LARGEST,
            "max_backpressure": LARGEST,
            "idle_timeout": 0,
            "message": take,
        },
    )
    app.listen(port, lambda config: None)
    app.run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
