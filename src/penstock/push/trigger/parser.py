"""From tokens to an operand: the grammar of expressions, each part checked as soon as it is complete."""

from __future__ import annotations

from penstock.push.pace import Values
from penstock.push.trigger import members, operators
from penstock.push.trigger.failure import Wrong
from penstock.push.trigger.lexer import Lexeme, LexemeKind, tokens
from penstock.push.trigger.operand import Operand, Type, constant
from penstock.push.trigger.strings import of_value

# Parentheses, calls, signs and conditions inside one another.
MAX_DEPTH = 50
# Literals, arguments, operators and calls: with it, and with the limit on strings, what an evaluation costs is bounded.
MAX_PARTS = 500
# Regular expressions: each may take long.
MAX_PATTERNS = 5

# How strongly a sign binds its sides; equally strong ones group to the left.
_STRENGTH = {
    sign: strength
    for strength, signs in enumerate(
        [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]]
    )
    for sign in signs
}
_LITERALS = {
    LexemeKind.INT: Type.INT,
    LexemeKind.LONG: Type.LONG,
    LexemeKind.FLOAT: Type.FLOAT,
    LexemeKind.DOUBLE: Type.DOUBLE,
    LexemeKind.CHAR: Type.CHAR,
    LexemeKind.STRING: Type.STRING,
}
_WORDS = {"true": (Type.BOOLEAN, True), "false": (Type.BOOLEAN, False), "null": (Type.NULL, None)}


def parse(text: str) -> Operand:
    """The whole text as one boolean; raise Wrong at what is none. The arguments have been checked before."""
    parser = _Parser(tokens(text))
    found = parser.expression()
    parser.expect_end()
    if found.type is not Type.BOOLEAN:
        raise Wrong(found.place, f"a trigger must be a boolean; this is {found.kind}")
    return found


class _Parser:
    def __init__(self, found: list[Lexeme]) -> None:
        self._tokens = found
        self._at = 0
        self._depth = 0
        self._parts = 0
        self._patterns = 0

    def expression(self) -> Operand:
        condition = self._binary(0)
        question = self._token
        if not self._take("?"):
            return condition
        self._descend(question)
        then = self.expression()
        self._expect(":")
        other = self.expression()
        self._depth -= 1
        return operators.conditional(condition, then, other, self._counted(question).place)

    def expect_end(self) -> None:
        if self._token.kind is not LexemeKind.END:
            raise self._unexpected("an operator or the end")

    def _binary(self, least: int) -> Operand:
        """Operators that bind at least so strongly, with their sides."""
        left = self._unary()
        while (strength := self._strength()) >= least:
            sign = self._counted(self._next())
            left = operators.binary(sign.text, left, self._binary(strength + 1), sign.place)
        return left

    def _strength(self) -> int:
        token = self._token
        return _STRENGTH.get(token.text, -1) if token.kind is LexemeKind.SIGN else -1

    def _unary(self) -> Operand:
        token = self._token
        if token.kind is not LexemeKind.SIGN or token.text not in ("!", "-", "+"):
            return self._followed(self._primary())
        self._next()
        self._descend(token)
        self._counted(token)
        if token.text == "-" and self._token.is_beyond:
            # The smallest number: without its sign it would be beyond the largest.
            number = self._next()
            assert isinstance(number.value, int)
            made = constant(_LITERALS[number.kind], -number.value, token.place)
        elif token.text == "!":
            made = operators.negation(self._unary(), token.place)
        else:
            made = operators.signed(token.text, self._unary(), token.place)
        self._depth -= 1
        return made

    def _primary(self) -> Operand:
        token = self._token
        if token.kind is LexemeKind.END or (token.kind is LexemeKind.SIGN and token.text != "("):
            raise self._unexpected("a value")
        self._counted(self._next())
        if token.kind in _LITERALS:
            if token.is_beyond:
                raise Wrong(token.place, f"{token.text} is beyond the largest number of its type")
            return constant(_LITERALS[token.kind], token.value, token.place)
        if token.kind is LexemeKind.FIELD:
            return self._field(token)
        if token.kind is LexemeKind.NAME:
            if token.text in _WORDS:
                return constant(*_WORDS[token.text], token.place)
            return self._function(token)
        self._descend(token)
        inner = self.expression()
        self._expect(")")
        self._depth -= 1
        return inner

    def _field(self, token: Lexeme) -> Operand:
        assert isinstance(token.value, int)
        index = token.value - 1

        def run(values: Values) -> str | None:
            return of_value(values[index])

        return Operand(Type.STRING, run, token.place, field=index)

    def _function(self, first: Lexeme) -> Operand:
        name = first.text
        while self._take("."):
            if self._token.kind is not LexemeKind.NAME:
                raise self._unexpected("a name")
            name += f".{self._next().text}"
        name = name.removeprefix("java.lang.")
        if name not in members.FUNCTIONS:
            raise Wrong(first.place, f"{_short(name)} is not known; allowed are {', '.join(members.FUNCTIONS)}")
        arguments = self._arguments(first)
        made = members.function_call(name, arguments, first.place)
        if arguments[0].field is not None:
            made.reading = members.reading(name, arguments[0].field)
        return made

    def _followed(self, operand: Operand) -> Operand:
        """With the methods that are called on it."""
        while self._take("."):
            name = self._counted(self._token)
            if name.kind is not LexemeKind.NAME:
                raise self._unexpected("the name of a method")
            self._next()
            if operand.type is not Type.STRING:
                raise Wrong(name.place, f"{operand.kind} has no methods here; those of a String may be called")
            if name.text != members.MATCHES and name.text not in members.METHODS:
                allowed = ", ".join(sorted([*members.METHODS, members.MATCHES]))
                raise Wrong(name.place, f"the method {_short(name.text)} is not known; allowed are {allowed}")
            arguments = self._arguments(name)
            if name.text == members.MATCHES:
                self._patterns += 1
                if self._patterns > MAX_PATTERNS:
                    raise Wrong(name.place, f"more than {MAX_PATTERNS} regular expressions")
                operand = members.matches_call(operand, arguments, name.place)
            else:
                operand = members.method_call(name.text, operand, arguments, name.place)
        return operand

    def _arguments(self, name: Lexeme) -> list[Operand]:
        self._expect("(")
        if self._take(")"):
            return []
        self._descend(name)
        found = [self.expression()]
        while self._take(","):
            found.append(self.expression())
        self._expect(")")
        self._depth -= 1
        return found

    # -- tokens ---------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> Lexeme:
        return self._tokens[self._at]

    def _next(self) -> Lexeme:
        """Take the token, which is not the end."""
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, sign: str) -> bool:
        if self._token.kind is not LexemeKind.SIGN or self._token.text != sign:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected(sign)

    def _unexpected(self, expected: str) -> Wrong:
        token = self._token
        found = "the end" if token.kind is LexemeKind.END else _short(token.text)
        return Wrong(token.place, f"{found} is there instead of {expected}")

    # -- limits ---------------------------------------------------------------------------------------------------

    def _descend(self, token: Lexeme) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Wrong(token.place, f"it is nested more than {MAX_DEPTH} levels deep")

    def _counted(self, token: Lexeme) -> Lexeme:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Wrong(token.place, f"it has more than {MAX_PARTS} literals, arguments, operators and calls")
        return token


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
