#!/bin/sh
# system.sh: makes sure that the system has what the tests need beyond the package registries of Python and Node.js:
# Chromium for the page, curl for the sessions of the specification, openssl and PostgreSQL for the TLEX hub, slowhttptest
# for slow clients, HAProxy and nginx for servers behind a balancer, Prometheus for /metrics, mosquitto for MQTT, a C compiler for the benchmarks,
# a JDK and Maven for the published Java clients and adapters. As root on Debian what is missing is installed.
set -eu

has_browser() {
    for name in chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

# The server itself, which Debian has outside of the path; the tests start one of their own.
has_postgres() {
    command -v postgres >/dev/null && return 0
    for program in /usr/lib/postgresql/*/bin/postgres; do
        [ -x "$program" ] && return 0
    done
    return 1
}

missing() {
    # The fonts are not a dependency of the browser, but a page without them is a page of boxes.
    has_browser || printf 'chromium fonts-liberation '
    command -v curl >/dev/null || printf 'curl '
    command -v openssl >/dev/null || printf 'openssl '
    has_postgres || printf 'postgresql '
    command -v slowhttptest >/dev/null || printf 'slowhttptest '
    # Debian has both outside of the path of those who are not root, and the tests start their own.
    [ -x /usr/sbin/haproxy ] || command -v haproxy >/dev/null || printf 'haproxy '
    [ -x /usr/sbin/nginx ] || command -v nginx >/dev/null || printf 'nginx '
    # The server as well as promtool: one package.
    command -v promtool >/dev/null || printf 'prometheus '
    # Debian has it outside of the path of those who are not root.
    [ -x /usr/sbin/mosquitto ] || command -v mosquitto >/dev/null || printf 'mosquitto '
    # The load of the benchmarks is a program in C, and speaks TLS.
    command -v cc >/dev/null || printf 'gcc libc6-dev '
    [ -e /usr/include/openssl/ssl.h ] || printf 'libssl-dev '
    # Not the Java that comes with the packages of Python: it has no compiler.
    command -v javac >/dev/null || printf 'default-jdk-headless '
    command -v mvn >/dev/null || printf 'maven '
}

wanted=$(missing)
[ -n "$wanted" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "penstock: installing $wanted"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 - a list of names
    apt-get update -qq </dev/null && apt-get install -y -qq --no-install-recommends $wanted </dev/null >/dev/null || true
fi
wanted=$(missing)
if [ -n "$wanted" ]; then
    echo "penstock: the tests need programs that are not on the path (Debian: apt-get install $wanted)" >&2
    exit 1
fi
