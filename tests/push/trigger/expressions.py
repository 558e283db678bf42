"""Expressions of Java made at random, most of them well typed, with values to evaluate them on."""

from __future__ import annotations

from random import Random

FIELD_COUNT = 3

# Values of fields: numbers in all their spellings, texts, nothing.
VALUES = (
    *("0", "1", "-1", "+7", "-0", "-0.0", "5", "007", "17.5", ".5", "5.", " 3.25 ", "1e3", "1E-3", "1e400", "-1e-400"),
    *("2147483647", "-2147483648", "2147483648", "9223372036854775807", "-9223372036854775808", "9223372036854775808"),
    *("NaN", "-Infinity", "+Infinity", "inf", "nan", "1_000", "1,5", "0x10", "0x1.8p1", "3.5f", "2d", "1L", "--1", "+"),
    *("16777217", "16777219.5", "0.1", "0.3", "1e38", "3.4028236e38", "1.5E-38", "1e-45", "7e-46", "33554435"),
    *(
        "٣",
        "１２",
        "",
        " ",
        "\t5\n",
        "a",
        "A",
        "abc",
        "ABC",
        "aBc",
        "banana",
        "straße",
        "STRASSE",
        "İ",
        "ı",
        "ΑΣ",
        "ας",
    ),
    *("😀", "a😀b", "é", "true", "TRUE", "false", "\u00a0x\u00a0", "\u2003", "x\ny", "a.b", "$", "\\", '"', "K", "ſ"),
    None,
)
_INTS = ("0", "1", "2", "7", "-3", "31", "2147483647", "0x7f", "017", "0b101", "1_000", "-2147483648", "100")
_LONGS = ("0L", "1L", "5l", "-9L", "9223372036854775807L", "4294967296L", "0xFFFFFFFFFFFFFFFFL")
_FLOATS = ("0f", "1.5f", "-2.25F", "3e10f", "0.1f", "16777217f", "1e-45f")
_DOUBLES = (
    "0.0",
    "1.5",
    "500.0",
    "-0.0",
    ".5",
    "5.",
    "1e3",
    "2d",
    "1e308",
    "4.9e-324",
    "0.1",
    "1e7",
    "0.001",
    "123456.789",
)
_CHARS = ("'a'", "'A'", "'\\n'", "'\\u0041'", "'0'", "' '", "'\\''", "'\\101'")
_STRINGS = ('""', '"a"', '"abc"', '"A"', '"17"', '"x\\ty"', '"\\u00e9"', '"😀"', '" b "', '"true"', '"2.5"', '"\\""')
_PATTERNS = (
    *(
        ".*",
        "a+",
        "[0-9]+",
        "\\\\d+(\\\\.\\\\d+)?",
        "[+-]?(\\\\d*\\\\.)?\\\\d+",
        "(a|b|n)*",
        "(?i)abc",
        "[^a-c]*",
        "a.b",
    ),
    *(
        "\\\\w+",
        "\\\\s*\\\\S*\\\\s*",
        "x\\\\Wy",
        "(ab|a)(c|bc)",
        "a{2}|b{1,3}.*",
        "\\\\p{L}+",
        "\\\\p{Lu}*",
        "(?s)x.y",
        "x.y",
    ),
    *(
        "^abc$",
        "(?:a|)+b?c*",
        "[\\\\w.$]+",
        "\\\\Q.*\\\\E",
        ".",
        "..",
        "[a-zé]*",
        "(?i)[a-c]+",
        "\\\\x61.*",
        "\\\\u0061?",
    ),
    *(
        "[-+]?.*",
        "[a-]*",
        "a*?b??.*",
        "(a*)*b",
        "(?<name>a)bc",
        "\\\\p{Alpha}{3}",
        "\\\\P{Alpha}*",
        "(|a)",
        "\\\\[|]|}",
    ),
)


class Maker:
    """`stray` is how often another type is put where one is expected: Java refuses most of these."""

    def __init__(self, random: Random, stray: float = 0.0) -> None:
        self._random = random
        self._stray = stray

    def values(self) -> tuple[str | None, ...]:
        return tuple(self._random.choice(VALUES) for _ in range(FIELD_COUNT))

    def boolean(self, depth: int = 4) -> str:
        if self._strays():
            return self._any(depth)
        if depth <= 0:
            return self._random.choice(("true", "false", f"{self._field()} == null", f"{self._field()} != null"))
        deeper = depth - 1
        match self._random.randrange(13):
            case 0:
                return f"{self._wrapped(self.boolean(deeper))} && {self._wrapped(self.boolean(deeper))}"
            case 1:
                return f"{self._wrapped(self.boolean(deeper))} || {self._wrapped(self.boolean(deeper))}"
            case 2:
                return f"!({self.boolean(deeper)})"
            case 3:
                return self._condition(self.boolean(deeper), self.boolean(deeper), deeper)
            case 4:
                sign = self._random.choice(("==", "!="))
                return f"({self.boolean(deeper)}) {sign} ({self.boolean(deeper)})"
            case 5:
                method = self._random.choice(("equals", "equalsIgnoreCase"))
                return f"{self._object(deeper)}.{method}({self._random.choice((self.string(deeper), 'null'))})"
            case 6:
                method = self._random.choice(("startsWith", "endsWith", "contains"))
                return f"{self._object(deeper)}.{method}({self.string(deeper)})"
            case 7:
                return f"{self._object(deeper)}.startsWith({self.string(deeper)}, {self.number(deeper, 'int')})"
            case 8:
                return f'{self._object(deeper)}.matches("{self._random.choice(_PATTERNS)}")'
            case 9:
                return f"{self._object(deeper)}.isEmpty()"
            case 10:
                return f"Boolean.parseBoolean({self.string(deeper)})"
        sign = self._random.choice(("<", "<=", ">", ">=", "==", "!="))
        return f"{self._wrapped(self._numeric(deeper))} {sign} {self._wrapped(self._numeric(deeper))}"

    def string(self, depth: int) -> str:
        if self._strays():
            return self._any(depth)
        if depth <= 0:
            return self._field() if self._random.random() < 0.6 else self._random.choice(_STRINGS)
        deeper = depth - 1
        match self._random.randrange(7):
            case 0:
                pair = [self.string(deeper), self._any(deeper)]
                self._random.shuffle(pair)
                return f"{self._wrapped(pair[0])} + {self._wrapped(pair[1])}"
            case 1:
                return f"{self._object(deeper)}.{self._random.choice(('trim', 'toUpperCase', 'toLowerCase'))}()"
            case 2:
                return f"{self._object(deeper)}.substring({self.number(deeper, 'int')})"
            case 3:
                return f"{self._object(deeper)}.substring({self._random.randrange(3)}, {self.number(deeper, 'int')})"
            case 4:
                return f"({self._condition(self.string(deeper), self.string(deeper), deeper)})"
        return self.string(0)

    def number(self, depth: int, type_: str) -> str:
        if self._strays():
            return self._any(depth)
        if depth <= 0:
            return self._literal(type_)
        deeper = depth - 1
        name = {"int": "Integer", "long": "Long", "float": "Float", "double": "Double"}[type_]
        match self._random.randrange(9):
            case 0 | 1:
                parse = f"parse{'Int' if type_ == 'int' else name}"
                prefix = "java.lang." if self._random.random() < 0.1 else ""
                return f"{prefix}{name}.{self._random.choice((parse, parse, 'valueOf'))}({self.string(deeper)})"
            case 2 | 3:
                other = self._random.choice([type_, "int"])
                sign = self._random.choice("+-*/%")
                return f"{self._wrapped(self.number(deeper, type_))} {sign} {self._wrapped(self.number(deeper, other))}"
            case 4:
                return f"-({self.number(deeper, type_)})"
            case 5:
                name = self._random.choice(("min", "max"))
                return f"Math.{name}({self.number(deeper, type_)}, {self.number(deeper, type_)})"
            case 6:
                return f"({self._condition(self.number(deeper, type_), self.number(deeper, type_), deeper)})"
        return self._function(deeper, type_)

    def _function(self, depth: int, type_: str) -> str:
        if type_ == "double":
            name = self._random.choice(("floor", "ceil", "sqrt", "abs"))
            if name == "abs" or self._random.random() < 0.7:
                return f"Math.{name}({self.number(depth, type_)})"
            return f"Math.pow({self.number(depth, 'int')}, {self._random.choice(('2', '0.5', '-1', '3.0', '0.0 / 0'))})"
        if type_ == "long":
            return f"Math.round({self.number(depth, 'double')})"
        if type_ == "float":
            return f"Math.abs({self.number(depth, 'float')})"
        match self._random.randrange(5):
            case 0:
                return f"Math.round({self.number(depth, 'float')})"
            case 1:
                return f"{self._object(depth)}.indexOf({self.string(depth)})"
            case 2:
                return f"{self._object(depth)}.indexOf({self._char(depth)}, {self._literal('int')})"
            case 3:
                return f"{self._object(depth)}.compareTo({self.string(depth)})"
        return f"{self._object(depth)}.length()"

    def _char(self, depth: int) -> str:
        if depth > 0 and self._random.random() < 0.5:
            return f"{self._object(depth - 1)}.charAt({self._random.randrange(3)})"
        return self._random.choice(_CHARS)

    def _numeric(self, depth: int) -> str:
        type_ = self._random.choice(("int", "long", "float", "double", "double", "char"))
        return self._char(depth) if type_ == "char" else self.number(depth, type_)

    def _any(self, depth: int) -> str:
        match self._random.randrange(4):
            case 0:
                return self.boolean(depth - 1)
            case 1:
                return self.string(depth - 1)
            case 2:
                return self._numeric(depth - 1)
        return "null" if self._random.random() < 0.3 else self._char(depth - 1)

    def _object(self, depth: int) -> str:
        """What a method can be called on."""
        text = self.string(depth)
        return text if text[0] in '$"' and " " not in text else f"({text})"

    def _condition(self, then: str, other: str, depth: int) -> str:
        return f"({self.boolean(depth)}) ? {self._wrapped(then)} : {self._wrapped(other)}"

    def _literal(self, type_: str) -> str:
        return self._random.choice({"int": _INTS, "long": _LONGS, "float": _FLOATS, "double": _DOUBLES}[type_])

    def _field(self) -> str:
        return f"$[{self._random.randrange(FIELD_COUNT) + 1}]"

    def _wrapped(self, text: str) -> str:
        """In parentheses, mostly: without them the precedence of operators decides."""
        return f"({text})" if self._random.random() < 0.75 else text

    def _strays(self) -> bool:
        return self._random.random() < self._stray
