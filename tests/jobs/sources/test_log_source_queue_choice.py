"""One topic by its ConsumeQueues: the rows of the walk, whatever is in the queues' files."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.store_format.layouts import QUEUE_ENTRY_BYTES
from reput.store_format.message.message import Message
from reput.udfs.table import queue_parts
from tests import golden_stores
from tests.broker.writer.stores import open_writer
from tests.jobs.sources.reading import places, table

ENTRIES, QUEUES = 50, 3  # of a queue file, of the topic
SETTINGS = {"mappedFileSizeCommitLog": 1 << 14,
            "mappedFileSizeConsumeQueue": ENTRIES * QUEUE_ENTRY_BYTES}  # fmt: skip


def make(store: Path, topic: str = "Some") -> Path:
    with open_writer(store, **SETTINGS) as writer:
        for n in range(600):
            writer.append(Message("All", b"b" * 80, n % 2))
            if n % 2:
                writer.append(Message(topic, b"%d" % n, n // 2 % QUEUES, keys=f"k{n}"))
    return store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("queues") / "store")


@pytest.fixture
def store(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(queue_parts, "WORTH_BYTES", 0)
    return Path(shutil.copytree(made, tmp_path / "store"))


def file(store: Path, queue: int, number: int) -> Path:
    return sorted((store / "consumequeue" / "Some" / str(queue)).iterdir())[number]


def put(path: Path, entry: int, raw: bytes) -> None:
    with path.open("r+b") as there:
        there.seek(entry * QUEUE_ENTRY_BYTES)
        there.write(raw)


def asked(store: Path, caplog: Any, **options: Any) -> tuple[list[int], str]:
    """The rows' places, and what was reported of them."""
    caplog.clear()
    caplog.set_level(logging.INFO, "reput.source")
    found = places(store, subscribe="Some", useConsumeQueue="true", **options)
    return sorted(found), caplog.text


def test_the_rows_are_those_of_the_walk(store: Path, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "reput.source")
    for parts in (1, 7):
        whole = table(store, subscribe="Some", minPartitions=parts)
        found = table(store, subscribe="Some", useConsumeQueue="true", minPartitions=parts)
        assert found.sort_by("physicalOffset").to_pylist() == whole.to_pylist()
    assert "queues of 'Some' are used up to" in caplog.text
    assert "the log is read from" not in caplog.text
    first, last = (whole["physicalOffset"][n].as_py() for n in (20, 130))
    between = {"startingOffsets": first, "endingOffsets": last}
    assert asked(store, caplog, **between)[0] == places(store, subscribe="Some", **between)
    places(store, subscribe="Some,All", useConsumeQueue="true")
    assert "only for a single topic" in caplog.text
    assert "only with onDamage=fail" in asked(store, caplog, onDamage="skip")[1]


def test_a_topic_that_fills_the_log_is_walked(store: Path, caplog, monkeypatch) -> None:
    monkeypatch.setattr(queue_parts, "WORTH_BYTES", 8 << 10)
    found, reported = asked(store, caplog)
    assert found == places(store, subscribe="Some")
    assert "records of the topic there" in reported


@pytest.mark.parametrize("name", ["mixed_5.3.3", "small_all_4.9.7"])
def test_rocketmqs_own_queues_give_what_is_dispatched(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(queue_parts, "WORTH_BYTES", 0)
    store, golden = golden_stores.whole(name, tmp_path)
    given = {"rocketmq": golden.version, "columns": "physicalOffset,sysFlag,topic,body,properties"}

    def rows(**options: Any) -> list[dict[str, Any]]:
        """Without prepared and rolled back ones, which are in no queue."""
        found = table(store, **given, **options).sort_by("physicalOffset").to_pylist()
        return [row for row in found if row["sysFlag"] & 12 not in (4, 12)]

    whole = rows()
    for topic in {row["topic"] for row in whole}:
        wanted = [row for row in whole if row["topic"] == topic]
        assert rows(subscribe=topic, useConsumeQueue="true") == wanted, topic


def _twice(store: Path, entry: int = 7) -> None:
    """An entry that points to the record of the one before it."""
    path = file(store, 2, 0)
    raw = path.read_bytes()[(entry - 1) * QUEUE_ENTRY_BYTES : entry * QUEUE_ENTRY_BYTES]
    put(path, entry, raw)


NONE, ALL_NONE = bytes(QUEUE_ENTRY_BYTES), bytes(ENTRIES * QUEUE_ENTRY_BYTES)
WALKED, LACKS = "the log is read from", "not all of its queues"
# what is done to the files, and what is reported
HARMS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a zeroed entry": (lambda s: put(file(s, 1, 0), 20, NONE), WALKED),
    # the first entry that the search for a file's end looks at
    "a zeroed entry that bisection meets": (lambda s: put(file(s, 1, -1), 0, NONE), ""),
    "an entry that points nowhere": (
        lambda s: put(file(s, 0, 0), 30, b"\0\0\0\0\0\0\xff\xff\0\0\0\x70" + bytes(8)), WALKED),
    "an entry of another topic's record": (  # the first one of the log
        lambda s: put(file(s, 2, 0), 7, bytes(11) + b"\xc8" + bytes(8)), WALKED),
    "an entry of the record before": (_twice, WALKED),
    "a file of another queue": (lambda s: shutil.copyfile(file(s, 0, 0), file(s, 1, 0)), WALKED),
    "all behind": (lambda s: [put(file(s, q, -1), 0, ALL_NONE) for q in range(QUEUES)], ""),
    "one behind": (lambda s: put(file(s, 2, -1), 0, ALL_NONE), ""),
    "one empty": (lambda s: [p.write_bytes(ALL_NONE)
                             for p in (s / "consumequeue" / "Some" / "1").iterdir()], ""),
    "a first file gone": (lambda s: file(s, 0, 0).unlink(), "files before it are missing"),
    "a file cut": (lambda s: file(s, 0, -1).write_bytes(b"x" * 19), "is not that of the others"),
    "a queue gone": (lambda s: shutil.rmtree(s / "consumequeue/Some/1"), LACKS),
    "no queues": (lambda s: shutil.rmtree(s / "consumequeue"), LACKS),
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_wrong_with_the_queues_changes_no_row(harm: str, store: Path, caplog: Any) -> None:
    HARMS[harm][0](store)
    for parts in (1, 5):
        found, reported = asked(store, caplog, minPartitions=parts)
        assert found == places(store, subscribe="Some")
        assert HARMS[harm][1] in reported


def test_what_is_wrong_behind_some_rows_changes_no_row(store: Path, caplog, monkeypatch) -> None:
    wanted = places(store, subscribe="Some")
    raw, segment = file(store, 2, 0).read_bytes(), int(SETTINGS["mappedFileSizeCommitLog"])
    offsets = [int.from_bytes(raw[at : at + 8], "big") for at in range(0, len(raw), 20)]
    _twice(store, max(n for n, offset in enumerate(offsets) if offset < segment))
    monkeypatch.setattr("reput.udfs.table.log_parts.WINDOW_BYTES", 2048)
    found, reported = asked(store, caplog, minPartitions=1)
    assert found == wanted
    start = int(reported.partition("the log is read from ")[2].split()[0])
    assert wanted[3] < start < segment


def test_queues_of_another_log_are_not_believed(store: Path, caplog: Any, tmp_path: Path) -> None:
    other = make(tmp_path / "other", "SomeLongerName")
    shutil.rmtree(store / "consumequeue" / "Some")
    shutil.copytree(other / "consumequeue" / "SomeLongerName", store / "consumequeue" / "Some")
    found, reported = asked(store, caplog)
    assert found == places(store, subscribe="Some")
    assert "the log is walked, not the queues" in reported
