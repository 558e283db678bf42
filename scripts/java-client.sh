#!/bin/sh
# java-client.sh VERSION FOLDER: the published Java SE client of this version from Maven Central with all it needs, each file with the hash
# in tests/interop/java/client-VERSION.sha256, and the driver of the interop tests compiled for it. Maven and a JDK: scripts/system.sh.
set -eu

version=$1
folder=$2
sources=tests/interop/java

rm -rf "$folder"
mkdir -p "$folder/jars" "$folder/classes"
folder=$(cd "$folder" && pwd)
if ! mvn -q -B -f "$sources/client-$version.xml" dependency:copy-dependencies -DoutputDirectory="$folder/jars" \
    </dev/null >"$folder/maven.log" 2>&1; then
    echo "penstock: Maven could not bring the Java client $version:" >&2
    tail -n 20 "$folder/maven.log" >&2
    exit 1
fi

# Each file has its hash, and there is no other.
listed=$(awk '{ print $2 }' "$sources/client-$version.sha256" | sort)
[ "$listed" = "$(cd "$folder/jars" && ls | sort)" ] || {
    echo "penstock: Maven has brought other files than $sources/client-$version.sha256 lists" >&2
    exit 1
}
hashes=$(pwd)/$sources/client-$version.sha256
(cd "$folder/jars" && sha256sum --check --quiet "$hashes")

javac -cp "$folder/jars/*" -d "$folder/classes" "$sources/Client.java"

# The server's certificate of the tests, in the form in which Java takes it.
keytool -importcert -noprompt -alias penstock -file tests/config/tls/certificate.pem -storetype PKCS12 \
    -keystore "$folder/trust.p12" -storepass penstock >/dev/null 2>&1
