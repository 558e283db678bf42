#!/bin/sh
# jar.sh PYTHON JAR SOURCE...: the part of the pipeline that is in Java, compiled against the jars of the pyspark that PYTHON has. Without
# a JDK nothing is made, and real time, or a checkpoint in S3, says what is missing when it is asked for.
set -eu
python=$1 jar=$2
shift 2
if ! command -v javac >/dev/null || ! command -v jar >/dev/null; then
    echo "There is no JDK here, so $jar is not built; only real time and checkpoints in S3 need it."
    exit 0
fi
spark=$("$python" -c 'import importlib.util, os; print(os.path.dirname(importlib.util.find_spec("pyspark").origin))')
classes=$(mktemp -d)
trap 'rm -rf "$classes"' EXIT
javac -Xlint:all,-path,-classfile,-processing -Werror --release 17 -cp "$spark/jars/*" -d "$classes" "$@"
mkdir -p "$classes/META-INF/services"
echo penstock.spark.LiveSource >"$classes/META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
jar --create --file "$jar.new" -C "$classes" .
mv "$jar.new" "$jar"
