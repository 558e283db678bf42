#!/bin/sh
# java.sh POM HASHES FOLDER SOURCE...: what a pom.xml asks for from Maven Central, into FOLDER/jars, each file with its hash in
# HASHES; and the sources, if there are any, compiled with it into FOLDER/classes. Maven and a JDK: scripts/system.sh.
set -eu

pom=$1
hashes=$(pwd)/$2
folder=$3
shift 3

rm -rf "${folder:?}"
mkdir -p "$folder/jars" "$folder/classes"
jars=$(cd "$folder/jars" && pwd)
if ! mvn -q -B -f "$pom" dependency:copy-dependencies -DoutputDirectory="$jars" </dev/null >"$folder/maven.log" 2>&1; then
    echo "penstock: Maven could not bring what $pom asks for:" >&2
    tail -n 20 "$folder/maven.log" >&2
    exit 1
fi

# Each file has its hash, and there is no other.
[ "$(awk '{ print $2 }' "$hashes" | sort)" = "$(cd "$jars" && ls | sort)" ] || {
    echo "penstock: Maven has brought other files than $hashes lists" >&2
    exit 1
}
(cd "$jars" && sha256sum --check --quiet --strict "$hashes")

[ "$#" = 0 ] || javac -Xlint:all -Werror --release 17 -cp "$jars/*" -d "$folder/classes" "$@"
