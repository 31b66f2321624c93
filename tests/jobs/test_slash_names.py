"""LMQs whose names have slashes: brokers up to 5.1.1 wrote folders in folders (#6747)."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.cli import main
from reput.jobs.rebuild import rebuild
from reput.store_format.derived.queues import FileQueues
from reput.store_format.discover.config import consumer_offsets
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.names import UnsafeName, check_queue_topic, parse_queue_path
from reput.store_format.notes import Notes
from tests.built import write_log
from tests.damaged import SETTINGS, START, Damaged, damaged
from tests.in_process import STORE, Session, as_text, storage_of
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage

GIVEN = as_text({**SETTINGS, "enableLmq": True, "enableMultiDispatch": True})
SLASH, DEEP, PLAIN = "%LMQ%test/1", "%LMQ%test/1/0/x", "%LMQ%plain"
NAMES = (SLASH, DEEP, PLAIN)
COUNT = 12


def log_of(*names: str) -> Damaged:
    def multi(n: int) -> bytes:
        return properties(
            ("KEYS", f"k{n}"), ("INNER_MULTI_DISPATCH", ",".join(names)),
            ("INNER_MULTI_QUEUE_OFFSET", ",".join([str(n)] * len(names))))  # fmt: skip

    return damaged([Message("T", 0, n, b"body", store_timestamp=START + n, properties=multi(n))
                    for n in range(COUNT)])  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    log = log_of(*NAMES)
    root = write_log(tmp_path / "store", {a: bytes(s) for a, s in log.segments.items()})
    summary = rebuild(
        Session(), str(root), str(tmp_path / "set"), rocketmq="4.9.7", settings=GIVEN)  # fmt: skip
    assert summary.left_out == []
    assert main(["install", str(tmp_path / "set"), str(root), "--yes"]) == 0
    return root


def words(*said: Any) -> list[str]:
    given = [word for name, value in GIVEN.items() for word in ("--set", f"{name}={value}")]
    return [*map(str, said), "--rocketmq", "4.9.7", *given]


def test_it_is_read_as_such_and_known_for_what_no_broker_starts_on(store: Path, capsys) -> None:
    for name in NAMES:
        assert (store / "consumequeue" / name / "0" / f"{0:020d}").is_file()
    queues = FileQueues(Folder(LocalStorage(), str(store)), lambda _: 0)
    assert queues.topics() == sorted([*NAMES, "T"])
    for name in NAMES:
        assert FileQueues(Folder(LocalStorage(), str(store)), lambda _: 0).of(name) == [(0, False)]
        assert queues.open(name, 0, False).maximum() == COUNT
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert main(words("verify", store)) == 0
    assert main(words("recover", store, "--yes")) == 0
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before
    capsys.readouterr()
    assert main(["queues", str(store), "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["topic"], row["messages"]) for row in rows] == [
        (name, COUNT) for name in sorted([*NAMES, "T"])
    ]
    report = check(Session(), str(store), rocketmq="4.9.7", settings=GIVEN)
    (found,) = report.findings
    assert (report.differences, report.sound) == ([], False)
    assert found.path.endswith(f"consumequeue/{SLASH}/0")
    assert "does not start" in found.reason
    assert main(["check", str(store), "-v"]) == 1
    assert "slash in its name (up to 5.1.1)" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["repair", "convert"])
def test_what_keeps_it_is_no_store_to_start_on(command: str, store: Path, tmp_path, capsys) -> None:
    to = ["--output", tmp_path / "copy"]
    assert main(words(command, store, *to)) == 1
    said = capsys.readouterr().out
    assert f"next      consumequeue/{SLASH}/0: the queue of an LMQ with a slash" in said
    assert "start a broker" not in said
    assert (
        main(words("convert", store, "--to-rocketmq", "5.3.3", "--output", tmp_path / "new")) == 0
    )


def test_a_crashed_store_is_recovered(store: Path) -> None:
    queue = store / "consumequeue" / DEEP / "0" / f"{0:020d}"
    before = queue.read_bytes()
    queue.write_bytes(before[:100] + bytes(len(before) - 100))
    (store / "abort").touch()
    assert main(words("recover", store, "--yes")) == 0
    assert queue.read_bytes() == before


@pytest.mark.parametrize("name", ["%LMQ%../../../evil", "%LMQ%a/./b", "a/b", "%LMQ%a/"])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsafeName):
        check_queue_topic(name)
    root = write_log(tmp_path / "store", {a: bytes(s) for a, s in log_of(name).segments.items()})
    summary = rebuild(
        Session(), str(root), str(tmp_path / "set"), rocketmq="4.9.7", settings=GIVEN)  # fmt: skip
    if name.startswith("%LMQ%"):
        assert name in summary.left_out[0]
    assert sorted(each.name for each in (tmp_path / "set/consumequeue").iterdir()) == ["T"]


def test_a_later_release_makes_no_such_queue(tmp_path: Path) -> None:
    storage = storage_of(log_of(*NAMES).log)
    summary = rebuild(
        Session(), STORE, "output", rocketmq="5.3.3", settings=GIVEN, storage=storage)  # fmt: skip
    assert summary.queues == 2
    assert parse_queue_path(f"consumequeue/{DEEP}/0") == ("consumequeue", DEEP, 0)
    assert parse_queue_path("batchconsumequeue/T/-1") == ("batchconsumequeue", "T", -1)


def test_offsets_of_lmq_groups_are_read() -> None:
    own = {"offsetTable": {"T@g": {"0": 3}, "U@g": {"0": 1}}}
    light = {"offsetTable": {"T@g": {"0": 5}}, "lmqOffsetTable": {f"{SLASH}@%LMQ%c": 7}}
    files = {"consumerOffset.json": own, "lmqConsumerOffset.json": light}
    storage = MemoryStorage(
        {f"{STORE}/config/{name}": json.dumps(table).encode() for name, table in files.items()}
    )
    notes = Notes()
    found = consumer_offsets(Folder(storage, STORE), notes)
    assert found == {("g", "T"): {0: 5}, ("g", "U"): {0: 1}, ("%LMQ%c", SLASH): {0: 7}}
    assert ("1 groups of a topic have other offsets there, 1 are in consumerOffset.json alone"
            in (notes.lines[0]))  # fmt: skip
