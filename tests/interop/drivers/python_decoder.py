"""The decoder of updates inside the published Python client: chains of update lines on standard input, what the client
holds after each on standard output, both as JSON lines.

Runs in the client's own environment, so it imports nothing of this repository. The names are those that the client's
compiler has made.
"""

from __future__ import annotations

import json
import sys

from lightstreamer.client import ls_python_client_haxe as client

parse = client.com_lightstreamer_client_internal__ParseTools_ParseTools_Fields_.parseUpdate
apply = client.com_lightstreamer_client_internal_update__UpdateUtils_UpdateUtils_Fields_.applyUpatesToCurrentFields
to_string = client.com_lightstreamer_client_internal_update_CurrFieldValTools.toString


def follow(lines: list[str], count: int) -> list[list[str | None]]:
    held = None
    states: list[list[str | None]] = []
    for line in lines:
        held = apply(held, parse(line).values)
        states.append([to_string(held.h.get(field, None)) for field in range(1, count + 1)])
    return states


def main() -> None:
    for request in sys.stdin:
        chain = json.loads(request)
        try:
            answer: object = follow(chain["lines"], chain["fields"])
        except Exception as error:
            answer = repr(error)
        print(json.dumps(answer), flush=True)


main()
