"""Answers are read once, as they are asked for; what is said of them is complete behind them."""

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import reput
from reput.jobs.opening.questions import Messages, Rows
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record import Record
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.query.reader import StoredMessage
from tests.built import write_log
from tests.logs import Message as Written
from tests.logs import build_log, properties
from tests.logs.encoder import HOST
from tests.memory_storage import MemoryStorage
from tests.processes import run_python
from tests.reference.log import Message
from tests.store_format.query.asked import NAMES, Asked, places
from tests.trees import contents


class Row(NamedTuple):
    topic: str
    messages: int


def message(number: int) -> StoredMessage:
    record = Record(
        b"T", 0, number, 100 * number, 97, 0, 0, 0, 0, 5, HOST, 7, HOST, 0, 0, 0, 2, b"KEYS\1a b\2",
    )  # fmt: skip
    return StoredMessage(record, False, lambda of: b"%d" % of.queue_offset)


def found(many: int, notes: Notes) -> Iterator[StoredMessage]:
    """They come with a note each, and read 10 bytes of the log."""
    notes.to_scan = 10 * many
    for number in range(many):
        notes.note(f"note {number}")
        notes.scanned += 10
        yield message(number)
    notes.cut = True


def test_messages_are_read_as_they_are_asked_for_and_only_once() -> None:
    notes = Notes()
    answer = Messages(found(3, notes), notes)
    assert (answer.notes, answer.cut, answer.scanned) == ([], False, (0, 0))
    assert next(iter(answer)).queue_offset == 0
    assert (answer.notes, answer.scanned) == (["note 0"], (10, 30))
    assert [each.queue_offset for each in answer] == [1, 2]
    assert list(answer) == []
    assert (answer.notes, answer.cut) == (["note 0", "note 1", "note 2"], True)
    assert answer.scanned == (30, 30)


def test_a_table_has_bodies_only_where_they_are_asked_for_and_rows_have_their_fields() -> None:
    notes = Notes()
    rows = Rows(iter([Row("A", 1), Row("B", 2)]), notes)
    assert rows == [("A", 1), ("B", 2)]
    assert rows.to_arrow().to_pydict() == {"topic": ["A", "B"], "messages": [1, 2]}
    notes.note("said later")
    assert rows.notes == ["said later"]
    notes = Notes()
    table = Messages(found(2, notes), notes).to_arrow()
    assert "body" not in table.column_names
    assert table["physicalOffset"].to_pylist() == [0, 100]
    assert table["keys"].to_pylist() == [["a", "b"]] * 2
    assert Messages(found(2, notes), notes).to_arrow(body=True)["body"].to_pylist() == [b"0", b"1"]
    assert Messages([], notes).to_arrow(body=True).num_rows == 0


# --- Messages by key, id, position and time, on RocketMQ's stores; the judge is the slow reference.
# That a broker and a client answer the same, tests/rocketmq/test_readers.py shows.
FIELDS = [
    "topic", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp",
    "storeHost", "bornHost", "tags", "keys", "uniqueKey", "properties", "flag", "sysFlag",
    "reconsumeTimes", "preparedTransactionOffset", "bodyCRC", "size",
]  # fmt: skip


@pytest.fixture(params=NAMES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Asked:
    return Asked(request.param, tmp_path)


@pytest.fixture
def small(tmp_path: Path) -> Asked:
    return Asked("small_all_5.3.3", tmp_path)


def same(found: StoredMessage, wanted: Message) -> bool:
    return (
        found.topic, found.queue_id, found.queue_offset, found.record.size, found.store_timestamp,
        found.record.sys_flag, found.properties, found.body(),
    ) == (
        wanted.topic, wanted.queue_id, wanted.queue_offset, wanted.size, wanted.store_timestamp,
        wanted.sys_flag, wanted.properties or {}, wanted.body,
    )  # fmt: skip


def test_every_key_finds_its_messages_in_the_logs_order(store: Asked) -> None:
    assert len(store.by_key) >= 20
    with store.open() as opened:
        for (topic, key), wanted in store.by_key.items():
            answer = opened.query(topic, key)
            found = list(answer)
            assert places(found) == wanted
            assert all(same(each, store.by_place[each.physical_offset]) for each in found)
            assert (answer.notes, answer.cut, answer.scanned) == ([], False, (0, 0))
        for (topic, key), wanted in list(store.by_key.items())[:20]:
            assert places(opened.query(topic, key, scan=True)) == wanted
        assert list(opened.query("no such topic", "k")) == []


def test_times_of_a_key_query_are_exact_and_a_limit_leaves_the_newest(small: Asked) -> None:
    (topic, key), wanted = max(small.by_key.items(), key=lambda item: len(item[1]))
    times = {place: small.by_place[place].store_timestamp for place in wanted}
    with small.open() as opened:
        for time in sorted(times.values()):
            for more in (-1, 0, 1):
                late = [place for place in wanted if times[place] >= time + more]
                early = [place for place in wanted if times[place] <= time + more]
                assert places(opened.query(topic, key, begin=time + more)) == late
                assert places(opened.query(topic, key, end=time + more)) == early
    (topic, key), wanted = max(small.by_key.items(), key=lambda item: len(item[1]))
    assert len(wanted) > 1
    with small.open() as opened:
        answer = opened.query(topic, key, most=1)
        assert places(answer) == wanted[-1:]
        assert (answer.cut, answer.notes) == (True, [f"cut: the newest 1 of {len(wanted)}"])
        answer = opened.query(topic, key, most=len(wanted))
        assert (places(answer), answer.cut, answer.notes) == (wanted, False, [])


def test_a_message_by_its_ids(small: Asked) -> None:
    with small.open() as opened:
        for message in small.messages[:20]:
            record = opened.message_at(message.physical_offset).record
            offset_id = (record.store_host + message.physical_offset.to_bytes(8, "big")).hex()
            answer = opened.by_message_id(offset_id)
            assert places(answer) == [message.physical_offset]
            assert f"physical offset {message.physical_offset}" in answer.notes[0]
            elsewhere = (b"\1\2\3\4" + record.store_host[4:]).hex() + offset_id[-16:]
            assert list(opened.by_message_id(elsewhere)) == []
            unique = message.property("UNIQ_KEY")
            if unique:
                wanted = [
                    each.physical_offset for each in small.messages
                    if each.property("UNIQ_KEY") == unique and each.transaction != 12
                ]  # fmt: skip
                assert places(opened.by_unique_key(unique)) == wanted
                answer = opened.by_message_id(unique.lower())
                assert places(answer) == wanted
                assert "client" in answer.notes[0]
        answer = opened.by_message_id("00" * 28)
        assert list(answer) == []
        assert "neither" in answer.notes[0]
        with pytest.raises(reput.StoreError, match="no message id"):
            list(opened.by_message_id("123"))


def test_an_arrow_table_has_the_rows_and_another_storage_answers_the_same(small: Asked) -> None:
    files = {f"s/{path}": raw for path, raw in contents(small.path).items()}
    with small.open() as local, reput.open_store("s", storage=MemoryStorage(files)) as opened:
        table = opened.messages().to_arrow(body=True)
        rows = [each.row() for each in local.messages()]
        for topic, key in list(small.by_key)[:10]:
            assert places(opened.query(topic, key)) == small.by_key[topic, key]
        assert opened.topics() == local.topics()
        assert opened.queues() == local.queues()
    assert table.column_names == [*FIELDS, "body"]
    found = [dict(row) for row in table.column("properties").to_pylist()]
    assert found == [row["properties"] for row in rows]
    assert table.column("physicalOffset").to_pylist() == [r["physicalOffset"] for r in rows]
    assert len(rows) == len(small.messages)


def test_a_scan_tells_how_far_it_is(small: Asked) -> None:
    stages: list[tuple[str, Callable[[], Done]]] = []

    class Heard(Progress):
        @contextmanager
        def stage(self, name: str, done: Callable[[], Done]) -> Iterator[None]:
            stages.append((name, done))
            yield

    with reput.open_store(str(small.path), progress=Heard()) as opened:
        list(opened.query(*next(iter(small.by_key))))
        assert stages == []  # the index answers
        for where in (None, opened.filter(sql="TAGS IS NOT NULL")):
            answer = opened.messages(scan=True, where=where)
            next(iter(answer))
            name, done = stages[-1]
            assert (name, done().share) == ("log", 0)
            list(answer)
            scanned, to_scan = answer.scanned
            last = small.messages[-1]
            assert scanned >= last.physical_offset + last.size - small.messages[0].physical_offset
            assert done().share == scanned / to_scan
            assert done().text == f"{scanned:,} of {to_scan:,} bytes read"
    assert len(stages) == 2


def tagged(small: Asked) -> tuple[str, str]:
    """A topic, and tags of its first message that has some."""
    return next(
        (each.topic, tags) for each in small.messages
        if each.transaction == 0 and (tags := each.property("TAGS")) and "||" not in tags
    )  # fmt: skip


def of_tags(small: Asked, topic: str, tags: str) -> list[int]:
    return [
        each.physical_offset for each in small.messages
        if (each.topic, each.property("TAGS")) == (topic, tags) and each.transaction in (0, 8)
    ]  # fmt: skip


def test_tags_are_asked_of_the_queue_first(small: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, tags = tagged(small)
    wanted = of_tags(small, topic, tags)
    read: list[int] = []
    record_at = LogReader.record_at

    def noted(log: LogReader, place: int) -> Any:
        read.append(place)
        return record_at(log, place)

    with small.open() as opened:
        where = opened.filter(tags=tags)
        list(opened.messages(topic))  # looks at the ends of queues and index
        monkeypatch.setattr(LogReader, "record_at", noted)
        found = places(opened.messages(topic, where=where))
        assert found == wanted
        ends = read[: len(read) - len(wanted)]
        assert sorted(read[len(ends) :]) == wanted
        (small.path / "consumequeue_ext" / topic).mkdir(parents=True)
        assert places(opened.messages(topic, where=where)) == wanted


def test_a_key_query_loads_neither_numba_nor_spark(small: Asked) -> None:
    """They take longer to load than a query may."""
    (topic, key), wanted = next(iter(small.by_key.items()))
    program = (
        "import sys\n"
        "from reput.jobs.cli import main\n"
        f"main(['query', {str(small.path)!r}, '--topic', {topic!r}, '--key', {key!r}, '--json'])\n"
        "heavy = {'numba', 'llvmlite', 'pyspark', 'pyarrow', 'pandas', 'yaml'}\n"
        "sys.exit(str(sorted(heavy & set(sys.modules))))\n"
    )
    done = run_python("-c", program)
    assert done.stderr == "[]\n"
    assert f'"physicalOffset": {wanted[0]}' in done.stdout


def test_a_rolled_back_message_is_found_by_no_key(tmp_path: Path) -> None:
    """IndexService.buildIndex leaves it out, so the log must not tell otherwise."""
    words = properties(("KEYS", "k"), ("UNIQ_KEY", "u"))
    messages = [
        Written(topic="T", queue_offset=n, properties=words, sys_flag=kind)
        for n, kind in enumerate((0x0, 0x4, 0x8, 0xC))
    ]
    write_log(tmp_path, build_log(messages, 4096, 0))
    with reput.open_store(str(tmp_path)) as opened:
        everything = places(opened.messages(scan=True))
        assert len(everything) == 4
        for found in (
            opened.query("T", "k"), opened.query("T", "u", scan=True), opened.by_unique_key("u"),
            opened.query_keys("T", ["k"]), opened.query_keys("T", ["u", "x"], scan=True),
        ):  # fmt: skip
            assert places(found) == everything[:3]


def test_an_index_behind_the_log_is_reported_and_the_rest_is_read(small: Asked) -> None:
    newest = max((small.path / "index").iterdir())
    newest.unlink()
    with small.open() as opened:
        for (topic, key), wanted in small.by_key.items():
            answer = opened.query(topic, key)
            assert places(answer) == wanted
            assert any("index does not have the log from" in note for note in answer.notes)


def test_a_queue_file_cut_short_is_reported_and_the_log_is_read(small: Asked) -> None:
    topic, queue_id = next(
        (each.topic, each.queue_id) for each in small.messages if each.transaction == 0
    )
    file = max((small.path / "consumequeue" / topic / str(queue_id)).iterdir())
    for length in (20, 21, 0):
        os.truncate(file, length)
        with small.open() as opened:
            answer = opened.messages(topic, queue_id)
            wanted = [each.physical_offset for each in small.queued(topic, queue_id)]
            assert places(answer) == wanted
            assert answer.notes
            # an empty last file is as good as none
            assert length == 0 or any("was cut: others" in note for note in answer.notes)


def test_a_closed_store_answers_no_more_and_a_message_equals_its_copy(small: Asked) -> None:
    with small.open() as store:
        first, *_ = store.messages()
        assert pickle.loads(pickle.dumps(first.record)) == first.record
        again, *_ = store.messages()
        assert (first == again, len({first, again})) == (True, 1)
    with pytest.raises(StoreError, match="was closed; open it again"):
        store.topics()
