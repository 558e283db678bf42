#!/bin/sh
# wheels.sh DIR PYTHON...: builds Penstock's packages into DIR: the source archive, a wheel for any Python, and a wheel with the
# compiled kernel for each of these Pythons. One that cannot compile is named and left out: pip takes the wheel for any then.
set -eu
dist=$1
shift
mkdir -p "$dist" .wheels

build() { # build ENVIRONMENT HOOK: prints the name of what it made
    "$1/bin/python" -W ignore -c "import hatchling.build as backend; print(backend.$2('$dist'))"
}

environment() { # environment PYTHON DIR
    .venv/bin/uv venv --quiet --clear --python "$1" "$2"
    scripts/uv.sh pip install --quiet --require-hashes --python "$2/bin/python" -r requirements/wheels.txt
}

plain=""
for python in "$@"; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    folder=.wheels/$version
    environment "$python" "$folder"
    if [ -z "$plain" ]; then
        plain=$folder
        build "$plain" build_sdist
        build "$plain" build_wheel
    fi
    if said=$(PENSTOCK_BUILD=interpreted PENSTOCK_WHEEL=compiled build "$folder" build_wheel 2>&1); then
        echo "$said" | tail -n 1
    else
        echo "wheels: Python $version gets the wheel for any Python, because: $(echo "$said" | tail -n 1)" >&2
    fi
done
rm -rf .wheels
