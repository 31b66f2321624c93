"""Texts and times as a terminal, or JSON, has them."""

import pytest

from reput.jobs.console.voice import camel_case, duration, safe


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (59_999, "59 s"), (90_000, "1 m 30 s"),
        (3_600_000, "1 h"), (93_600_000, "1 d 2 h"), (-90_000, "-1 m 30 s"),
    ],
)  # fmt: skip
def test_durations(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_names_in_json() -> None:
    assert camel_case({"state": 1, "last_physical_offset": 2}) == {
        "state": 1,
        "lastPhysicalOffset": 2,
    }


def test_what_is_not_printable_is_escaped() -> None:
    assert safe("Topic é 1") == "Topic é 1"
    assert safe("a\x1b[2J\u202e\n") == "a\\x1b[2J\\u202e\\n"
