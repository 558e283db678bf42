#!/bin/sh
# tests.sh ARGUMENT...: runs pytest. With SECOND_LOOK=N, which CI sets, up to N tests that failed run once more, one at a time with
# nothing beside them. What fails again fails the run. What passes then depends on the pace of the machine: that is a defect
# of the test or of the product, and it is named here so that it is mended, but it does not say that this change is wrong.
set -u
python=.venv/bin/python
code=0
"$python" -m pytest "$@" || code=$?
# 1: tests failed, and the run came to its end. Anything else (interrupted, bad options, nothing collected) stays what it is.
[ "$code" = 1 ] && [ "${SECOND_LOOK:-0}" -gt 0 ] || exit "$code"

failed=$("$python" -c '
import json, pathlib
print(*json.loads(pathlib.Path(".pytest_cache/v/cache/lastfailed").read_text()), sep="\n")')
[ "$(printf '%s\n' "$failed" | wc -l)" -le "$SECOND_LOOK" ] || exit "$code"
printf '\ntests.sh: unsteady, run once more by themselves:\n%s\n' "$failed"
exec "$python" -m pytest "$@" -n 0 --last-failed --last-failed-no-failures none
