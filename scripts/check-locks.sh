#!/bin/sh
# check-locks.sh: the lock files name what is installed, by hash, and never where it is downloaded from.
set -eu

bad=$(
    grep -nE '://|^ *(-i|-f|--index-url|--extra-index-url|--find-links)' requirements/*.txt || true
    find . -name node_modules -prune -o -name .venv -prune -o -name .interop -prune -o -name package-lock.json \
        -exec grep -HnE '"resolved": *"(https?|git)' {} + || true
)
if [ -n "$bad" ]; then
    echo "$bad"
    echo "lock files carry download addresses (npm: set omit-lockfile-registry-resolved=true in .npmrc)" >&2
    exit 1
fi
echo "Lock files carry no download addresses."
