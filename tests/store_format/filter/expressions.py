# ruff: noqa: E501 - tables of cases
"""Random expressions of RocketMQ's SQL92 dialect, most of which parse, and random properties."""

from random import Random

NAMES = ("a", "b", "price", "TAGS", "_x$1", "CONTAINS1")
# What number parsers, boolean parsers and decoders may differ in.
VALUES = (
    "1", "5", "-5", "+7", "0", "-0", "00012", "10", "5.0", "5.5", ".5", "5.", "1e3", "1E-3", "1d",
    "2f", "0x10", "0x1p3", "0x1.8P1f", "NaN", "-NaN", "Infinity", "-Infinity", "inf", "nan", "1_0", " 5",
    "5 ", "\t5.5 ", "", "3000000000", "-3000000000", "2147483647", "2147483648", "-2147483648",
    "9223372036854775807", "9223372036854775808", "1234567890123456", "0.1", "0.30000000000000004",
    "100000000000000000000000", "1e400", "1e-400", "-1e-400", "true", "TRUE", "True", "false", "tRuE ",
    "x", "xx", "eu", "EU", "it's", "grün", "日本", "😀", "\u0663", "\u0966\u0967", "\uff15", "𝟓",
    "a CONTAINS 'x'", "-", "+", ".", "e5", "1.2.3", "\ufffd", "4.9e-324", "1.7976931348623157e308",
)  # fmt: skip
NUMBERS = (
    "0", "1", "5", "10", "5L", "7l", "2147483647", "2147483648", "3000000000", "9223372036854775807",
    "9223372036854775808", "5.0", "5.5", ".5", "5.", "1e3", "1.5E-2", "0.0", "1e400", "1e-400", "0L",
    "007", "12.", "0.1", "4.9e-324", "100000000000000000000",
)  # fmt: skip
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_WORDS = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_ODD = (
    "!", "==", "!=", "'", "(", ")", ",", ";", "IS", "NULL", "NOT", "--", "-- c\n", "/* c */", "/*", "%",
    "AND", "OR", "x y", "\u00a0", "0x5", "\"a\"", "LIKE", "BETWEEN", "IN", "CONTAINS", ".", "1e",
)  # fmt: skip


class Expressions:
    """One seed's expressions; `odd`: how often something is put in that hardly belongs there."""

    def __init__(self, seed: int, odd: float = 0.02) -> None:
        self.random = Random(seed)
        self.odd = odd

    def one(self) -> str:
        text = self._any(self.random.choice((1, 2, 2, 3, 4)))
        while self.random.random() < self.odd * 5:
            at = self.random.randrange(len(text) + 1)
            text = text[:at] + self.random.choice(("", " ")) + self._of(_ODD) + text[at:]
        return text

    def _of(self, choices: tuple[str, ...]) -> str:
        return self.random.choice(choices)

    def _case(self, word: str) -> str:
        return self.random.choice((word, word, word.lower(), word.capitalize()))

    def _any(self, depth: int) -> str:
        if depth > 1 and self.random.random() < 0.75:
            kind = self.random.randrange(5)
            if kind < 3:
                join = self._case(self._of(("AND", "OR")))
                return f"{self._any(depth - 1)} {join} {self._any(depth - 1)}"
            if kind == 3:
                return f"({self._any(depth - 1)})"
            return f"{self._case('NOT')} ({self._any(depth - 1)})"
        return self._condition()

    def _condition(self) -> str:
        kind = self.random.randrange(12)
        not_ = self._case("NOT") + " " if self.random.random() < 0.3 else ""
        if kind < 5:
            space = self.random.choice(("", " ", "\n"))
            return f"{self._operand()}{space}{self._of(_COMPARISONS)}{space}{self._operand()}"
        if kind < 7:
            low, high = self._operand(), self._operand()
            return (
                f"{self._operand()} {not_}{self._case('BETWEEN')} {low} {self._case('AND')} {high}"
            )
        if kind == 7:
            texts = ", ".join(self._text() for _ in range(self.random.randrange(1, 8)))
            return f"{self._name()} {not_}{self._case('IN')} ({texts})"
        if kind == 8:
            return f"{self._operand()} IS {not_}NULL"
        if kind < 11:
            return f"{self._operand()} {not_}{self._case(self._of(_WORDS))} {self._text()}"
        return not_ + self._operand()

    def _operand(self) -> str:
        kind = self.random.random()
        if kind < 0.5:
            return self._name()
        if kind < 0.75:
            return self._of(NUMBERS)
        if kind < 0.83:
            return self._text()
        if kind < 0.87:
            return self._case(self._of(("TRUE", "FALSE", "NULL")))
        if kind < 0.95:
            return self._of(("-", "+", "- ")) + self._operand()
        return f"({self._condition()})"

    def _name(self) -> str:
        return self._of(NAMES)

    def _text(self) -> str:
        value = self._of((*VALUES, "tru", "5", "x"))
        return "'" + value.replace("'", "''") + "'"


def properties(seed: int) -> dict[str, str]:
    """The properties of one message; VALUES without the empty one, which no message keeps."""
    random = Random(seed)
    values = [value for value in VALUES if value]
    return {name: random.choice(values) for name in NAMES if random.random() < 0.75}
