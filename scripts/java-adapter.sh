#!/bin/sh
# java-adapter.sh FOLDER: the published adapter SDK for Java, from Maven Central, checked by its hashes, and the adapters of the
# contract compiled against it. As root on Debian Maven and a Java compiler are installed where they are missing.
set -eu

folder=$1
sources=tests/contract/java

missing() {
    command -v mvn >/dev/null || printf 'maven '
    command -v javac >/dev/null || printf 'default-jdk-headless '
}

wanted=$(missing)
if [ -n "$wanted" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
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

rm -rf "${folder:?}"
mkdir -p "$folder/jars" "$folder/classes"
if ! mvn -q -B -f "$sources/pom.xml" dependency:copy-dependencies -DoutputDirectory="$(cd "$folder/jars" && pwd)" \
    </dev/null >"$folder/maven.log" 2>&1; then
    echo "penstock: Maven could not bring the adapter SDK for Java, see $folder/maven.log" >&2
    exit 1
fi
hashes=$(pwd)/$sources/jars.sha256
(cd "$folder/jars" && sha256sum --check --quiet --strict "$hashes")
javac -Xlint:all -Werror --release 17 -cp "$folder/jars/*" -d "$folder/classes" "$sources"/*.java
