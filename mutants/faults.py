"""Which small faults a source file can have: one operator, constant, condition or statement changed at a time.

Faults are found in the syntax tree and planted in the text, so that everything else stays as it is written.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: (r"<", "<="),
    ast.LtE: (r"<=", "<"),
    ast.Gt: (r">", ">="),
    ast.GtE: (r">=", ">"),
    ast.Eq: (r"==", "!="),
    ast.NotEq: (r"!=", "=="),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: (r"-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: (r"//", "*"),
    ast.Div: (r"/", "*"),
    ast.LShift: (r"<<", ">>"),
    ast.RShift: (r">>", "<<"),
}


class Fault(NamedTuple):
    """A change of the bytes from start to end."""

    line: int
    start: int
    end: int
    text: str

    def plant(self, source: str) -> str:
        content = source.encode()
        return (content[: self.start] + self.text.encode() + content[self.end :]).decode()

    def lines(self, source: str) -> tuple[str, str]:
        """The line as it is, and as it would be."""
        content = source.encode() + b"\n"
        begin = content.rfind(b"\n", 0, self.start) + 1
        was = content[begin : content.index(b"\n", self.start)]
        now = content[begin : self.start] + self.text.encode() + content[self.end : content.index(b"\n", self.end)]
        return was.decode().strip(), now.decode().strip()


def find_faults(source: str) -> list[Fault]:
    finder = _Finder(source)
    finder.visit(ast.parse(source))
    return finder.faults


class _Finder(ast.NodeVisitor):
    """Leaves out what no test can notice: types, assertions, messages, the list of a class's attributes."""

    def __init__(self, source: str) -> None:
        self.faults: list[Fault] = []
        self._content = source.encode()
        # Columns of the syntax tree count bytes.
        self._starts = [0, *accumulate(len(line) + 1 for line in self._content.split(b"\n"))]

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._place(node.lineno, node.col_offset)

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._place(node.end_lineno or 0, node.end_col_offset or 0)

    def _add(self, start: int, end: int, text: str) -> None:
        self.faults.append(Fault(bisect_right(self._starts, start), start, end, text))

    def _replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        self._add(self._start(node), self._end(node), text)

    def _swap(self, start: int, end: int, pattern: str, text: str) -> None:
        """The first of the pattern that is in no comment becomes the text."""
        plain = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment.group()), self._content[start:end])
        found = re.search(pattern.encode(), plain)
        if found:
            self._add(start + found.start(), start + found.end(), text)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self._swap(self._end(left), self._start(right), *COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        swap = (r"\band\b", "or") if isinstance(node.op, ast.And) else (r"\bor\b", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._swap(self._end(left), self._start(right), *swap)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._swap(self._start(node), self._end(node), r"not\s*", "")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        # Two texts cannot be subtracted: that fault would be found by running the line at all.
        if type(node.op) in ARITHMETIC and not (_is_text(node.left) or _is_text(node.right)):
            self._swap(self._end(node.left), self._start(node.right), *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in ARITHMETIC and not _is_text(node.value):
            self._swap(self._end(node.target), self._start(node.value), *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self._replace(node, str(node.value + 1))

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._replace(node, "pass")
        elif not isinstance(node.value, ast.Constant) or node.value.value:
            self._replace(node, "return None")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        # What it says is not changed: messages are texts.
        self._replace(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass")
        self.generic_visit(node)

    def _negate(self, node: ast.If | ast.While | ast.IfExp) -> None:
        # Other conditions have faults of their own.
        if isinstance(node.test, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            self._add(self._start(node.test), self._start(node.test), "not ")
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self._negate(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__slots__" for target in node.targets):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        # Without decorators: whether a dataclass has slots is seen by none of its users.
        for part in node.body:
            self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *node.args.kw_defaults, *node.body):
            if part is not None:
                self.visit(part)

    def visit_Assert(self, node: ast.Assert) -> None:
        """No fault: it tells the type checker what is known."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """No fault: before Python 3.12 nothing in it has a place in the text."""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
