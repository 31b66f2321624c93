"""What `reput stats` counts is what is counted one record after the other."""

import json
import re
from collections import Counter
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as some

from reput.jobs.cli import main
from reput.jobs.opening.questions import open_store
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.notes import Notes
from reput.store_format.query import counts as module
from reput.store_format.query.reader import NEWEST, OpenedStore
from reput.store_format.release.settings import zone_named
from tests import golden_stores
from tests.broker.writer.stores import stored_records
from tests.built import write_log
from tests.golden_stores import GoldenStore
from tests.in_process import as_text
from tests.logs.encoder import Message, build_log, properties

HOUR = 3_600_000
_PAIR = re.compile(rb"([^\x01\x02]+)\x01([^\x02]+)")


def slowly(commitlog: Path, batch: frozenset[str]) -> Counter[tuple[object, ...]]:
    """(topic, hour, group, size, what) -> sum, in the plainest way."""
    found: Counter[tuple[object, ...]] = Counter()
    for record in stored_records(commitlog):
        topic = record.topic
        named = {k: v.decode("utf-8", "replace") for k, v in _PAIR.findall(record.properties)}
        group = ""
        for text in (topic, named.get(b"REAL_TOPIC", "")):
            for prefix in ("%RETRY%", "%DLQ%"):
                if not group and text.startswith(prefix):
                    group = text.removeprefix(prefix)
        group = group or named.get(b"PGROUP", "")
        inner = named.get(b"INNER_NUM", "")
        many = int(inner) if topic in batch and inner.isdigit() and int(inner) else 1
        key = (
            topic, record.store_timestamp // HOUR * HOUR, group, 1 << record.size.bit_length() - 1
        )  # fmt: skip
        for what, value in (("records", 1), ("messages", many), ("bytes", record.size)):
            found[*key, what] += value
    return found


def counted(store: GoldenStore, by: tuple[str, ...]) -> list[module.Count]:
    with open_store(
        str(store.input), rocketmq=store.version, settings=as_text(store.settings)
    ) as opened:
        return list(opened.stats(by))


@pytest.mark.parametrize("name", ["mixed_5.3.3", "lmq_batch_5.3.3", "odd_4.9.7"])
def test_counts_are_those_of_one_record_after_the_other(name: str) -> None:
    store = golden_stores.unpack(name)
    batch = frozenset(
        n for n, about in store.topic_attributes.items() if about.get("queue.type") == "BatchCQ"
    )
    wanted = slowly(store.input / "commitlog", batch)
    found: Counter[tuple[object, ...]] = Counter()
    for row in counted(store, module.BY):
        key = row.topic, row.hour, row.group, row.size
        for what in ("records", "messages", "bytes"):
            found[*key, what] += getattr(row, what)
    assert found == wanted
    by_topic = counted(store, ("topic",))
    assert sum(row.bytes for row in by_topic) == sum(
        n for key, n in wanted.items() if key[-1] == "bytes"
    )
    assert [row.topic for row in by_topic] == sorted({str(key[0]) for key in wanted})


def a_log(to: Path) -> Path:
    """Retried, dead and half messages, over two hours, and one record of three messages."""
    at = 472_222 * HOUR + 100
    messages = [
        Message(topic="%RETRY%g", store_timestamp=at, body=b"r"),
        Message(topic="%DLQ%g", store_timestamp=at + 1000, body=b"d"),
        Message(topic="SCHEDULE_TOPIC_XXXX", store_timestamp=at + 2000,
                properties=properties(("REAL_TOPIC", "%RETRY%h"), ("DELAY", "3"))),
        Message(topic="RMQ_SYS_TRANS_HALF_TOPIC", store_timestamp=at + HOUR,
                properties=properties(("PGROUP", "makers"), ("REAL_TOPIC", "T"))),
        Message(topic="B", store_timestamp=at + HOUR, sys_flag=0x80,
                properties=properties(("INNER_NUM", "3"), ("INNER_BASE", "0"))),
        Message(topic="T", store_timestamp=at + HOUR, properties=properties(("INNER_NUM", "5"))),
    ]  # fmt: skip
    return write_log(to, build_log(messages, 4096))


def test_groups_and_inner_batches_and_spans_are_those_of_one_record_after_the_other(
    tmp_path,
) -> None:
    with open_store(str(a_log(tmp_path))) as store:
        groups = {row.group: row.records for row in store.stats(("group",))}
        assert groups == {"": 2, "g": 2, "h": 1, "makers": 1}
        messages = {row.topic: row.messages for row in store.stats(("topic",))}
        assert (messages["B"], messages["T"]) == (3, 1)
        first, second = store.stats(("hour",))
    assert (first.hour, second.hour) == (472_222 * HOUR, 472_223 * HOUR)
    assert first.messages_per_second == 3 / 3600
    assert second.bytes_per_second == second.bytes / 3600
    golden = golden_stores.unpack("mixed_5.3.3")
    found = counted_put(golden.input, as_text(golden.settings))
    wanted: Counter[tuple[str, int]] = Counter()
    sizes: Counter[int] = Counter()
    for record in stored_records(golden.input / "commitlog"):
        topic = record.topic
        wanted[topic, record.store_timestamp // found.width * found.width] += record.size
        sizes[1 << record.size.bit_length() - 1] += 1
    assert {(row.topic, row.begin): row.bytes for row in found.spans} == wanted
    assert {row.size: row.records for row in found.sizes} == sizes
    assert sum(row.bytes for row in found.topics) == sum(wanted.values())


def test_what_is_live_behind_damage_is_counted_and_damage_is_said(tmp_path, capsys) -> None:
    store = a_log(tmp_path / "store")
    (path,) = (store / "commitlog").iterdir()
    raw = bytearray(path.read_bytes())
    with open_store(str(store)) as opened:
        whole = sum(row.records for row in opened.stats(("topic",)))
    raw[raw.index(bytes.fromhex("daa320a7"), 100)] ^= 1  # of the second record
    path.write_bytes(raw)
    assert main(["stats", str(store), "--json"]) == 1
    out, err = capsys.readouterr()
    assert sum(json.loads(line)["records"] for line in out.splitlines()) == whole - 1
    assert "magic" in err
    assert "live records behind it are read" in err


def test_a_table_json_and_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(a_log(tmp_path / "store"))
    assert main(["stats", store, "--by", "topic,hour"]) == 0
    table = capsys.readouterr().out
    assert "%RETRY%g" in table
    assert "messages/s" in table
    assert main(["stats", store, "--by", "topic,hour", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["topic"] for row in rows] == sorted(row["topic"] for row in rows)
    file = tmp_path / "puts.parquet"
    assert main(["stats", store, "--by", "topic,hour", "--output", str(file)]) == 0
    found = pq.read_table(file)
    assert found.column("bytes").to_pylist() == [row["bytes"] for row in rows]
    assert str(found.schema.field("hour").type) == "timestamp[ms, tz=UTC]"
    assert main(["stats", store, "--output", str(file)]) != 0
    inside = tmp_path / "store" / "commitlog" / "x.parquet"
    assert main(["stats", store, "--output", str(inside)]) != 0
    assert not inside.exists()
    with pytest.raises(SystemExit):
        main(["stats", store, "--by", "color"])


_NUMBER = some.integers(-3, 3) | some.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 61, 1 << 33])


@given(some.lists(some.tuples(_NUMBER, _NUMBER, _NUMBER), min_size=1, max_size=99))
def test_rows_of_equal_values_are_added_up(rows) -> None:
    counted, records = np.zeros(len(rows), module.COUNTED), np.zeros(len(rows), RECORD_ROW)
    counted["topic"], counted["group"], counted["size"] = np.array(rows, np.int64).T
    counted["messages"], records["size"] = np.arange(len(rows)), 7
    records["storeTimestamp"] = np.arange(len(rows)) - 5
    sums = module.CountSums(("topic", "group", "size"))
    sums.add(records, counted, lambda _, value: value)
    wanted: dict[tuple[int, ...], list[int]] = {}
    for n, row in enumerate(rows):
        one = wanted.setdefault(row, [0, 0, 0, n - 5, n - 5])
        one[:3] = one[0] + 1, one[1] + n, one[2] + 7
        one[4] = n - 5
    assert sums.found == wanted


# --- Messages by topic and time are those counted one after the other, in spans that fit.
AT = 1_700_000_000_000


def counted_put(store: Path, settings: dict[str, str] | None = None) -> module.PutTimes:
    with OpenedStore(Folder(LocalStorage(), str(store)), NEWEST, settings or {}, Notes()) as opened:
        sums = module.PutSums(True, [])
        for step in opened.log.steps_past_damage(lambda _: None):
            if len(step.rows):
                sums.count(step)
        return sums.times()


def store_of(messages: list[Message], to: Path) -> Path:
    return write_log(to, build_log(messages, 1 << 20))


@pytest.mark.parametrize(
    ("apart", "width"), [(10, 1), (1000, 5), (60_000, 300), (3_600_000, 21_600), (10**10, 60 << 40)]
)
def test_spans_grow_with_the_log(tmp_path: Path, apart: int, width: int) -> None:
    """1,000 messages so many milliseconds apart: hundreds of spans at most, and none is lost."""
    messages = [Message(topic=f"T{n % 3}", store_timestamp=AT + n * apart) for n in range(1000)]
    found = counted_put(store_of(messages, tmp_path))
    begins = {row.begin for row in found.spans}
    assert len(begins) <= module.SPANS_MOST
    assert sum(row.messages for row in found.spans) == 1000
    assert all(begin % found.width == 0 for begin in begins)
    if apart < 10**9:
        assert found.width == width * 1000
    parts = [module.PutSums(True, []) for _ in range(4)]  # of which each has other lengths of spans
    with OpenedStore(Folder(LocalStorage(), str(tmp_path)), NEWEST, {}, Notes()) as opened:
        for step in opened.log.steps(0):
            for n, part in enumerate(parts[1:]):
                part.count(step._replace(rows=step.rows[(0, 10, 300)[n] : (10, 300, None)[n]]))
    for part in parts[1:]:
        parts[0].take(*part.parts())
    assert parts[0].times() == found


def test_many_topics_at_many_times_stay_few_rows_and_a_time_past_the_calendar_has_a_day(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(module, "_KEYS_MOST", 150)
    messages = [
        Message(topic=f"T{n % 100}", store_timestamp=AT + n % 7 * 3_600_000) for n in range(2000)
    ]
    found = counted_put(store_of(messages, tmp_path))
    assert len(found.spans) <= 150
    assert len(found.topics) == 100
    assert sum(row.messages for row in found.spans) == 2000
    assert (module._begin("day", (1 << 62) + 7, zone_named("+8"))
            == (1 << 62) // (24 * HOUR) * 24 * HOUR)  # fmt: skip


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@pytest.mark.parametrize(("zone", "time", "day", "hour"), [
    ("UTC", "2026-01-31T23:59:59.999Z", "2026-01-31T00:00Z", "2026-01-31T23:00Z"),
    ("Asia/Kolkata", "2026-01-31T18:45Z", "2026-01-31T18:30Z", "2026-01-31T18:30Z"),
    # an hour that comes twice; a midnight that does not come, one that comes twice
    ("America/New_York", "2026-11-01T05:30Z", "2026-11-01T04:00Z", "2026-11-01T05:00Z"),
    ("America/New_York", "2026-11-01T06:30Z", "2026-11-01T04:00Z", "2026-11-01T06:00Z"),
    ("America/Sao_Paulo", "2018-11-04T03:20Z", "2018-11-04T03:00Z", "2018-11-04T03:00Z"),
    ("Atlantic/Azores", "2026-10-25T01:20Z", "2026-10-25T00:00Z", "2026-10-25T01:00Z"),
])  # fmt: skip
def test_a_day_begins_at_a_zones_midnight(zone: str, time: str, day: str, hour: str) -> None:
    begins = [module._begin(way, ms(time), zone_named(zone)) for way in ("day", "hour")]
    assert begins == [ms(day), ms(hour)]
