#!/bin/sh
# Prints every Python on this machine that Penstock can run on, one of each version: those on the path, and pyenv's.
set -eu
for version in 3.11 3.12 3.13 3.14; do
    for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
        # Each is started: version managers put shims on the path that only say "not installed".
        if found=$("$candidate" -c 'import sys; print(sys.executable if "%d.%d" % sys.version_info[:2] == sys.argv[1] else "")' \
            "$version" 2>/dev/null) && [ -n "$found" ]; then
            echo "$found"
            break
        fi
    done
done
