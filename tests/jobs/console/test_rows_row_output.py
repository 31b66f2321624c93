"""Rows of a store: a table for people, JSON lines or CSV for programs, and a note without any."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reput.jobs.console import voice
from reput.jobs.console.rows import OutputColumn, add_asked_store, at, run_listing
from reput.store_format.faults import StoreError
from tests.damaged import damaged, messages
from tests.jobs.sources.reading import write


class Row(NamedTuple):
    topic: str
    queue_id: int
    store_timestamp: int


ROWS = [Row("T\n", 0, 0), Row("Other", 11, -1)]
COLUMNS = (
    OutputColumn("topic", lambda row: row.topic, True),
    OutputColumn("queue", lambda row: row.queue_id),
    OutputColumn("stored", lambda row: at(row.store_timestamp), True),
)


@pytest.fixture(autouse=True)
def said_before() -> Iterator[None]:
    voice.begin()
    yield
    voice.begin()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(damaged(messages(3)).log, tmp_path_factory.mktemp("listed") / "store")


def listed(store: Path, rows: list[Row], *words: str) -> int:
    parser = argparse.ArgumentParser()
    add_asked_store(parser)
    return run_listing(parser.parse_args([str(store), *words]), lambda _: rows, COLUMNS)


def test_a_time_before_1970_is_none() -> None:
    assert [at(0), at(-1)] == ["1970-01-01T00:00:00.000Z", None]


def test_people_read_a_table(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert listed(store, ROWS) == 0
    assert capsys.readouterr().out.splitlines() == [
        "topic  queue  stored",
        "T\\n        0  1970-01-01T00:00:00.000Z",
        "Other     11  -",
    ]


def test_programs_get_each_field_by_its_name_in_json(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(store, ROWS, "--json") == 0
    assert capsys.readouterr().out.splitlines()[1] == (
        '{"topic": "Other", "queueId": 11, "storeTimestamp": -1}'
    )
    assert listed(store, ROWS[1:], "--format", "csv") == 0
    assert capsys.readouterr().out == "topic,queueId,storeTimestamp\nOther,11,-1\n"


@pytest.mark.parametrize("words", [(), ("--json",), ("--format", "csv")])
def test_without_rows_a_note_says_so_and_nothing_failed(
    words: tuple[str, ...], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert listed(store, [], *words) == 0
    out, errors = capsys.readouterr()
    assert (out, errors.splitlines()[-1]) == ("", "reput: nothing was found")


def test_the_error_names_the_store_that_was_meant(store: Path) -> None:
    with pytest.raises(StoreError, match=f"did you mean {store}?"):
        listed(store / "commitlog", ROWS)
