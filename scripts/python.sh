#!/bin/sh
# Prints a Python that Penstock can run on. Every candidate is started, because a name on the path proves
# nothing: version managers put shims there that only say "not installed". $PYTHON, when set, is the only one.
set -eu

for candidate in ${PYTHON:-python3.13 python3.12 python3.11 python3 python}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        command -v "$candidate"
        exit 0
    fi
done
echo "penstock: needs Python 3.11 or newer; found none as ${PYTHON:-python3.13, python3.12, python3.11 or python3}" \
    "(install one, or name it: make setup PYTHON=/path/to/python3)" >&2
exit 1
