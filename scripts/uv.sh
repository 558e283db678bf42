#!/bin/sh
# uv.sh ARGUMENT...: runs the uv of .venv with pip's settings. uv does not read them, and a machine that names its
# mirror or its certificates only there must work too; uv's own variables win.
set -eu

# From the list, because "pip config get" passes over the file of the whole machine.
setting() {
    .venv/bin/python -m pip config list 2>/dev/null | sed -nE "s/^global\\.$1='(.*)'\$/\\1/p"
}

if [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
    index=${PIP_INDEX_URL:-$(setting index-url)}
    if [ -n "$index" ]; then
        export UV_DEFAULT_INDEX="$index"
    fi
fi
if [ -z "${SSL_CERT_FILE:-}${UV_SYSTEM_CERTS:-}" ]; then
    certificates=${PIP_CERT:-$(setting cert)}
    if [ -n "$certificates" ]; then
        export SSL_CERT_FILE="$certificates"
    fi
fi
exec .venv/bin/uv "$@"
