#!/bin/sh
# venv.sh DIR: makes a virtual environment with pip in DIR, unless a working one is there.
set -eu

dir=$1
if "$dir/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    exit 0
fi
python=$("$(dirname "$0")/python.sh")

# Debian ships Python without the part that puts pip into an environment.
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "penstock: installing python3-venv"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq </dev/null && apt-get install -y -qq --no-install-recommends python3-venv </dev/null >/dev/null
    fi
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        echo "penstock: $python cannot make virtual environments: install its venv module (Debian: python3-venv)" >&2
        exit 1
    fi
fi
"$python" -m venv --clear "$dir"
