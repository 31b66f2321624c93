"""The filter by an SQL92 expression: parsed by lark, and built from parts as RocketMQ builds it.
Imported only when needed, because it imports lark.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from reput.store_format.faults import WrongFilter
from reput.store_format.filter.filters import ProgramFilter
from reput.store_format.filter.program import (
    FALSE,
    NULL,
    TRUE,
    Instruction,
    Op,
    Program,
    Thrown,
    Value,
    ValueKind,
    compare,
)
from reput.store_format.release.profiles import Profile

# ---
# Builds expressions from their parts, and refuses what RocketMQ refuses.
#
# Each function is the `create...` method of that name in ComparisonExpression, LogicExpression,
# UnaryExpression or ConstantExpression, and refuses what that method throws at. lark calls them
# while it parses, innermost part first.

_INT_MOST = (1 << 31) - 1
_LONG_MOST = (1 << 63) - 1
_NUMBERS = (ValueKind.INTEGER, ValueKind.LONG, ValueKind.DOUBLE)


class Refusal(Exception):
    """RocketMQ refuses a well-formed expression."""

    def __init__(self, reason: str, part: "Subexpression") -> None:
        self.reason, self.line, self.column = reason, part.line, part.column
        super().__init__(reason)


@dataclass(slots=True)
class Subexpression:
    code: list[Instruction]  # leaves one value on the stack
    depth: int  # most values on the stack meanwhile
    line: int
    column: int
    boolean: bool  # a BooleanExpression
    constant: Value | None = None  # of a ConstantExpression
    name: str = ""  # of a PropertyExpression


def as_boolean(part: Subexpression) -> Subexpression:
    """SelectorParser.asBooleanExpression."""
    if part.boolean:
        return part
    if not part.name:
        raise Refusal("is neither true nor false: a comparison is missing", part)
    part.code.append((Op.CAST, None))
    return Subexpression(part.code, part.depth, part.line, part.column, True)


def _check_ordered(part: Subexpression) -> None:
    """ComparisonExpression.checkLessThanOperand."""
    if part.constant is not None:
        if part.constant.kind not in _NUMBERS:
            raise Refusal("cannot be compared by <, <=, > or >=, only numbers can", part)
    elif part.boolean:
        raise Refusal("is a condition, and cannot be compared by <, <=, > or >=", part)


def _equal(left: Subexpression, right: Subexpression) -> Subexpression:
    """ComparisonExpression.checkEqualOperand, checkEqualOperandCompatability."""
    for part in (left, right):
        if part.constant == NULL:
            raise Refusal("NULL cannot be compared by = or <>: write IS NULL", part)
    if left.constant and right.constant and left.boolean and not right.boolean:
        raise Refusal("TRUE and FALSE cannot be compared with this constant", right)
    return _binary(left, right, Op.EQUAL, None)  # both sides are evaluated, null or not


def _unary(
    part: Subexpression, op: Op, boolean: bool = True, argument: Any = None
) -> Subexpression:
    part.code.append((op, argument))
    return Subexpression(part.code, part.depth, part.line, part.column, boolean)


def _binary(left: Subexpression, right: Subexpression, op: Op, jump: Op | None) -> Subexpression:
    """The left part, the right part and `op`; `jump`, if any, may skip the last two."""
    right.code.append((op, None))
    if jump is not None:
        left.code.append((jump, len(right.code)))
    left.code += right.code
    return Subexpression(left.code, max(left.depth, 1 + right.depth), left.line, left.column, True)


def _comparison(op: Op) -> Callable[[Any, Subexpression, Subexpression], Subexpression]:
    def compared(_: Any, left: Subexpression, right: Subexpression) -> Subexpression:
        _check_ordered(left)
        _check_ordered(right)
        return _binary(left, right, op, Op.JUMP_IF_NULL)

    return compared


def _between(
    value: Subexpression,
    low: Subexpression,
    high: Subexpression,
    ops: tuple[Op, Op],
    rest: Op,
    join: Op,
) -> Subexpression:
    """`value` is evaluated once; RocketMQ evaluates it twice, with the same result."""
    for part in (value, low, value, high):
        _check_ordered(part)
    last = [*high.code, (ops[1], None)]
    second = [(Op.JUMP_IF_NULL, len(last)), *last, (join, None)]
    first = [*low.code, (ops[0], None)]
    value.code += [(Op.COPY, None), (Op.JUMP_IF_NULL, len(first)), *first]
    value.code += [(rest, len(second)), *second]
    depth = max(value.depth, 2 + low.depth, 2 + high.depth)
    return Subexpression(value.code, depth, value.line, value.column, True)


def _check_bounds(low: Subexpression, high: Subexpression) -> None:
    """ComparisonExpression.createBetween for two constants."""
    if low.constant is None or high.constant is None:
        return
    if NULL in (low.constant, high.constant):
        raise Refusal("NULL cannot bound a BETWEEN", low if low.constant == NULL else high)
    try:
        if compare(high.constant, low.constant) >= 0:
            return
    except Thrown:
        pass
    raise Refusal("the first bound of a BETWEEN is greater than the second", low)


def _text_test(op: Op) -> Callable[[Any, Subexpression, Token], Subexpression]:
    def tested(_: Any, part: Subexpression, token: Token) -> Subexpression:
        text = unquoted(token)
        if not text:  # FALSE: the left side is not even evaluated
            return Subexpression([(Op.CONSTANT, FALSE)], 1, part.line, part.column, True)
        return _unary(part, op, argument=text)

    return tested


def _within(op: Op) -> Callable[[Any, Subexpression, tuple[str, ...]], Subexpression]:
    def within(_: Any, part: Subexpression, texts: tuple[str, ...]) -> Subexpression:
        if not part.name:
            raise Refusal("IN takes a property on its left", part)
        return _unary(part, op, argument=texts)

    return within


def _logic(op: Op, jump: Op) -> Callable[[Any, Subexpression, Subexpression], Subexpression]:
    return lambda _, left, right: _binary(as_boolean(left), as_boolean(right), op, jump)


def _literal(value: Value) -> Callable[[Any, Token], Subexpression]:
    return lambda _, token: _constant(token, value, boolean=True)


def _constant(token: Token, value: Value, boolean: bool = False) -> Subexpression:
    return Subexpression(
        [(Op.CONSTANT, value)], 1, token.line or 1, token.column or 1, boolean, value
    )


def unquoted(token: Token) -> str:
    """SelectorParser.stringLitteral: two quotes within stand for one."""
    return str(token)[1:-1].replace("''", "'")


@v_args(inline=True)
class Expressions(Transformer[Token, Subexpression]):
    """lark's callbacks: a method for each alternative of the grammar."""

    # --- literals and names

    def text(self, token: Token) -> Subexpression:
        return _constant(token, Value(ValueKind.TEXT, unquoted(token)))

    def decimal(self, token: Token) -> Subexpression:
        """ConstantExpression.createFromDecimal: a Long, or an Integer if it is one."""
        digits = token.rstrip("lL")
        number = int(digits[:20])  # a long has 19 digits, and the grammar takes no leading zeros
        kind = ValueKind.INTEGER if number <= _INT_MOST else ValueKind.LONG
        part = _constant(token, Value(kind, number))
        if number > _LONG_MOST:
            raise Refusal(f"is more than a long holds, {_LONG_MOST}", part)
        return part

    def floating(self, token: Token) -> Subexpression:
        """ConstantExpression.createFloat: refuses values below Double.MIN_VALUE, and so 0.0."""
        number = float(token)
        part = _constant(token, Value(ValueKind.DOUBLE, number))
        if number == float("inf"):
            raise Refusal("is more than a double holds", part)
        if number == 0:
            raise Refusal("RocketMQ takes no 0 with a point or an exponent: write 0", part)
        return part

    true, false, null = _literal(TRUE), _literal(FALSE), _literal(NULL)

    def property(self, token: Token) -> Subexpression:
        name = str(token)
        return Subexpression(
            [(Op.PROPERTY, name)], 1, token.line or 1, token.column or 1, False, name=name
        )

    def texts(self, *tokens: Token) -> tuple[str, ...]:
        return tuple(unquoted(token) for token in tokens)

    # --- operators

    def negate(self, part: Subexpression) -> Subexpression:
        return _unary(part, Op.NEGATE, boolean=False)

    def negation(self, part: Subexpression) -> Subexpression:
        return _unary(as_boolean(part), Op.NOT)

    both = _logic(Op.AND, Op.JUMP_IF_FALSE)
    either = _logic(Op.OR, Op.JUMP_IF_TRUE)

    def equal(self, left: Subexpression, right: Subexpression) -> Subexpression:
        return _equal(left, right)

    def not_equal(self, left: Subexpression, right: Subexpression) -> Subexpression:
        return _unary(_equal(left, right), Op.NOT)

    def is_null(self, part: Subexpression, _null: Token) -> Subexpression:
        return _unary(part, Op.IS_NULL)

    def is_not_null(self, part: Subexpression, _null: Token) -> Subexpression:
        return _unary(_unary(part, Op.IS_NULL), Op.NOT)

    greater = _comparison(Op.GREATER)
    greater_equal = _comparison(Op.GREATER_EQUAL)
    less = _comparison(Op.LESS)
    less_equal = _comparison(Op.LESS_EQUAL)

    contains = _text_test(Op.CONTAINS)
    not_contains = _text_test(Op.NOT_CONTAINS)
    starts = _text_test(Op.STARTS)
    not_starts = _text_test(Op.NOT_STARTS)
    ends = _text_test(Op.ENDS)
    not_ends = _text_test(Op.NOT_ENDS)

    def between(
        self, value: Subexpression, low: Subexpression, high: Subexpression
    ) -> Subexpression:
        _check_bounds(low, high)
        ops = (Op.GREATER_EQUAL, Op.LESS_EQUAL)
        return _between(value, low, high, ops, Op.REST_UNLESS_FALSE, Op.AND)

    def not_between(
        self, value: Subexpression, low: Subexpression, high: Subexpression
    ) -> Subexpression:
        ops = (Op.LESS, Op.GREATER)
        return _between(value, low, high, ops, Op.REST_UNLESS_TRUE, Op.OR)

    within = _within(Op.IN)
    not_within = _within(Op.NOT_IN)


# ---
# Parses RocketMQ's SQL92 dialect (rocketmq-filter's SelectorParser.jj) by lark.
#
# Grammar and tokens are those of SelectorParser.jj. That grammar does not ask for the text's end:
# RocketMQ stops at the first token that cannot continue a complete expression, and ignores the
# rest. So `a = 1 b = 2` is `a = 1`, and before 5.1.3, where CONTAINS is a name like any other, `a
# CONTAINS 'x'` is `a`. `parse` does the same, and returns where the rest begins.

_GRAMMAR = r"""
?start: or_expression
?or_expression: and_expression
    | or_expression _OR and_expression -> either
?and_expression: equality
    | and_expression _AND equality -> both
?equality: comparison
    | equality _EQUAL comparison -> equal
    | equality _UNEQUAL comparison -> not_equal
    | equality _IS NULL -> is_null
    | equality _IS _NOT NULL -> is_not_null
?comparison: unary
    | comparison _GREATER unary -> greater
    | comparison _GREATER_EQUAL unary -> greater_equal
    | comparison _LESS unary -> less
    | comparison _LESS_EQUAL unary -> less_equal
    | comparison _CONTAINS TEXT -> contains
    | comparison _NOT _CONTAINS TEXT -> not_contains
    | comparison _STARTSWITH TEXT -> starts
    | comparison _NOT _STARTSWITH TEXT -> not_starts
    | comparison _ENDSWITH TEXT -> ends
    | comparison _NOT _ENDSWITH TEXT -> not_ends
    | comparison _BETWEEN unary _AND unary -> between
    | comparison _NOT _BETWEEN unary _AND unary -> not_between
    | comparison _IN _OPEN texts _CLOSE -> within
    | comparison _NOT _IN _OPEN texts _CLOSE -> not_within
texts: TEXT (_COMMA TEXT)*
?unary: _PLUS unary
    | _MINUS unary -> negate
    | _NOT unary -> negation
    | primary
?primary: TEXT -> text
    | DECIMAL -> decimal
    | FLOATING -> floating
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | NAME -> property
    | _OPEN or_expression _CLOSE

_EQUAL: "="
_UNEQUAL: "<>"
_GREATER: ">"
_GREATER_EQUAL: ">="
_LESS: "<"
_LESS_EQUAL: "<="
_OPEN: "("
_CLOSE: ")"
_COMMA: ","
_PLUS: "+"
_MINUS: "-"
TEXT: /'(?:''|[^'])*'/
FLOATING.2: /[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+/
DECIMAL: /0|[1-9][0-9]*[lL]?/
NAME: /[A-Za-z_$][A-Za-z0-9_$]*/
LINE_COMMENT.2: /--[^\n\r]*(?:\r\n|\n|\r)/
BLOCK_COMMENT.2: /\/\*[^*]*\*(?:\*|[^*\/][^*]*\*)*\//
BLANKS: /[ \t\n\r\f]+/
%ignore LINE_COMMENT
%ignore BLOCK_COMMENT
%ignore BLANKS
%declare _NOT _AND _OR _BETWEEN _IN TRUE FALSE NULL _IS _CONTAINS _STARTSWITH _ENDSWITH
"""
_VALUES = ("TRUE", "FALSE", "NULL")
_WORDS = ("NOT", "AND", "OR", "BETWEEN", "IN", "IS", *_VALUES)
_TEXT_WORDS = ("CONTAINS", "STARTSWITH", "ENDSWITH")  # from 5.1.3 on
_SHOWN = {
    "_EQUAL": "=", "_UNEQUAL": "<>", "_GREATER": ">", "_GREATER_EQUAL": ">=", "_LESS": "<",
    "_LESS_EQUAL": "<=", "_OPEN": "(", "_CLOSE": ")", "_COMMA": ",", "_PLUS": "+", "_MINUS": "-",
    "TEXT": "a text in single quotes", "DECIMAL": "a number", "FLOATING": "a number",
    "NAME": "a property", "$END": "the end",
}  # fmt: skip
_TEXT_MOST = 1 << 20  # characters
_STACK_MOST = 2000  # of the parser: some hundred levels of parentheses, 2,000 of NOT


class WrongExpression(WrongFilter):
    """RocketMQ refuses this expression, or it is too large for reput. Has where and why."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        """line, column: from 1, in characters."""
        self.reason, self.line, self.column = reason, line, column
        super().__init__(f"SQL92 expression: line {line}, column {column}: {reason}")


@dataclass(frozen=True)
class Parsed:
    program: Program
    rest: tuple[int, int] | None  # line and column from which the text is ignored


@lru_cache(maxsize=2)
def _parser(words: tuple[str, ...]) -> Lark:
    """Lark's tables of the grammar, with these words reserved in upper and lower case."""
    types = {word: word if word in _VALUES else f"_{word}" for word in words}

    def reserved(token: Token) -> Token:
        kind = types.get(token.upper())
        return token if kind is None else Token.new_borrow_pos(kind, str(token), token)

    return Lark(
        _GRAMMAR,
        parser="lalr",
        lexer="basic",  # like JavaCC's: a token's type does not depend on earlier tokens
        transformer=Expressions(),
        lexer_callbacks={"NAME": reserved},
    )


def parse(text: str, text_words: bool) -> Parsed:
    """Compile an expression.

    text_words: CONTAINS, STARTSWITH and ENDSWITH are words (Profile.sql_text_words).

    Raises WrongExpression.
    """
    if len(text) > _TEXT_MOST:
        raise WrongExpression(f"has {len(text)} characters, more than {_TEXT_MOST}", 1, 1)
    words = _WORDS + (_TEXT_WORDS if text_words else ())
    try:
        return _parse(text, words)
    except Refusal as error:
        raise WrongExpression(error.reason, error.line, error.column) from None
    except UnexpectedCharacters as error:
        reason = f"{_quoted(text[error.pos_in_stream or 0])} begins no word, number or text"
        raise WrongExpression(reason, error.line, error.column) from None


def _parse(text: str, words: tuple[str, ...]) -> Parsed:
    steps: Any = _parser(words).parse_interactive(text)  # its stubs lack types
    token, rest = None, None
    for token in steps.lexer_thread.lex(steps.parser_state):
        try:
            steps.feed_token(token)
        except UnexpectedToken:
            if "$END" not in steps.accepts():
                raise _unexpected(token, steps.accepts(), words) from None
            rest = (token.line or 1, token.column or 1)
            break
        if len(steps.parser_state.state_stack) > _STACK_MOST:
            raise WrongExpression("is nested too deeply", token.line or 1, token.column or 1)
    try:
        part: Subexpression = as_boolean(steps.feed_eof(token))
    except UnexpectedToken as error:
        end = Token.new_borrow_pos("$END", "", token) if token else Token("$END", "", 0, 1, 1)
        end.line, end.column = text.count("\n") + 1, len(text) - text.rfind("\n")
        raise _unexpected(end, error.accepts or error.expected, words) from None
    return Parsed(Program(tuple(part.code), part.depth), rest)


def _quoted(text: str) -> str:
    return ascii(str(text) if len(text) <= 20 else f"{text[:20]}...")


def _unexpected(token: Token, accepted: set[str], words: tuple[str, ...]) -> WrongExpression:
    found = "ends" if token.type == "$END" else f"{_quoted(token)} stands"
    wanted = {_SHOWN.get(name, name.removeprefix("_")) for name in accepted}
    wanted -= set(_TEXT_WORDS) - set(words)
    expected = ", ".join(sorted(wanted))
    where = (token.line or 1, token.column or 1)
    return WrongExpression(f"{found} where one of these was expected: {expected}", *where)


class SqlFilter(ProgramFilter):
    """A consumer's subscription by SQL92, as the broker evaluates it."""

    def __init__(self, text: str, text_words: bool) -> None:
        """text_words: Profile.sql_text_words. Raises WrongExpression."""
        parsed = parse(text, text_words)
        super().__init__(parsed.program)
        # line and column from which RocketMQ ignores the text, or None; worth a warning
        self.rest = parsed.rest


def sql_filter(text: str, profile: Profile) -> SqlFilter:
    """The filter that a broker of this release makes of an expression. Raises WrongExpression."""
    return SqlFilter(text, profile.sql_text_words)
