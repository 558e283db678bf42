"""Where the command begins, before anything is imported that may be missing or take its time: `python -m penstock`.

The commands are in `cli`. Here is what is wrong on a machine as a whole, in one sentence.
"""

import sys

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it."""

NOT_ON_WINDOWS = (
    "penstock: the server needs Linux or macOS; on Windows, install it in WSL"
    " (Windows Subsystem for Linux): wsl --install, then pip install penstock there"
)


def main() -> None:
    if sys.platform == "win32":
        sys.exit(NOT_ON_WINDOWS)
    try:
        from penstock.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
