"""The source's rows are exactly the log's messages, however the log is cut."""

import json
import struct
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from reput.jobs.sources.log_source import CommitLogSource, LogStream
from reput.store_format.faults import SALVAGE, StoreChanged, StoreError
from reput.udfs.table.columns import SCHEMA
from tests import golden_stores
from tests.damaged import START, Damaged, damaged, messages
from tests.jobs.sources.reading import places, table, up_to, write
from tests.logs.batches import BATCH_QUEUE, batches
from tests.logs.encoder import Message, build_log, encode, properties
from tests.logs.fields import BATCH_TOPIC
from tests.reference.log import Walk
from tests.reference.rules import Rules, parse_version

STORES = ("mixed_4.1.0", "mixed_5.5.0", "small_odd_4.9.7", "small_lmq_batch_5.5.0", "odd_5.3.3",
          "small_expired_5.3.3", "torn_tail_5.3.3")  # fmt: skip


@pytest.fixture
def log() -> Damaged:
    return damaged(messages(60))


def reference(name: str) -> tuple[golden_stores.GoldenStore, list[Any]]:
    store = golden_stores.unpack(name)
    rules = Rules(parse_version(store.version), store.settings, store.topic_attributes)
    with store.segments() as segments:
        return store, list(Walk(segments, rules))


@pytest.mark.parametrize("name", STORES)
def test_a_golden_store_has_the_rows_of_the_slow_reference(name: str) -> None:
    store, wanted = reference(name)
    found = table(store.input, rocketmq=store.version)
    assert found.schema.names == SCHEMA.names
    rows = found.to_pylist()
    assert [row["physicalOffset"] for row in rows] == [m.physical_offset for m in wanted]
    for row, message in zip(rows, wanted, strict=True):
        known = message.properties or {}
        assert dict(row["properties"]) == known
        assert len(row["properties"]) == len(known)
        assert row["keys"] == [word for word in known.get("KEYS", "").split(" ") if word]
        assert (row["topic"], row["queueId"], row["queueOffset"]) == (
            message.topic, message.queue_id, message.queue_offset)  # fmt: skip
        assert (row["size"], row["sysFlag"], row["storeTimestampMillis"], row["body"]) == (
            message.size, message.sys_flag, message.store_timestamp, message.body)  # fmt: skip
        assert (row["tags"], row["uniqueKey"]) == (known.get("TAGS"), known.get("UNIQ_KEY"))


def test_any_cut_gives_the_same_rows() -> None:
    store = golden_stores.unpack("mixed_5.3.3")
    whole = table(store.input, rocketmq="5.3.3", minPartitions=1)
    for parts in (2, 7, 64):
        assert table(store.input, rocketmq="5.3.3", minPartitions=parts).equals(whole)


V6 = bytes(range(0x20, 0x30)) + struct.pack(">i", -7)
ODD = [
    Message(topic="T", properties=properties(("A", "1"), ("B", "2"), ("A", "3"))),
    Message(topic=b"\xed\xa0\x80\xff",
            properties=properties((b"\xc3", b"\xe4\xb8"), ("TAGS", "t"))),
    Message(properties=properties(*((f"n{i}", f"v{i}") for i in range(70)))),
    Message(properties=b"\x01x\x02a\x01\x02noise\x02KEYS\x01 a  b \x02x\x01y\x01z"),
    Message(sys_flag=0x30, born_host=V6, store_host=bytes(16) + struct.pack(">i", 80)),
    Message(born_host=b"\xff\x00\x01\x0a" + struct.pack(">i", -(1 << 31)), flag=-5),
    Message(store_timestamp=(1 << 63) - 1, born_timestamp=-(1 << 63)),
    Message(topic="亚洲", body=bytes(range(256)), reconsume_times=3,
            prepared_transaction_offset=1 << 40, properties=properties(("区", "😀"))),
]  # fmt: skip


def test_odd_records_are_rows_as_java_reads_them(tmp_path: Path) -> None:
    log = damaged(ODD)
    rows = table(write(log.log, tmp_path), rocketmq="5.3.3").to_pylist()
    assert [row["physicalOffset"] for row in rows] == log.places
    assert sorted(rows[0]["properties"]) == [("A", "3"), ("B", "2")]
    assert rows[1]["topic"] == "\ufffd\ufffd"
    assert dict(rows[1]["properties"]) == {"\ufffd": "\ufffd", "TAGS": "t"}
    assert len(rows[2]["properties"]) == 70
    assert dict(rows[3]["properties"]) == {"KEYS": " a  b ", "x": "y\x01z"}
    assert rows[3]["keys"] == ["a", "b"]
    assert rows[4]["bornHost"] == "[2021:2223:2425:2627:2829:2a2b:2c2d:2e2f]:-7"
    assert rows[4]["storeHost"] == "[::]:80"
    assert (rows[5]["bornHost"], rows[5]["flag"]) == ("255.0.1.10:-2147483648", -5)
    assert (rows[6]["storeTimestamp"], rows[6]["bornTimestamp"]) == (None, None)
    assert rows[6]["storeTimestampMillis"] == (1 << 63) - 1
    assert (rows[7]["topic"], dict(rows[7]["properties"])) == ("亚洲", {"区": "😀"})
    assert (rows[7]["body"], rows[7]["reconsumeTimes"]) == (bytes(range(256)), 3)
    assert rows[7]["preparedTransactionOffset"] == 1 << 40


def test_properties_up_to_490_are_split_as_java_splits(tmp_path: Path) -> None:
    odd = Message(properties=b"a\x01b\x01\x02\x01x\x02c\x01d\x01e\x02f\x01\x02g\x01h")
    store = write(damaged([odd]).log, tmp_path)
    (old,) = table(store, rocketmq="4.9.0", columns="properties")["properties"].to_pylist()
    assert dict(old) == {"a": "b", "": "x", "g": "h"}
    (new,) = table(store, rocketmq="4.9.1", columns="properties")["properties"].to_pylist()
    assert dict(new) == {"a": "b\x01", "c": "d\x01e", "g": "h"}


def test_a_record_in_a_body_is_no_row(tmp_path: Path) -> None:
    """Its magic and physicalOffset are right, so that only the walk tells that it is none."""
    first = Message(body=b"x" * 50)
    inner_at = len(encode(first, 0)) + 88  # where the next one's body begins
    inner = encode(Message(topic="forged"), inner_at)
    log = damaged([first, Message(body=inner), Message(body=b"y")])
    assert log.segments[0][inner_at : inner_at + len(inner)] == inner
    store = write(log.log, tmp_path)
    for parts in (1, 2, 3, 5, 9, 40):
        assert places(store, minPartitions=parts) == log.places


def test_a_body_longer_than_a_window_is_whole(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("reput.udfs.table.log_parts.WINDOW_BYTES", 512)
    log = damaged([Message(body=b"a"), Message(body=bytes(range(256)) * 8), Message(body=b"c")])
    found = table(write(log.log, tmp_path), columns="body,topic")
    assert found["body"].to_pylist() == [message.body for message in log.messages]


def test_damage_that_live_records_follow_fails_and_says_where(log: Damaged, tmp_path: Path) -> None:
    log.flip(5, 0)  # totalSize
    store = write(log.log, tmp_path)
    said = rf"offset {log.places[5]} .*onDamage .*skip leaves.*salvage"
    with pytest.raises(Exception, match=said):
        places(store)
    segment = log.places[5] // 4096 * 4096
    kept = [p for p in log.places if p < log.places[5] or p >= segment + 4096]
    assert places(store, onDamage="skip") == kept
    for parts in (1, 3, 40):
        found = places(store, onDamage=SALVAGE, minPartitions=parts)
        assert found == [p for p in log.places if p != log.places[5]]


def test_a_flipped_bit_in_a_body_is_found_where_bodies_are_read(tmp_path: Path) -> None:
    log = damaged(messages(20))
    log.flip(3, 90)
    store = write(log.log, tmp_path)
    with pytest.raises(Exception, match="bodyCRC does not match"):
        table(store)
    assert places(store) == log.places
    rest = [p for p in log.places if p != log.places[3]]
    assert table(store, onDamage="skip")["physicalOffset"].to_pylist() == rest
    assert table(store, onDamage=SALVAGE)["physicalOffset"].to_pylist() == log.places
    assert table(store, checkBodyCRC="false")["physicalOffset"].to_pylist() == log.places


def test_a_lost_page_in_the_midst_is_damage_and_not_the_end(tmp_path: Path) -> None:
    log = damaged(messages(20))
    log.put(log.places[4], bytes(log.size(4)))
    store = write(log.log, tmp_path)
    with pytest.raises(Exception, match="live records may follow"):
        places(store)
    assert places(store, onDamage=SALVAGE) == [p for p in log.places if p != log.places[4]]


def test_a_sound_segment_after_a_clock_set_back_is_kept_however_it_is_cut(tmp_path: Path) -> None:
    whole = damaged(messages(40))
    back = [m if place < 4096 else replace(m, queue_offset=0, store_timestamp=START - 10_000_000)
            for m, place in zip(whole.messages, whole.places, strict=True)]  # fmt: skip
    log = damaged(back)
    assert log.places == whole.places
    assert log.places[-1] > 4096
    store = write(log.log, tmp_path)
    for parts in (1, 3, 40):
        assert places(store, onDamage=SALVAGE, minPartitions=parts) == log.places


def test_batches_go_on_from_the_last_message_of_the_segment_before(tmp_path: Path) -> None:
    made = batches([5] * 40, START)
    first = sum(place < 4096 for place in damaged(made).places)
    log = damaged([m if n < first else replace(m, store_timestamp=START - 10_000 + n)
                   for n, m in enumerate(made)])  # fmt: skip
    log.flip(first + 5, 5)
    store = write(log.log, tmp_path)
    (store / "config").mkdir()
    topic = {BATCH_TOPIC: {"topicName": BATCH_TOPIC, "attributes": BATCH_QUEUE[BATCH_TOPIC]}}
    (store / "config/topics.json").write_text(json.dumps({"topicConfigTable": topic}))
    wanted = [at for n, at in enumerate(log.places) if n != first + 5]
    assert places(store, onDamage=SALVAGE) == wanted


def test_a_later_segment_behind_zeros_is_damage(log: Damaged, tmp_path: Path) -> None:
    last = [n for n, place in enumerate(log.places) if place < 4096][-1]
    log.put(log.places[last], bytes(4096 - log.places[last]))
    with pytest.raises(Exception, match="a later segment is written"):
        places(write(log.log, tmp_path))


def test_rows_are_chosen_by_topic_time_and_place(tmp_path: Path) -> None:
    made = [Message(topic=topic, queue_offset=n, store_timestamp=1_700_000_000_000 + n)
            for n, topic in enumerate(("Orders", "Orders2", "Pay", "Orders", "Pay"))]  # fmt: skip
    log = damaged(made)
    store = write(log.log, tmp_path)
    at = log.places
    assert places(store, subscribe="Pay, Orders") == [at[0], at[2], at[3], at[4]]
    assert places(store, subscribePattern="Orders.?") == [at[0], at[1], at[3]]
    assert places(store, startingTimestamp=1_700_000_000_003) == at[3:]
    assert places(store, endingTimestamp=1_700_000_000_003) == at[:3]
    assert places(store, startingOffsets=at[1] + 1, endingOffsets=at[3] + 1) == at[2:4]
    assert places(store, subscribe="None") == []


def test_nothing_before_the_first_segment_is_asked_for(tmp_path: Path) -> None:
    segments = build_log(messages(30), 4096, first_offset=8192)
    for start, content in segments.items():
        (tmp_path / "commitlog").mkdir(exist_ok=True)
        (tmp_path / "commitlog" / f"{start:020d}").write_bytes(content)
    with pytest.raises(Exception, match="8,192 bytes were deleted"):
        places(tmp_path, startingOffsets=0)
    assert places(tmp_path, startingOffsets=0, failOnDataLoss="false") == places(tmp_path)
    assert len(places(tmp_path)) == 30


def test_rows_as_spark_has_them_of_kafka(tmp_path: Path) -> None:
    given = messages(6)
    given[1] = replace(given[1], properties=properties(("UNIQ_KEY", "u"), ("KEYS", "k1")))
    given[2] = replace(given[2], properties=b"")
    store = write(damaged(given).log, tmp_path)
    rows = table(store, schema="kafka").to_pylist()
    assert [row["key"] for row in rows] == [b"k0", b"u", None, b"k3", b"k4", b"k5"]
    assert rows[1] == {
        "key": b"u", "value": b"body 001", "topic": "T", "partition": 1, "offset": 0,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 1000, UTC), "timestampType": 1,
        "headers": [{"key": "UNIQ_KEY", "value": b"u"}, {"key": "KEYS", "value": b"k1"}],
    }  # fmt: skip
    assert rows[2]["headers"] == []
    few = table(store, schema="kafka", columns="offset,partition")
    assert few.column_names == ["offset", "partition"]


@pytest.mark.parametrize(("options", "wanted"), [
    ({"startingOffsets": {"T": {"0": 3, "2": -2}}}, lambda q, o, at: q or o >= 3),
    ({"endingOffsets": {"T": {"0": 3, "1": -1}}}, lambda q, o, at: q or o < 3),
    ({"assign": {"T": [0, 2]}}, lambda q, o, at: q != 1),
    ({"assign": {"U": [0]}}, lambda q, o, at: False), ({"assign": {}}, lambda q, o, at: False),
    ({"assign": {"T": [1]}, "startingOffsets": {"T": {"1": 2}},
      "endingOffsets": {"T": {"1": 4}}}, lambda q, o, at: q == 1 and 2 <= o < 4),
    ({"startingOffsetsByTimestamp": {"T": {"1": START + 30}}}, lambda q, o, at: q != 1 or at >= 30),
    ({"endingOffsetsByTimestamp": {"T": {"1": START + 30}}, "subscribe": "T"},
     lambda q, o, at: q != 1 or at < 30),
    ({"startingOffsets": {"other": {"0": 9}}}, lambda q, o, at: True)])  # fmt: skip
def test_queues_begin_and_end_as_kafkas_options_say(log, options, wanted, tmp_path) -> None:
    store = write(log.log, tmp_path)
    given = {n: v if isinstance(v, str) else json.dumps(v) for n, v in options.items()}
    at = [place for n, place in enumerate(log.places) if wanted(n % 3, n // 3, n)]
    assert places(store, **given) == at


# --- The source as a stream: a log that grows, limits, checkpoints, a log that is cleaned.
ALL = ReadAllAvailable()
Offset = dict[str, int]


def stream(store: Path, **options: Any) -> LogStream:
    given = {"path": str(store), "columns": "physicalOffset"}
    source = CommitLogSource({**given, **{n: str(v) for n, v in options.items()}})
    return source.streamReader(source.schema())


def rows(reader: LogStream, start: Offset, end: Offset) -> list[int]:
    parts = reader.partitions(start, end)
    return [place for part in parts for batch in reader.read(part)
            for place in batch["physicalOffset"].to_pylist()]  # fmt: skip


def drained(reader: LogStream, start: Offset, limit: ReadLimit = ALL) -> list[list[int]]:
    """Batch after batch until none comes."""
    found = []
    while (end := reader.latestOffset(start, limit)) != start:
        found.append(rows(reader, start, end))
        start = end
    return found


def flat(batches: list[list[int]]) -> list[int]:
    return [place for batch in batches for place in batch]


def test_a_growing_log_is_followed_record_by_record(log: Damaged, tmp_path: Path) -> None:
    """One whose end is not written yet waits, be it its last byte that lacks."""
    reader = stream(write(up_to(log, 1), tmp_path))
    at = reader.initialOffset()
    found: list[int] = []
    torn = {2: log.size(2) - 1, 25: 50}
    for count in (1, 2, 3, 3, 25, 26, 60):
        write(up_to(log, count, torn=torn.get(count, 0)), tmp_path)
        end = reader.latestOffset(at, ALL)
        found += rows(reader, at, end)
        assert found == log.places[:count]
        at = end
    assert reader.reportLatestOffset() == {"physicalOffset": at["physicalOffset"]}


def test_a_limit_parts_the_log_and_loses_nothing(log: Damaged, tmp_path: Path) -> None:
    reader = stream(write(log.log, tmp_path), maxOffsetsPerTrigger=7)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    found = drained(reader, reader.initialOffset(), limit)
    assert [len(batch) for batch in found] == [7] * 8 + [4]
    assert flat(found) == log.places
    assert [len(each) for each in drained(reader, reader.initialOffset())] == [60]


def test_available_now_ends_where_the_log_ended(log: Damaged, tmp_path: Path) -> None:
    reader = stream(write(up_to(log, 10), tmp_path))
    reader.prepareForTriggerAvailableNow()
    write(log.log, tmp_path)
    found = drained(reader, reader.initialOffset(), ReadMaxRows(4))
    assert found == [log.places[:4], log.places[4:8], log.places[8:10]]


def test_a_batch_is_the_same_again_from_its_checkpoint(log: Damaged, tmp_path: Path) -> None:
    store = write(up_to(log, 20), tmp_path)
    reader = stream(store)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    write(log.log, tmp_path)
    again = stream(store)
    assert rows(again, start, end) == rows(reader, start, end) == log.places[:20]
    assert flat(drained(again, end)) == log.places[20:]


def test_where_a_stream_starts(log: Damaged, tmp_path: Path) -> None:
    store = write(log.log, tmp_path)
    latest = stream(store, startingOffsets="latest").initialOffset()
    assert latest == stream(store).latestOffset(stream(store).initialOffset(), ALL)
    within = stream(store, startingOffsets=log.places[30] - 1)
    assert within.initialOffset()["physicalOffset"] == log.places[30]
    assert flat(drained(within, within.initialOffset())) == log.places[30:]


def test_a_log_cleaned_under_the_reader_is_reported(log: Damaged, tmp_path: Path) -> None:
    store = write(log.log, tmp_path)
    start = stream(store).initialOffset()
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    said = r"begins at 4096: 4,096 bytes were deleted.*failOnDataLoss"
    with pytest.raises(StoreError, match=said):
        stream(store).latestOffset(start, ALL)
    loose = stream(store, failOnDataLoss="false")
    assert flat(drained(loose, start)) == [p for p in log.places if p >= 4096]


def test_a_segment_that_goes_between_plan_and_task_is_reported(log, tmp_path) -> None:
    store = write(log.log, tmp_path)
    for loss in ("true", "false"):
        write(log.log, tmp_path)
        reader = stream(store, failOnDataLoss=loss)
        start = reader.initialOffset()
        parts = reader.partitions(start, reader.latestOffset(start, ALL))
        (tmp_path / "commitlog" / f"{0:020d}").unlink()
        if loss == "true":
            with pytest.raises(StoreChanged):
                list(reader.read(parts[0]))
        else:
            assert list(reader.read(parts[0])) == []


def test_another_log_in_the_place_of_the_first_is_reported(tmp_path: Path) -> None:
    """Whether it is shorter or longer."""
    first = damaged(messages(20))
    store = write(first.log, tmp_path)
    with pytest.raises(StoreError, match="it is another log, or was cut"):
        stream(store).latestOffset({"physicalOffset": 1 << 20}, ALL)
    at = stream(store).latestOffset(stream(store).initialOffset(), ALL)
    other = damaged([replace(each, body=each.body[::-1] + b"x") for each in messages(60)])
    write(other.log, store)
    last = {"physicalOffset": other.places[-1]}
    for asked in (partial(stream(store).latestOffset, at, ALL),
                  partial(stream(store).partitions, at, last)):  # fmt: skip
        with pytest.raises(StoreError, match="is not what was read: this is another log"):
            asked()
    write(damaged(messages(60)).log, store)
    for start in (at, {"physicalOffset": at["physicalOffset"]}):  # as releases before wrote it
        assert flat(drained(stream(store), start)) == damaged(messages(60)).places[20:]


def test_damage_that_live_records_follow_ends_the_stream(log: Damaged, tmp_path: Path) -> None:
    last = [n for n, place in enumerate(log.places) if place >= log.places[-1] // 4096 * 4096]
    log.flip(last[2], 0)
    store = write(log.log, tmp_path)
    with pytest.raises(StoreError, match=f"offset {log.places[last[3]]}"):
        stream(store).latestOffset(stream(store).initialOffset(), ALL)
    salvaged = stream(store, onDamage="salvage")
    found = flat(drained(salvaged, salvaged.initialOffset()))
    assert found == [p for p in log.places if p != log.places[last[2]]]


def test_a_store_is_asked_what_it_is_only_once(log, tmp_path, monkeypatch) -> None:
    """Spark asks for the latest offset many times a second."""
    reader = stream(write(up_to(log, 10), tmp_path))
    at = reader.latestOffset(reader.initialOffset(), ALL)
    monkeypatch.setattr("reput.jobs.sources.opened_log.plan_of", None)
    write(log.log, tmp_path)
    end = reader.latestOffset(at, ALL)
    assert rows(reader, at, end) == log.places[10:]
