"""What can be wrong with a pipeline before or while it runs. Every message names the option and what is allowed.
`explain` finds ours again in what Spark makes of it.

PipelineError
├── BadOption      what the caller wrote; nothing was started (BadQuery: the SQL)
├── JavaMissing    no Java 17+ on the machine and none from PyPI
├── LakeConflict   somebody else wrote this job's rows into the lake meanwhile
├── LakeInUse      another job writes this lake
├── LakeFailed     the lake's disk refused (full, broken); nothing was committed
├── LakeGap        retention dropped from the journal what the lake does not have
└── OtherJournal   the lake holds another journal than this one
"""

from __future__ import annotations

import re

from penstock.history.lake_url import refusal


class PipelineError(Exception):
    """The root."""


class BadOption(PipelineError):
    """An option has a value that is not allowed, or is missing."""


class BadQuery(BadOption):
    """SQL that cannot be parsed, is not a query, or not one for a stream: wrong whatever columns there are."""


class JavaMissing(PipelineError):
    """Spark needs a Java runtime and there is none."""


class LakeConflict(PipelineError):
    """Two jobs write the same lake."""


class LakeInUse(PipelineError):
    """One `history` per lake."""


class LakeFailed(PipelineError):
    """The text names the directory and the system's reason."""


class LakeGap(PipelineError):
    """The text names the sequences that are lost."""


class OtherJournal(PipelineError):
    """The text names both, and where they differ."""


# The last line of a traceback that ends in one of our errors: dotted name, colon, message.
_OURS = re.compile(r"^(?:\w+Error: |\w+Exception: )?penstock(?:\.\w+)+\.[A-Z]\w+: (.+)$", re.MULTILINE)
# Any traceback, up to the line that says what was raised; frames and their sources are indented.
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*([^\s].*)")
_PY4J = re.compile(r"^An error occurred while calling [\w.]+\.\s*:?\s*")
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*\.)+[A-Z]\w*: ")
_FAILED_QUERY = re.compile(r"^\[STREAM_FAILED\] .*? terminated with exception: ", re.DOTALL)
# What Spark says of a Java exception that came without a text; its class is only in the trace.
_WORDLESS = "(no cause message)"
_CAUSED = re.compile(r"^Caused by: ([\w.$]+)(?:: (.*))?$\s*(?:at (\S+))?", re.MULTILINE)
WORKER_DIED = "a Python worker died, perhaps because memory ran out"
# What Spark and Java say in many ways and at length, in plain words.
_PLAIN = {
    re.compile(r"OutOfMemoryError|GC overhead limit"): "Spark ran out of memory; pipeline.memory gives it more",
    re.compile(r"No space left on device"): "a disk that Spark writes to is full",
    re.compile(r"Python worker failed to connect back"): (
        "a Python worker did not start within Spark's time-out of 10 seconds: the machine is too busy"
    ),
    re.compile(r"Python worker exited unexpectedly"): WORKER_DIED,
}
# Hadoop's connector for S3: what it did, where, what the store said, its status and, further on, its code.
_S3A = re.compile(
    r"\w+ on (s3a://[^\s:]+): software\.amazon\.awssdk\.[\w.]+: (.+?) \((?:Service: \w+, Status Code: (\d+)|SDK)"
)
_S3A_CODE = re.compile(r"\(SDK Attempt Count: \d+\):(\w+)")
_S3A_NOBODY = re.compile(r"(s3a://\S+): org\.apache\.hadoop\.fs\.s3a\.auth\.NoAuthWithAWSException")
_REQUEST = "Unable to execute HTTP request: "
# What PySpark puts before its own errors in a traceback, and Spark before its texts.
_ERROR_CLASS = re.compile(r"^(?:pyspark\.errors\.[\w.]+|py4j\.[\w.]+): ")
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+;?")
# What Spark says of SQL that it could answer once, and cannot as rows keep coming.
_NO_STREAM = {
    r"Sorting is not supported on streaming": (
        "the rows of a stream cannot be sorted by ORDER BY or SORT BY, because there is no last one; the key order_by "
        "of a query sorts the rows of each batch"
    ),
    r"Limits are not supported on streaming": (
        'LIMIT needs output_mode = "append", and then takes the first rows that there ever are'
    ),
    r"Offset is not supported on streaming": "OFFSET is not possible in a stream",
    r"Sampling is not supported on streaming": "TABLESAMPLE is not possible in a stream; WHERE rand() < 0.1 is",
    r"Window function is not supported": (
        "functions with OVER are not possible in a stream; GROUP BY window(time, '1 minute') is"
    ),
    r"Distinct aggregations are not supported": (
        "aggregates of DISTINCT values, such as count(DISTINCT …), are not possible in a stream; use "
        "approx_count_distinct(…)"
    ),
    r"Invalid streaming output mode: append\..* aggregations without watermark": (
        'output_mode = "append" publishes a group when it is closed, so it needs a watermark other than "never", and '
        "time or window(time, '1 minute') among what it groups by"
    ),
    r"Invalid streaming output mode: update\..* session window": 'session_window needs output_mode = "append"',
    r"Detected pattern of possible 'correctness' issue": (
        "rows that were grouped or deduplicated can be grouped, joined or deduplicated again only with "
        'output_mode = "append", and by time or by the window that they have'
    ),
    r"\w+ join between two streaming .* in Update output mode": (
        'LEFT, RIGHT and FULL JOIN of two tables need output_mode = "append"'
    ),
    r"Stream-stream \w+ join .* without a watermark": (
        'LEFT, RIGHT, FULL and SEMI JOIN of two tables need a watermark other than "never" and a condition for both '
        "times, such as b.time BETWEEN a.time - INTERVAL 5 MINUTES AND a.time"
    ),
    r"Stream-stream join without equality": (
        "JOIN of two tables needs an equality, such as a.machine = b.machine, in a stream"
    ),
    r"\w+ join with a streaming .* and a static": (
        "LEFT and RIGHT JOIN of a table and fixed rows must keep the rows of the table in a stream"
    ),
    r"(?:Except|LeftAnti joins) (?:on|with) a streaming": (
        "EXCEPT, NOT IN and ANTI JOIN of two tables are not possible in a stream, because the other row may still come"
    ),
    r"Intersect of streaming": "INTERSECT is not possible in a stream; use JOIN",
    r"Union between streaming and batch": "UNION of a table and fixed rows is not possible in a stream",
    r"Invalid subquery: Streaming query": "a subquery of WHERE or SELECT cannot read a stream; use JOIN",
    r"Expression\(s\): (.*) is not supported with streaming": r"\1 is not possible in a stream",
}


def explain(error: BaseException) -> str:
    """One line for people: our own message where Spark wrapped one in tracebacks, else the gist of what Spark says."""
    if isinstance(error, PipelineError):
        return str(error) or type(error).__name__
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        # Errors while an error was handled come after it, and say less.
        return _one_line(ours[-1])
    of_store = _of_s3a(text)
    if of_store is not None:
        return of_store
    raised = _TRACEBACK.findall(text)
    if raised:
        return _CONDITION.sub("", _ERROR_CLASS.sub("", _one_line(raised[0])))
    for said, plain in _PLAIN.items():
        if said.search(text):
            return plain
    text = _PY4J.sub("", text.strip())
    text = _FAILED_QUERY.sub("", text)
    first = _one_line(_JAVA_CLASS.sub("", text).partition("\n")[0])
    if first == _WORDLESS:
        return _deepest_cause(error)
    return first or type(error).__name__


def sentence(error: BaseException) -> str:
    """The same of SQL, without the name that Spark has for what is wrong, and in words of SQL where it has others."""
    text = _CONDITION.sub("", explain(error))
    for said, plain in _NO_STREAM.items():
        found = re.match(said, text)
        if found:
            return found.expand(plain)
    return text


def _of_s3a(text: str) -> str | None:
    """Of an object store that has Spark's checkpoints; None: it is about something else."""
    nobody = _S3A_NOBODY.search(text)
    if nobody is not None:
        nowhere = "neither in the environment nor in pipeline.spark"
        return f"{nobody[1]} cannot be used: there are no credentials for it, {nowhere}"
    found = _S3A.search(text)
    if found is None:
        return None
    url, said, status = found.groups()
    if status is None:
        return f"{url} cannot be used: the object store cannot be reached: {said.removeprefix(_REQUEST)}"
    named = _S3A_CODE.search(text, found.end())
    code = "" if named is None else named[1]
    return f"{url} cannot be used: {refusal(code, status) or f'the object store answered {status} ({code or said})'}"


def _deepest_cause(error: BaseException) -> str:
    """PySpark keeps the Java trace of what it raises; through Spark Connect there may be none."""
    trace = str(getattr(error, "_stackTrace", ""))
    causes = _CAUSED.findall(trace)
    if not causes:
        return "Spark failed and gave no reason; its own log has the trace"
    kind, text, place = causes[-1]
    if kind == "java.io.EOFException" and "org.apache.spark.api.python" in trace:
        # It went away in the middle of an answer.
        return WORKER_DIED
    return f"{kind}: {text}" if text else f"{kind} in {place or 'Spark'}; Spark's own log has the trace"


def _one_line(text: str) -> str:
    return _SQLSTATE.sub("", text).strip()
