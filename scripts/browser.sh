#!/bin/sh
# browser.sh: makes sure that there is a Chromium for the page tests; as root on Debian it is installed when missing.
set -eu

found() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

if found; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "penstock: installing chromium"
    export DEBIAN_FRONTEND=noninteractive
    # The fonts are not a dependency of the browser, but a page without them is a page of boxes.
    apt-get update -qq </dev/null &&
        apt-get install -y -qq --no-install-recommends chromium fonts-liberation </dev/null >/dev/null || true
fi
if ! found; then
    echo "penstock: the page tests need Chromium and there is none on the path (Debian: apt-get install chromium)" >&2
    exit 1
fi
