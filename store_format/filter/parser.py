"""Parses RocketMQ's SQL92 dialect (rocketmq-filter's SelectorParser.jj) by lark.

Grammar and tokens are those of SelectorParser.jj. That grammar does not ask for the text's end:
RocketMQ stops at the first token that cannot continue a complete expression, and ignores the rest.
So `a = 1 b = 2` is `a = 1`, and before 5.1.3, where CONTAINS is a name like any other, `a CONTAINS
'x'` is `a`. `parse` does the same, and returns where the rest begins.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from reput.store_format.faults import WrongFilter
from reput.store_format.filter.expressions import Expressions, Refusal, Subexpression, as_boolean
from reput.store_format.filter.program import Program

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
    """A compiled expression."""

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
        end.line, end.column = _end_of(text)
        raise _unexpected(end, error.accepts or error.expected, words) from None
    return Parsed(Program(tuple(part.code), part.depth), rest)


def _end_of(text: str) -> tuple[int, int]:
    """Line and column after the last character."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _quoted(text: str) -> str:
    return ascii(str(text) if len(text) <= 20 else f"{text[:20]}...")


def _unexpected(token: Token, accepted: set[str], words: tuple[str, ...]) -> WrongExpression:
    found = "ends" if token.type == "$END" else f"{_quoted(token)} stands"
    wanted = {_SHOWN.get(name, name.removeprefix("_")) for name in accepted}
    wanted -= set(_TEXT_WORDS) - set(words)
    expected = ", ".join(sorted(wanted))
    where = (token.line or 1, token.column or 1)
    return WrongExpression(f"{found} where one of these was expected: {expected}", *where)
