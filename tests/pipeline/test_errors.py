"""What Spark makes of an error, and what is left of it for people. The texts are Spark 4.3's own, shortened."""

from __future__ import annotations

import pytest

from penstock.pipeline.errors import BadOption, JavaMissing, explain

INITIALIZE = """\
[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source reader: Traceback (most recent call last):
  File "/somewhere/penstock/pipeline/source.py", line 106, in reader
    return JournalReader(parse(self.options))
                         ^^^^^^^^^^^^^^^^^^^
penstock.pipeline.errors.BadOption: option speed is not known; allowed: path, startingOffset
 SQLSTATE: 38000"""

STREAM = """[STREAM_FAILED] Query [id = a427fe95, runId = df15aef1] terminated with exception: \
[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source initialize source: Traceback (most recent call last):
  File "/somewhere/penstock/pipeline/options.py", line 311, in _number
    raise BadOption(f"option {name} is {value!r}; it must be a whole number of at least {least}")
penstock.pipeline.errors.BadOption: option partitions is '0'; it must be a whole number from 1 to 10000

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "pyspark.zip/pyspark/sql/streaming/python_streaming_source_runner.py", line 295, in main
UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Current State: INITIALIZING"""

FOREACH = """[STREAM_FAILED] Query [id = 6fbba744, runId = 493c5d97] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink. Reason: An \
exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/somewhere/job.py", line 28, in write
    raise LakeConflict("two jobs write the lake")
penstock.pipeline.errors.LakeConflict: two jobs write the lake
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ==="""

TASK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/somewhere/penstock/journal/reader.py", line 39, in f
    raise _expired(piece.first, self.earliest()) from None
penstock.journal.errors.Expired: sequence 3 was dropped by retention; the earliest left is 21"""

OTHER_TASK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/somewhere/job.py", line 39, in f
    raise ValueError("a value")
ValueError: a value"""

NOT_FOUND = """An error occurred while calling o211.load.
: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: nix. \
SQLSTATE: 42K02
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.dataSourceNotFoundError(QueryExecutionErrors.scala:791)
\tat java.base/java.lang.Thread.run(Thread.java:840)"""

S3A = """[STREAM_FAILED] Query [id = 6fbba744, runId = 493c5d97] terminated with exception: \
s3a://bucket/checkpoints/totals: getFileStatus on s3a://bucket/checkpoints/totals: software.amazon.awssdk.{error} \
SQLSTATE: XXKST
=== Streaming Query ==="""
FORBIDDEN = (
    "services.s3.model.S3Exception: It does not exist. (Service: S3, Status Code: 403, Request ID: null) "
    "(SDK Attempt Count: 1):InvalidAccessKeyId"
)
EXPIRED = (
    "services.s3.model.S3Exception: The provided token has expired. (Service: S3, Status Code: 400, Request ID: null) "
    "(SDK Attempt Count: 1):ExpiredToken: The provided token has expired. (Service: S3, Status Code: 400)"
)
NO_BUCKET = (
    "services.s3.model.NoSuchBucketException: The specified bucket does not exist (Service: S3, Status Code: 404, "
    "Request ID: osklCR) (SDK Attempt Count: 1):NoSuchBucket: The specified bucket does not exist"
)
BUSY = (
    "services.s3.model.S3Exception: Please reduce your request rate. (Service: S3, Status Code: 503, Request ID: null) "
    "(SDK Attempt Count: 6):SlowDown"
)
AWAY = (
    "core.exception.SdkClientException: Unable to execute HTTP request: Connect to 127.0.0.1:9 [/127.0.0.1] failed: "
    "Connection refused (SDK Attempt Count: 2):    software.amazon.awssdk.core.exception.SdkClientException: …"
)

COLUMN = """[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `nope` cannot be resolved. SQLSTATE: 42703;
'Project ['nope]
+- RelationV2[sequence#180L] penstock
"""

CAST = """[STREAM_FAILED] Query [id = 6fbba744] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] Reason:
Traceback (most recent call last):
  File "/somewhere/publish.py", line 28, in send
    table = df.toArrow()
pyspark.errors.exceptions.captured.NumberFormatException: [CAST_INVALID_INPUT] The value 'saw' of the type "STRING" \
cannot be cast to "INT" because it is malformed. SQLSTATE: 22018
"""

STAGE = "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in \
stage 3.0 (TID 9) (127.0.0.1 executor driver): "
ENDED = "[STREAM_FAILED] Query [id = 6fbba744] terminated with exception: "

MEMORY = ENDED + STAGE + "java.lang.OutOfMemoryError: Java heap space"
DIED = STAGE + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
SLOW = ENDED + "Python worker failed to connect back. SQLSTATE: XXKST"
FULL = ENDED + "java.io.IOException: No space left on device"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (INITIALIZE, "option speed is not known; allowed: path, startingOffset"),
        (STREAM, "option partitions is '0'; it must be a whole number from 1 to 10000"),
        (FOREACH, "two jobs write the lake"),
        (TASK, "sequence 3 was dropped by retention; the earliest left is 21"),
        (OTHER_TASK, "ValueError: a value"),
        (NOT_FOUND, "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: nix."),
        (COLUMN, "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `nope` cannot be resolved."),
        (CAST, 'The value \'saw\' of the type "STRING" cannot be cast to "INT" because it is malformed.'),
        (MEMORY, "Spark ran out of memory; pipeline.memory gives it more"),
        (SLOW, "a Python worker did not start within Spark's time-out of 10 seconds: the machine is too busy"),
        (DIED, "a Python worker died, perhaps because memory ran out"),
        (FULL, "a disk that Spark writes to is full"),
        ("no more than this", "no more than this"),
        ("", "RuntimeError"),
    ],
    ids=[
        *("option", "stream", "foreachBatch", "task", "other task", "Java", "column", "cast"),
        *("memory", "slow", "died", "full", "plain", "empty"),
    ],
)
def test_an_error_is_one_line_for_people(text: str, expected: str) -> None:
    assert explain(RuntimeError(text)) == expected


WORDLESS = "[STREAM_FAILED] Query [id = 6fbba744] terminated with exception: (no cause message) SQLSTATE: XXKST"
TRACE = """org.apache.spark.sql.streaming.StreamingQueryException: (no cause message)
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.run(StreamExecution.scala:412)
Caused by: java.io.EOFException
\tat java.base/java.io.DataInputStream.readInt(DataInputStream.java:397)
\tat org.apache.spark.api.python.PythonWorkerUtils$.readBytes(PythonWorkerUtils.scala:72)"""


def test_of_an_exception_without_a_text_its_class_is_told() -> None:
    error = RuntimeError(WORDLESS)
    assert explain(error) == "Spark failed and gave no reason; its own log has the trace"
    # As PySpark keeps it.
    error._stackTrace = TRACE  # type: ignore[attr-defined]
    assert explain(error) == "a Python worker died, perhaps because memory ran out"
    error._stackTrace = TRACE.replace("api.python", "api.java")  # type: ignore[attr-defined]
    assert explain(error) == (
        "java.io.EOFException in java.base/java.io.DataInputStream.readInt(DataInputStream.java:397); "
        "Spark's own log has the trace"
    )


def test_our_own_errors_say_what_they_say() -> None:
    assert explain(BadOption("option x is 1; it must be 2")) == "option x is 1; it must be 2"
    assert explain(JavaMissing()) == "JavaMissing"


def test_a_text_that_only_mentions_our_package_is_not_taken_for_one_of_our_errors() -> None:
    assert explain(ValueError("see penstock.pipeline.errors.BadOption: it explains")) == (
        "see penstock.pipeline.errors.BadOption: it explains"
    )


def test_an_object_store_without_credentials_is_named_with_where_they_may_be() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 6fbba744] terminated with exception: s3a://bucket/checkpoints/totals: "
        "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided by "
        "TemporaryAWSCredentialsProvider : software.amazon.awssdk.core.exception.SdkClientException: Unable to load"
    )
    assert explain(Exception(text)) == (
        "s3a://bucket/checkpoints/totals cannot be used: there are no credentials for it, neither in the environment "
        "nor in pipeline.spark"
    )


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FORBIDDEN, "the object store refused the credentials (InvalidAccessKeyId)"),
        (EXPIRED, "the credentials have expired (ExpiredToken)"),
        (NO_BUCKET, "there is no such bucket"),
        (BUSY, "the object store answered 503 (SlowDown)"),
        (AWAY, "the object store cannot be reached: Connect to 127.0.0.1:9 [/127.0.0.1] failed: Connection refused"),
    ],
)
def test_an_object_store_with_checkpoints_is_named_with_what_it_said(error: str, reason: str) -> None:
    said = explain(Exception(S3A.format(error=error)))
    assert said == f"s3a://bucket/checkpoints/totals cannot be used: {reason}"
