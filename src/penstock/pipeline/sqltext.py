"""The names of tables in a text of SQL, found and replaced without parsing it: Spark does that.

A stream cannot be called `plant.readings` in Spark: only a temporary view can be one, and its name has no schema. So
the names of our tables are replaced by those of views; texts, comments and other names stay as they are. Nothing of
Spark here. Read next: `streaming_sql`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# What Spark's own lexer knows: texts in both quotes, with backslashes and, as raw ones, without; comments, of which
# those in brackets may be nested (`_comment`); names, in backquotes or without.
_TOKEN = re.compile(
    r"""
      (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<line>--[^\r\n]*)
    | (?P<bracket>/\*)
    | (?P<name>(?:`(?:[^`]|``)*`|[^\W\d]\w*)(?:\s*\.\s*(?:`(?:[^`]|``)*`|[^\W\d]\w*))*)
    | (?P<number>\d\w*(?:\.\w*)?)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_PART = re.compile(r"`((?:[^`]|``)*)`|([^\W\d]\w*)")


def replaced(sql: str, view: Callable[[str], str | None]) -> str:
    """The text with `schema.table` replaced where `view` knows it, in lower case, and gives it another name."""
    result: list[str] = []
    position = 0
    after_dot = False
    while position < len(sql):
        if sql.startswith("/*", position):
            end = _comment(sql, position)
            result.append(sql[position:end])
            position = end
            continue
        found = _TOKEN.match(sql, position)
        assert found is not None
        text = found[0]
        if found.lastgroup == "name" and not after_dot:
            text = _renamed(text, view)
        result.append(text)
        after_dot = found[0] == "." or (after_dot and found[0].isspace())
        position = found.end()
    return "".join(result)


def _renamed(chain: str, view: Callable[[str], str | None]) -> str:
    """A name of two parts or more: the first two may be a table, then the rest is a column of it."""
    parts = list(_PART.finditer(chain))
    if len(parts) < 2:
        return chain
    words = [part[2] if part[1] is None else part[1].replace("``", "`") for part in parts[:2]]
    other = view(".".join(words).lower())
    return chain if other is None else other + chain[parts[1].end() :]


def _comment(sql: str, start: int) -> int:
    """Where a bracketed comment ends; one inside another is part of it."""
    depth, position = 0, start
    while position < len(sql):
        if sql.startswith("/*", position):
            depth, position = depth + 1, position + 2
        elif sql.startswith("*/", position):
            depth, position = depth - 1, position + 2
            if not depth:
                return position
        else:
            position += 1
    return len(sql)
