#!/bin/sh
# kafka.sh FOLDER PART: a Kafka broker, or Spark's connector for it, from Maven Central. The adapter's tests need the broker, the
# long Spark tests need both.
set -eu

folder=$1
part=$2
sources=tests/pipeline/kafka

if ! command -v mvn >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "penstock: installing maven"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq </dev/null && apt-get install -y -qq --no-install-recommends maven </dev/null >/dev/null || true
fi

mkdir -p "$folder/$part"
if ! mvn -q -B -f "$sources/$part.xml" dependency:copy-dependencies -DoutputDirectory="$(cd "$folder/$part" && pwd)" \
    </dev/null >"$folder/$part.log" 2>&1; then
    echo "penstock: no Kafka for the tests: Maven could not bring the $part, see $folder/$part.log" >&2
    rm -rf "${folder:?}/$part"
    exit 1
fi
