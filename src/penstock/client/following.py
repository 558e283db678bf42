"""A command that follows a server: it runs until it is left, and says in one line what else has ended it.

Not here: what is followed (`watching`, `top`), the connection (`connection`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine

from penstock.terminal import FAILED, UNREACHABLE, complaint, reader_left

# Imports are inside the function, so that no other command has to wait for them.


def follow(url: str, target: str, run: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run until it ends or is left by Ctrl-C; `target` is what the server may refuse, which it does not repeat."""
    import asyncio

    from penstock.client.errors import ClientError, ProtocolError, Refused, Unreachable
    from penstock.client.trust import advice

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        return
    except BrokenPipeError:
        reader_left()
    except (Unreachable, ProtocolError) as error:
        raise complaint(f"{url}: {error}{advice(error)}", UNREACHABLE) from None
    except Refused as refusal:
        raise complaint(f"{url}: {target}: {refusal}", FAILED) from None
    except ClientError as error:
        raise complaint(f"{url}: {error}", FAILED) from None
    except OSError as error:
        # Of the connection nothing comes as such.
        raise complaint(f"the output cannot be written: {error.strerror or error}", FAILED) from None


def check_text(option: str, given: str | None) -> None:
    """The command line may have any bytes in it, the protocol only text."""
    try:
        (given or "").encode()
    except UnicodeEncodeError:
        raise ValueError(f"{option} is not UTF-8") from None
