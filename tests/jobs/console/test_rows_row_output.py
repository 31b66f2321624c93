"""Rows of a store: a table for people, JSON lines or CSV for programs, and a note without any."""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from reput.jobs.cli import main
from reput.jobs.console.rows import OutputColumn, add_asked_store, at, run_listing
from reput.store_format.faults import StoreError
from reput.store_format.message.message import Message
from tests.broker.writer.stores import open_writer, stored_records
from tests.damaged import damaged, messages
from tests.jobs.opening.writing import SETTINGS as SIZES
from tests.jobs.sources.reading import write
from tests.trees import flip


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


def test_programs_get_each_field_by_its_name_in_json(store: Path, capsys) -> None:
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


_LISTINGS = ["stats", "delayed", "transactions", "groups", "queues", "topics"]


@pytest.fixture(scope="module")
def listed_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lacking") / "store"
    with open_writer(root, **SIZES) as writer:
        for number in range(700):
            writer.append(Message("T", bytes(60), 0, keys=f"k{number}", delay_level=number % 2))
    (root / "config").mkdir()
    (root / "config/consumerOffset.json").write_bytes(b'{"offsetTable":{"T@g":{0:1}}}')
    return root


def _as_it_is(store: Path) -> None: ...


def _torn(store: Path) -> None:
    """The log's last record, as a crash leaves it."""
    last = list(stored_records(store / "commitlog"))[-1].physical_offset
    path = store / "commitlog" / f"{last // (1 << 16) * (1 << 16):020}"
    flip(path, last % (1 << 16) + 4)


def _damaged(store: Path) -> None:
    path = store / "commitlog" / ("0" * 20)
    flip(path, path.read_bytes().index(bytes.fromhex("daa320a7"), 100))


def _hole(store: Path) -> None:
    (store / "commitlog" / f"{1 << 16:020}").unlink()


def _no_offsets(store: Path) -> None:
    (store / "config/consumerOffset.json").write_bytes(bytes(30))


def _offsets_in_bak(store: Path) -> None:
    path = store / "config/consumerOffset.json"
    path.rename(f"{path}.bak")
    path.write_bytes(bytes(30))


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        (_as_it_is, []), (_torn, []), (_damaged, _LISTINGS[:2]), (_hole, _LISTINGS),
        (_no_offsets, ["groups"]), (_offsets_in_bak, []),
    ],
)  # fmt: skip
def test_an_answer_that_lacks_something_ends_with_1(
    listed_store: Path, change: Callable[[Path], None], lacking: list[str], tmp_path: Path
) -> None:
    """They ended with 0 and a note; what recovery cuts anyway is nothing that is lacking. The store
    never had a half message, as its queues tell.
    """
    store = Path(shutil.copytree(listed_store, tmp_path / "store"))
    change(store)
    codes = {name: main([name, str(store), "--quiet"]) for name in _LISTINGS}
    assert [name for name, code in codes.items() if code] == lacking
    assert set(codes.values()) <= {0, 1}
