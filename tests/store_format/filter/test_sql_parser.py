"""The dialect of SelectorParser.jj: what binds closer, what is a word, and where a text may end."""

import pytest

from reput.store_format.filter.evaluate import matches
from reput.store_format.filter.sql import WrongExpression, parse


def holds(text: str, text_words: bool = True, /, **properties: str) -> bool:
    return matches(parse(text, text_words).program, properties)


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("a = 1 OR a = 2 AND a = 3", True),  # AND binds closer than OR
        ("(a = 1 OR a = 2) AND a = 3", False),
        ("NOT a = 2", False),  # NOT is a unary: it takes `a` alone, which is FALSE, and a TRUE = 2
        ("NOT (a = 2)", True),
        ("a BETWEEN 0 AND 1 AND a = 1", True),
        ("a IS NOT NULL = TRUE", True),
        ("a > 0 = TRUE", True),  # a comparison binds closer than an equality
        ("- - a IS NULL", True),
        ("a = +1", True),
    ],
)
def test_what_binds_closer(text: str, yes: bool) -> None:
    assert holds(text, a="1") == yes


def test_words_are_in_any_case_and_names_are_not() -> None:
    assert holds("a Is nOt nUlL aNd a bEtWeEn 1 AnD 3 AND a iN ('2') OR fAlSe", a="2")
    assert not holds("A = 2", a="2")
    assert holds("_x$1 = 2 AND $ = 2 AND Andy = 2", **{"_x$1": "2", "$": "2", "Andy": "2"})


def test_blanks_and_comments_stand_anywhere() -> None:
    assert holds("/* a * / ** */\ta\f=\r\n1--= 2\n-- end\r", a="1")
    assert parse("a = 1 -- no line's end", True).rest == (1, 7)  # then it is no comment


def test_two_quotes_in_a_text_are_one() -> None:
    assert holds("a = 'it''s' AND b = '' AND c = ''''", a="it's", b="", c="'")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a = 1", None), ("a = 1 b = 2", (1, 7)), ("a = 1\n\n  )", (3, 3)), ("a = 1L2", (1, 7)),
        ("a = 01", (1, 6)), ("a = 1 'x'", (1, 7)),
    ],
)  # fmt: skip
def test_the_rest_after_a_whole_expression_is_ignored(
    text: str, rest: tuple[int, int] | None
) -> None:
    assert parse(text, True).rest == rest


@pytest.mark.parametrize("word", ["CONTAINS", "STARTSWITH", "ENDSWITH"])
def test_the_words_of_5_1_3_are_names_before(word: str) -> None:
    assert holds(f"a {word} 'x'", a="x")
    assert parse(f"a {word} 'x'", text_words=False).rest == (1, 3)
    assert holds(f"{word} = 'x'", False, **{word: "x"})
    with pytest.raises(WrongExpression, match="line 1, column 1: "):
        parse(f"{word} = 'x'", text_words=True)


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        ("", 1, 1, "ends where one of these was expected: "), (" \n ", 2, 2, "ends where"),
        ("a = 1 OR", 1, 9, "ends"), ("a\n = \n)", 3, 1, "')' stands"),
        ("a ! 1", 1, 3, "'!' begins no"),
        ("a = 'x", 1, 5, "begins no word"), ("a IN ()", 1, 7, "a text in single quotes"),
        ("a NOT = 1", 1, 7, "BETWEEN, CONTAINS, ENDSWITH, IN, STARTSWITH"),
        ("a = \xe9", 1, 5, "begins"),
    ],
)  # fmt: skip
def test_an_error_says_where_and_what(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(WrongExpression) as raised:
        parse(text, True)
    assert (raised.value.line, raised.value.column) == (line, column)
    assert reason in raised.value.reason


def test_an_expression_has_at_most_a_mebibyte() -> None:
    assert holds("a = 1" + " " * ((1 << 20) - 5), a="1")
    with pytest.raises(WrongExpression, match="has 1048577 characters"):
        parse("a = 1" + " " * ((1 << 20) - 4), True)
