"""Answers about a store: times, numbers and notes as people give and read them, rows as tables."""

import argparse
from typing import Any

import pytest

from reput.jobs import cli
from reput.jobs.console import voice
from reput.jobs.console.options import at_least_one, before, milliseconds, number
from reput.jobs.console.rows import RowWriter, write_table
from reput.jobs.console.voice import remark

NOON = 1_769_860_800_000  # 20,484 days after 1970-01-01, and half a day


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", 0),
        ("-1", -1),
        ("2026-01-31", NOON - 43_200_000),
        ("2026-01-31T12:00:00", NOON),
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T20:00:00+08:00", NOON),
        ("2026-01-31 12:00:00.007", NOON + 7),
        ("1969-12-31T23:59:59.999Z", -1),
        ("1969-12-31T23:59:59.9995Z", -1),
        ("0001-01-01", -62_135_596_800_000),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, wanted: int) -> None:
    assert milliseconds(text) == wanted
    assert before(text) == wanted - 1


@pytest.mark.parametrize("text", ["2026-02-30", "12:00", "1.5", "٢h ago", "2026-01-31T12:00:00X"])
def test_other_words_are_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"^'{text}' is not a time: "):
        milliseconds(text)


def test_a_number_is_none_below_0() -> None:
    assert [number("0"), number("7")] == [0, 7]
    with pytest.raises(argparse.ArgumentTypeError, match="-1 is negative"):
        number("-1")
    with pytest.raises(ValueError, match="invalid literal"):
        number("1.5")


def written(form: str, *rows: dict[str, Any]) -> None:
    writer = RowWriter(argparse.Namespace(format=form))
    for row in rows:
        writer.write(row)


def test_csv_has_the_columns_of_the_first_row(capsys: pytest.CaptureFixture[str]) -> None:
    written("csv", {"a": 1, "b": None}, {"b": "x,y", "c": 3}, {"a": [1], "b": True})
    assert capsys.readouterr().out == 'a,b\n1,\n,"x,y"\n[1],true\n'
    written("csv")
    assert capsys.readouterr().out == ""


def test_json_has_a_line_for_each_row_with_its_own_fields(capsys) -> None:
    written("json", {"a": None}, {"b": "é\n"})
    assert capsys.readouterr().out == '{"a": null}\n{"b": "\\u00e9\\n"}\n'


def test_a_table_has_texts_left_and_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["topic", "many"], [["a", 12345], ["longer", None], ["x\x1b[31m", 7]], {"topic"})
    assert capsys.readouterr().out.splitlines() == [
        "topic       many",
        "a          12345",
        "longer         -",
        "x\\x1b[31m      7",
    ]


def test_a_table_s_lines_end_without_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(["n", "note"], [[1, ""], [22, "some words"]], {"note"})
    assert capsys.readouterr().out == " n  note\n 1\n22  some words\n"


def test_a_remark_is_escaped_and_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("a\x1b[2J", "a\x1b[2J", "b"):
        remark(text)
    assert capsys.readouterr() == ("", "reput: a\\x1b[2J\nreput: b\n")
    voice.begin(quiet=True)
    remark("c")
    assert capsys.readouterr() == ("", "")


def test_a_search_for_at_most_0_is_refused() -> None:
    """It said "nothing was found" of a store that has the messages."""
    assert at_least_one("1") == 1
    for text in ("0", "-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            at_least_one(text)
    with pytest.raises(SystemExit):
        cli.main(["query", "s", "--topic", "T", "--max", "0"])
