"""A request's header fields: texts that are to be there, Java's numbers, Java's booleans."""

import pytest

from reput.broker.serving.broker import flag, number, text
from reput.broker.wire.codes import Refused
from tests.jobs.sockets.asking import request

LONG_MAX = (1 << 63) - 1


def test_a_missing_text_is_named_and_an_empty_one_is_there() -> None:
    assert text(request(1, topic=""), "topic") == ""
    with pytest.raises(Refused, match="<topic> is null"):
        text(request(1, Topic="T"), "topic")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0", 0), ("-1", -1), ("007", 7), ("+5", 5), (str(LONG_MAX), LONG_MAX),
        (str(~LONG_MAX), ~LONG_MAX),
    ],
)  # fmt: skip
def test_a_number_is_a_long(written: str, value: int) -> None:
    assert number(request(1, n=written), "n") == value


@pytest.mark.parametrize(
    "written",
    [
        "", "-", "+", "--1", "+-1", "1.5", " 1", "1_0", "0x1", "\u0663", "\u00b2",
        str(LONG_MAX + 1), str(~LONG_MAX - 1), "9" * 10_000, "null",
    ],
)  # fmt: skip
def test_what_is_no_long_is_refused(written: str) -> None:
    with pytest.raises(Refused, match="<n> is no"):
        number(request(1, n=written), "n")


def test_a_default_stands_for_what_is_missing_only() -> None:
    assert number(request(1), "n", 0) == 0
    assert number(request(1, n=3), "n", 0) == 3
    with pytest.raises(Refused):
        number(request(1, n="x"), "n", 0)
    with pytest.raises(Refused, match="null"):
        number(request(1), "n")


@pytest.mark.parametrize(
    ("written", "value"),
    [("true", True), ("TRUE", True), ("True", True), ("false", False), ("1", False), ("", False),
     (" true", False)],
)  # fmt: skip
def test_a_flag_is_what_parse_boolean_takes(written: str, value: bool) -> None:
    assert flag(request(1, f=written), "f") is value
    assert flag(request(1), "f") is False
