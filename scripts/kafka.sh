#!/bin/sh
# kafka.sh FOLDER: a Kafka broker and Spark's connector for it, from Maven Central, for the long Spark tests. Where that cannot
# be reached it says so, and test_kafka is skipped with the same words.
set -eu

folder=$1
sources=tests/pipeline/kafka

if ! command -v mvn >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "penstock: installing maven"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq </dev/null && apt-get install -y -qq --no-install-recommends maven </dev/null >/dev/null || true
fi

for part in broker connector; do
    mkdir -p "$folder/$part"
    if ! mvn -q -B -f "$sources/$part.xml" dependency:copy-dependencies -DoutputDirectory="$(cd "$folder/$part" && pwd)" \
        </dev/null >"$folder/$part.log" 2>&1; then
        echo "penstock: no Kafka for the tests: Maven could not bring the $part, see $folder/$part.log" >&2
        rm -rf "${folder:?}/$part"
        exit 0
    fi
done
