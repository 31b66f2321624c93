"""Messages of another log appended to this one: which, in what order, and up to its first fault."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.writer import copies, recovery
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import Fault
from reput.store_format.files.disk import DiskFiles
from reput.store_format.layouts import SYS_TRANSACTION_COMMIT
from reput.store_format.log import record as log_record
from reput.store_format.log.reader import NoRecord, NotInLog
from reput.store_format.log.record import Record
from reput.store_format.log.records import RecordRules
from reput.store_format.message.message import Message as RecordsMessage
from reput.store_format.message.refusals import Refused, TopicTooLong, TopicUnsafe
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from, writer_settings_from
from tests import golden_stores
from tests.broker.services.stores import disk, opened
from tests.broker.writer.stores import RULES, Clock, as_message, open_writer, stored_records
from tests.logs.encoder import Message, build_log, encode, properties

SEGMENT = 512
ALL = copies.CopyChoice()
START = 1_700_000_000_000
HOST = bytes((10, 1, 2, 3, 0, 0, 0x2A, 0x9F))
MADE = [Message("TU"[n % 2], 3, 40 + n, b"body %d" % n, properties(("KEYS", f"k{n}")),
                START + 1000 * n, flag=n, born_timestamp=START - n, born_host=HOST, store_host=HOST,
                reconsume_times=2) for n in range(8)]  # fmt: skip


def source(segments: dict[int, bytes]) -> list[copies.SourceSegment]:
    def reading(start: int, raw: bytes) -> copies.SourceSegment:
        whole = np.frombuffer(raw, np.uint8)

        def read(at: int, buffer: np.ndarray) -> None:
            buffer[:] = whole[at - start : at - start + len(buffer)]

        return copies.SourceSegment(start, start + len(raw), read)

    return [reading(*each) for each in segments.items()]


def copied(root: Path, segments: dict[int, bytes], wanted: copies.CopyChoice = ALL, skip: int = 0,
           **named: Any) -> tuple[copies.Copied, list[Record]]:  # fmt: skip
    with open_writer(root, **named) as writer:
        found = copies.copy_messages(writer, source(segments), RULES, wanted, skip)
    return found, list(stored_records(root / "commitlog"))


def test_what_belongs_to_a_message_stays_and_its_place_is_new(tmp_path: Path) -> None:
    found, records = copied(tmp_path, build_log(MADE, SEGMENT, first_offset=SEGMENT))
    assert found[:3] == (8, 8, Fault.ZEROS)
    for n, (record, made) in enumerate(zip(records, MADE, strict=True)):
        assert record[:2] == (str(made.topic).encode(), 3)
        assert (record.queue_offset, record.store_timestamp) == (n // 2, START)  # the writer's
        assert (record.body, record.properties) == (made.body, made.properties)
        assert (record.flag, record.reconsume_times) == (n, 2)
        assert (record.born_timestamp, record.born_host, record.store_host) == (
            START - n, HOST, HOST)  # fmt: skip
    assert records[1].physical_offset == records[0].size


@pytest.mark.parametrize(("wanted", "skip", "numbers"), [
    (copies.CopyChoice("T"), 0, [0, 2, 4, 6]), (copies.CopyChoice("None"), 0, []),
    (copies.CopyChoice("TT"), 0, []),
    (copies.CopyChoice("", START + 2000, START + 4000), 0, [2, 3]),
    (copies.CopyChoice("U", START + 2000, START + 6000), 0, [3, 5]),
    (copies.CopyChoice("U"), 3, [7]), (copies.CopyChoice("U"), 9, [])])  # fmt: skip
def test_one_topics_messages_of_a_time_are_copied(tmp_path, wanted, skip, numbers) -> None:
    """The time is from `since` on, and before `until`; what is skipped was wanted."""
    found, records = copied(tmp_path, build_log(MADE, SEGMENT), wanted, skip)
    assert (found.seen, found.copied) == (8, len(numbers))
    assert [record.flag for record in records] == numbers


def test_a_topic_whose_name_goes_on_is_another_and_why_there_is_none_is_said(tmp_path) -> None:
    made = [Message(topic, body=b"b", flag=n) for n, topic in enumerate(("T", "TU", "UT", "T"))]
    _, records = copied(tmp_path, build_log(made, SEGMENT), copies.CopyChoice("T"))
    assert [record.flag for record in records] == [0, 3]
    (tmp_path := tmp_path / "later").mkdir()
    files = disk(tmp_path / "store")
    with open_writer(tmp_path / "store") as writer:
        writer.append(RecordsMessage("T", b"one", properties=b""))
    with opened(files) as store:
        assert copies.stored_at(store.log, 0).body == b"one"
        with pytest.raises(NoRecord):
            copies.stored_at(store.log, 1)
        with pytest.raises(NotInLog):
            copies.stored_at(store.log, 1 << 40)


def test_the_copy_ends_at_the_sources_first_fault_and_each_append_is_told_of(tmp_path) -> None:
    segments = build_log(MADE, SEGMENT)
    size = len(encode(MADE[0], 0))
    broken = bytearray(segments[0])
    broken[size + 90] ^= 1  # in the second body
    found, records = copied(tmp_path, {**segments, 0: bytes(broken)})
    assert found == copies.Copied(1, 1, Fault.BODY_CRC, size)
    assert [record.flag for record in records] == [0]
    assert copied(tmp_path / "none", {})[0] == copies.Copied(0, 0, Fault.NONE, 0)
    (tmp_path := tmp_path / "1").mkdir()
    told: list[int] = []
    with open_writer(tmp_path) as writer:
        copies.copy_messages(writer, source(build_log(MADE, SEGMENT)), RULES,
                             copies.CopyChoice("T"), 1, told.append)  # fmt: skip
    assert told == [1, 1, 1]


@pytest.mark.parametrize(
    "topic",
    [
        "%RETRY%g+T",  # KeyBuilder.buildPopRetryTopicV2
        "rmq_sys_REVIVE_LOG_Cluster.1", "%DLQ%a.b", "SCHEDULE_TOPIC_XXXX", "订单", " ",
    ],
)  # fmt: skip
def test_a_topic_that_no_producer_may_name_is_copied(tmp_path: Path, topic: str) -> None:
    """HookUtils.checkBeforePutMessage asks for no characters: brokers write such topics."""
    _, (record,) = copied(tmp_path, build_log([Message(topic, body=b"x")], SEGMENT))
    assert record.topic == topic
    assert (tmp_path / "consumequeue" / topic / "0").is_dir()


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (Message("a/b", body=b"x"), TopicUnsafe), (Message("..", body=b"x"), TopicUnsafe),
        (Message("é" * 64, body=b"x", version=2), TopicTooLong),  # 128 bytes
        (Message("T", body=b"x", properties=properties(("INNER_MULTI_DISPATCH", "%LMQ%a/b"))),
         TopicUnsafe),
    ],
)  # fmt: skip
def test_what_no_folder_can_be_named_by_is_not(tmp_path, made, kind: type[Refused]) -> None:
    with open_writer(tmp_path, release="4.9.7", enableMultiDispatch="true") as writer:
        with pytest.raises(kind):
            copies.copy_messages(writer, source(build_log([made], SEGMENT)), RULES, ALL)
        assert writer.log.end == 0


@pytest.mark.parametrize("adds", ["true", "false"])
def test_a_crc_of_the_old_place_does_not_stay(tmp_path: Path, adds: str) -> None:
    made = Message("T", body=b"x", properties=properties(("A", "b")), crc_property=True)
    _, (record,) = copied(tmp_path, build_log([made], SEGMENT), enabledAppendPropCRC=adds)
    name = b"__CRC32#\x01"
    assert record.properties.startswith(made.properties)
    assert record.properties.count(name) == (adds == "true")


# --- A record put once more: what belongs to the message stays, and the sysFlag's own bits are new.
V4, V6 = bytes((10, 0, 0, 1, 0, 0, 0x2A, 0x9F)), bytes(range(16)) + bytes((0, 0, 0x2A, 0x9F))
COMPRESSED, MULTI_TAGS, PREPARED, BORN_V6, STORE_V6 = 1, 2, 4, 0x10, 0x20


def record(**more: object) -> Record:
    given = {"topic_bytes": b"Half", "queue_id": 9, "queue_offset": 8, "physical_offset": 7,
             "size": 6, "magic": 5, "body_crc": 4, "flag": 3, "sys_flag": 0, "born_timestamp": 2,
             "born_host": V4, "store_timestamp": 1, "store_host": V4, "reconsume_times": 12,
             "prepared_offset": 11, "body_at": 0, "body_length": 4, "properties": b"A\x01b\x02",
             "body": b"body"} | more  # fmt: skip
    return Record(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("sys_flag", "born", "store", "written"), [
    (0, V4, V4, SYS_TRANSACTION_COMMIT),
    (COMPRESSED | MULTI_TAGS | PREPARED, V4, V4, COMPRESSED | MULTI_TAGS | 8),
    (BORN_V6, V6, V4, BORN_V6 | 8), (STORE_V6 | BORN_V6, V4, V6, STORE_V6 | 8)])  # fmt: skip
def test_flags_are_the_messages_own_and_hosts_and_type_are_as_they_are_now(
    tmp_path: Path, sys_flag: int, born: bytes, store: bytes, written: int
) -> None:
    with open_writer(tmp_path) as writer:
        given = record(sys_flag=sys_flag, born_host=born, store_host=store)
        copies.put_again(writer, given, "Real", 2, b"C\x01d\x02", SYS_TRANSACTION_COMMIT, 77)
        now = writer.clock()
    (made,) = stored_records(tmp_path / "commitlog")
    assert (made.topic, made.queue_id, made.queue_offset, made.physical_offset) == ("Real", 2, 0, 0)
    assert (made.sys_flag, made.born_host, made.store_host) == (written, born, store)
    assert (made.body, made.properties, made.prepared_offset) == (b"body", b"C\x01d\x02", 77)
    assert (made.flag, made.born_timestamp, made.reconsume_times) == (3, 2, 12)
    assert made.store_timestamp == now


@pytest.mark.parametrize(("adds", "names"), [("true", ["A"]), ("false", ["A", "__CRC32#"])])
def test_a_crc_is_left_out_where_the_append_makes_it_anew(tmp_path, adds, names: list[str]) -> None:
    with open_writer(tmp_path, enabledAppendPropCRC=adds) as writer:
        given = record(properties=b"A\x01b\x02__CRC32#\x010123456789\x02")
        assert list(copies.properties_of(writer, given)) == names
        assert copies.text_of(writer, {"A": "b"}) == b"A\x01b\x02"


# --- Records longer than a window: recovery and copying hold no more than that of them.
SEGMENT_long = 1 << 15
WINDOW = 1000
BODY = bytes(range(1, 256)) * 20
LONG = Message(body=BODY, topic="L", properties=properties(("KEYS", "k"), ("p", "v" * 600)))
LOG = [Message(topic="S"), LONG, Message(topic="S"), LONG, LONG, Message(topic="S")]


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_WINDOW_BYTES", WINDOW)
    monkeypatch.setattr(copies, "_WINDOW_BYTES", WINDOW)
    monkeypatch.setattr(log_record, "_PIECE_BYTES", WINDOW)


class Measured(DiskFiles):
    """Notes the longest piece that is read."""

    longest = 0

    def open_read(self, path: str) -> Any:
        file = super().open_read(path)
        read_at = file.read_at

        def measured(at: int, buffer: Any) -> None:
            self.longest = max(self.longest, len(buffer))
            read_at(at, buffer)

        file.read_at = measured  # type: ignore[method-assign]
        return file


def found(root: Path, raw: bytes, durable: int | None) -> tuple[recovery.LogEnd, int]:
    """The log's end as recovery finds it, and the longest piece it has read."""
    (root / "commitlog").mkdir(parents=True, exist_ok=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(raw)
    files = Measured(str(root))
    rules = scan_rules(profile("5.3.3"), settings_from({}), ())
    checkpoint = None if durable is None else Checkpoint(durable, durable, 0)
    log = recovery.LogRecovery(files, SEGMENT_long, rules, checkpoint)
    return log.find_end(), files.longest


@pytest.mark.usefixtures("small_windows")
def test_recovery_holds_no_body_and_ends_at_a_long_record_that_is_wrong(tmp_path: Path) -> None:
    raw = bytearray(build_log(LOG, SEGMENT_long)[0])
    records = _records(tmp_path / "whole", bytes(raw))
    *_, bad, last = (record.physical_offset for record in records)
    torn, flipped = raw.copy(), raw.copy()
    sector = (last - 400) // 512 * 512
    torn[sector : min(sector + 512, last)] = bytes(min(sector + 512, last) - sector)
    flipped[bad + 3000] ^= 1
    end = last + records[-1].size
    for number, (data, durable, wanted) in enumerate([
        (raw, None, (end, Fault.ZEROS)), (raw, 0, (end, Fault.ZEROS)),
        (torn, 0, (bad, Fault.LENGTHS)), (flipped, 0, (bad, Fault.BODY_CRC))]):  # fmt: skip
        log_end, longest = found(tmp_path / str(number), bytes(data), durable)
        assert (log_end.end, log_end.fault) == wanted
        assert longest <= WINDOW < len(BODY)


def _records(root: Path, raw: bytes) -> list[Any]:
    root.mkdir()
    (root / f"{0:020d}").write_bytes(raw)
    return list(stored_records(root))


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize(("topic", "many"), [("", 6), ("L", 3), ("S", 3)])
def test_long_messages_are_copied_whole(topic: str, many: int, tmp_path: Path) -> None:
    raw = np.frombuffer(build_log(LOG, SEGMENT_long)[0], np.uint8)
    longest = [0]

    def read(at: int, buffer: Any) -> None:
        longest[0] = max(longest[0], len(buffer))
        buffer[:] = raw[at : at + len(buffer)]

    writer = open_writer(tmp_path, mappedFileSizeCommitLog=SEGMENT_long)
    source = [copies.SourceSegment(0, SEGMENT_long, read)]
    copied = copies.copy_messages(writer, source, RecordRules(True, True), copies.CopyChoice(topic))
    writer.close()
    assert (copied.seen, copied.copied, copied.fault) == (6, many, Fault.ZEROS)
    kept = [(m.topic, m.body) for m in LOG if topic in ("", m.topic)]
    assert [(r.topic, r.body) for r in stored_records(tmp_path / "commitlog")] == kept
    assert longest[0] <= (WINDOW if topic == "S" else len(BODY) + 1000)


# --- Records that RocketMQ wrote, appended anew: the same log, queues and index, byte for byte.
# Whole logs from offset 0 on, with nothing after their end.
NAMES = (
    pytest.param("broker_clean_5.3.3", marks=pytest.mark.long),  # an index of 420 MB
    "many_queues_5.3.3",
    "mixed_4.1.0",
    "mixed_4.9.7",
    "mixed_5.3.3",
    "mixed_5.4.0",
    "mixed_5.5.0",
    "tiny_5.3.3",
)
# Up to 4.1.0 what follows a BLANK's eight bytes is what the buffer held.
DIRTY_BLANKS = ("mixed_4.1.0",)


@pytest.fixture(params=NAMES)
def golden(request: pytest.FixtureRequest) -> golden_stores.GoldenStore:
    return golden_stores.unpack(request.param)


def append_anew(golden: golden_stores.GoldenStore, root: Path) -> None:
    settings = writer_settings_from({n: str(v) for n, v in golden.settings.items()})
    clock = Clock()
    writer = CommitLogWriter.open(
        str(root), settings, clock=clock, release=golden.version, background=False)  # fmt: skip
    for record in stored_records(golden.input / "commitlog"):
        clock.now = record.store_timestamp
        # RocketMQ follows a clock that goes back; the writer does not, but for this test.
        writer.appender.last_timestamp = 0
        result = writer.put(writer.encoder.draft(as_message(record)))
        assert result.queue_offset == record.queue_offset
    writer.close()


def test_the_log_and_all_that_is_derived_are_rocketmqs(golden, tmp_path) -> None:
    append_anew(golden, tmp_path)
    if not golden.root.name.startswith(DIRTY_BLANKS):
        assert_same(golden.input / "commitlog", tmp_path / "commitlog")
    assert_same(golden.expect / "consumequeue", tmp_path / "consumequeue")
    expected = sorted((golden.expect / "index").iterdir())
    found = sorted((tmp_path / "index").iterdir())
    assert len(found) == len(expected)
    for one, other in zip(expected, found, strict=True):
        assert one.stat().st_size == other.stat().st_size
        assert np.array_equal(np.memmap(one, np.uint8, "r"), np.memmap(other, np.uint8, "r")), one


def assert_same(expected: Path, found: Path) -> None:
    names = sorted(str(p.relative_to(expected)) for p in expected.rglob("*") if p.is_file())
    there = sorted(str(p.relative_to(found)) for p in found.rglob("*") if p.is_file())
    # RocketMQ prepares the next segment ahead; a wholly zero one says nothing
    assert [n for n in names if any((expected / n).read_bytes())] == there
    for name in there:
        assert (expected / name).read_bytes() == (found / name).read_bytes(), name
