#!/bin/bash
# entrypoint.sh driver ARGUMENT... | executor: what Spark asks of an image. Anything else is a command to run.
# Variables that begin with SPARK_ are set by Spark in the pods that it makes.
set -eu

# A user without a name (an id that the cluster chose) has no home, and Hadoop asks for the name.
if ! whoami >/dev/null 2>&1; then
    export HADOOP_USER_NAME=penstock
fi

case "${1:-}" in
driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor)
    # Options of the JVM are in variables of their own, numbered.
    options=()
    while IFS='=' read -r -d '' name value; do
        case "$name" in SPARK_JAVA_OPT_*) options+=("$value") ;; esac
    done </proc/self/environ
    exec "${JAVA_HOME:-/usr}/bin/java" "${options[@]}" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec "$@"
    ;;
esac
