"""Dispatch of a log that grows: as far as it is told, no body's CRC, and no further than damage."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reput.broker.writer import index_writer as index_files
from reput.broker.writer.queue_writer import QueueWriter
from reput.broker.writer.store import Reput
from reput.store_format.derived.checkpoint import decode
from reput.store_format.dispatch.scan import NamedQueue, place_rules, scan_rules
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.layouts import SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK
from reput.store_format.message.message import Message as WriterMessage
from reput.store_format.message.refusals import WriterClosed
from reput.store_format.release.profiles import profile
from tests import golden_stores
from tests.broker.writer.rocketmq_load import entries
from tests.broker.writer.stores import Clock, open_writer, settings, stored_records
from tests.faults.memory_files import MemoryFiles
from tests.logs.encoder import Message, build_log
from tests.processes import run_python

SEGMENT = 256
SIZE = 120  # two records are in a segment, and a BLANK
START = 1_700_000_000_000


def made(count: int) -> list[Message]:
    return [Message(queue_offset=n, body=b"%028d" % n, store_timestamp=START + n) for n in range(
        count)]  # fmt: skip


class Dispatched:
    """A log that is dispatched to queues."""

    def __init__(self, messages: list[Message]) -> None:
        self.log = bytearray(b"".join(build_log(messages, SEGMENT).values()))
        rules = profile("5.3.3")
        self.queues = QueueWriter(MemoryFiles(), settings(), place_rules(rules), writes=False)
        scan = scan_rules(rules, settings(), ())
        self.furthest = 0
        self.reput = Reput(self._read, SEGMENT, scan, self.queues, None, 0)

    def _read(self, at: int, buffer: np.ndarray) -> None:
        self.furthest = max(self.furthest, at + len(buffer))
        buffer[:] = np.frombuffer(bytes(self.log[at : at + len(buffer)]), np.uint8)

    def run(self, end: int, known: bool = True) -> tuple[int, int, int]:
        """(where it stands, the queue's next position, the time of the last record)."""
        self.reput.run(end, known)
        state = self.queues.states.get(NamedQueue("T", 0, False))
        time = self.reput.timestamp - START if self.reput.timestamp else -1
        return self.reput.at, 0 if state is None else state.position, time


def test_it_goes_as_far_as_it_is_told_and_reads_nothing_behind() -> None:
    dispatched = Dispatched(made(5))
    assert dispatched.run(0) == (0, 0, -1)
    assert dispatched.run(SIZE) == (SIZE, 1, 0)
    assert dispatched.furthest == SIZE
    assert dispatched.run(SIZE) == (SIZE, 1, 0)
    assert dispatched.run(SEGMENT + SIZE) == (SEGMENT + SIZE, 3, 2)
    assert dispatched.run(2 * SEGMENT + SIZE) == (2 * SEGMENT + SIZE, 5, 4)
    for transaction in [SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK]:
        messages = [made(1)[0], Message(body=b"x" * 28, sys_flag=transaction,
                                        store_timestamp=START)]  # fmt: skip
        assert Dispatched(messages).run(2 * SIZE) == (2 * SIZE, 1, 0)


def test_a_record_that_is_none_is_named_and_a_body_of_this_writer_not_checked() -> None:
    dispatched = Dispatched(made(4))
    dispatched.log[SEGMENT + 4] ^= 1  # the magic
    with pytest.raises(DamageFound) as found:
        dispatched.run(SEGMENT + 2 * SIZE)
    assert f"{SEGMENT:020d}: at offset {SEGMENT}: magic" in str(found.value)
    assert dispatched.reput.at == SEGMENT
    assert dispatched.queues.states[NamedQueue("T", 0, False)].position == 2
    for known in [True, False]:
        dispatched = Dispatched(made(2))
        dispatched.log[SIZE + 100] ^= 1
        if known:
            assert dispatched.run(2 * SIZE) == (2 * SIZE, 2, 1)
            return
        with pytest.raises(DamageFound, match=f"at offset {SIZE}: bodyCRC"):
            dispatched.run(2 * SIZE, known)


# --- Opening a store: its lock, its end, its queues; what is refused and what is taken up.
_LOCK = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
    print("free")
except OSError:
    print("held")
"""


def lock_state(root: Path) -> str:
    """As another process sees byte 0 of `lock`: Java's FileChannel.tryLock(0, 1, false)."""
    done = run_python("-c", _LOCK, root / "lock", check=True)
    return done.stdout.strip()


def test_a_lock_is_held_from_open_to_close_also_by_another_process(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    assert lock_state(tmp_path) == "held"
    with pytest.raises(StoreInUse):
        open_writer(tmp_path)
    assert lock_state(tmp_path) == "held"  # POSIX locks go with the first descriptor closed
    writer.close()
    assert lock_state(tmp_path) == "free"
    assert (tmp_path / "lock").read_bytes() == b"lock"  # not before: closing it would unlock it
    open_writer(tmp_path).close()


def test_a_lock_that_is_another_file_too_keeps_what_it_holds(tmp_path: Path) -> None:
    """`cp -al` makes such ones, and who links a name `lock` to a file of theirs."""
    store = tmp_path / "store"
    open_writer(store).close()
    for own in (b"somebody's notes", b""):
        (store / "lock").unlink()
        (tmp_path / "theirs").write_bytes(own)
        (store / "lock").hardlink_to(tmp_path / "theirs")
        open_writer(store).close()
        assert (tmp_path / "theirs").read_bytes() == own


def test_abort_is_there_while_open_and_the_checkpoint_after_vouches_for_no_more(tmp_path) -> None:
    clock = Clock()
    writer = open_writer(tmp_path, clock)
    assert (tmp_path / "abort").read_text().isdigit()
    writer.append(WriterMessage("T", b"x"))
    writer.close()
    assert not (tmp_path / "abort").exists()
    checkpoint = decode((tmp_path / "checkpoint").read_bytes())
    assert checkpoint.physic_msg_timestamp == checkpoint.logics_msg_timestamp == clock.now
    assert checkpoint.confirm_phy_offset == writer.log.end
    assert (tmp_path / "checkpoint").stat().st_size == 4096
    with pytest.raises(WriterClosed):
        writer.append(WriterMessage("T", b"x"))
    writer.close()
    # RocketMQ dispatches from the checkpoint on: it would never put the keys that are missing.
    (tmp_path := tmp_path / "later").mkdir()
    clock = Clock()
    with open_writer(tmp_path, clock) as writer:
        writer.append(WriterMessage("T", b"x", keys="k0"))
    known = clock.now
    writer = open_writer(tmp_path, clock)
    clock.now += 5000
    writer.append(WriterMessage("T", b"x", keys="k1"))
    writer.flush()
    writer.dispatch()
    writer.store.keep_checkpoint(clock.now)
    kept = decode((tmp_path / "checkpoint").read_bytes())
    assert (kept.physic_msg_timestamp, kept.logics_msg_timestamp) == (clock.now, known)
    writer.close()
    assert decode((tmp_path / "checkpoint").read_bytes()).logics_msg_timestamp == clock.now


def test_an_empty_file_behind_the_log_is_its_next_segment(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        writer.append(WriterMessage("T", b"x"))
    (tmp_path / "commitlog" / f"{4096:020d}").touch()
    with open_writer(tmp_path) as writer:
        assert writer.append(WriterMessage("T", bytes(3800))).queue_offset == 1
        writer.append(WriterMessage("T", bytes(3800)))
    assert len(list(stored_records(tmp_path / "commitlog"))) == 3


@pytest.mark.parametrize("gone", ["consumequeue", "consumequeue/A", "consumequeue/A/1"])
def test_queues_that_are_gone_come_back_from_the_log(tmp_path: Path, gone: str) -> None:
    with open_writer(tmp_path) as writer:
        for number in range(60):
            writer.append(WriterMessage("AB"[number % 2], b"x", number // 2 % 2, keys=f"k{number}"))
    before = {p: p.read_bytes() for p in sorted((tmp_path / "consumequeue/T").glob("*/0*"))
              if p.is_file()}  # fmt: skip
    shutil.rmtree(tmp_path / gone)
    with open_writer(tmp_path) as writer:
        assert writer.append(WriterMessage("A", b"x", 1)).queue_offset == 15
        assert writer.append(WriterMessage("B", b"x", 1)).queue_offset == 15
    for path, content in before.items():
        if path.parts[-3:-1] == ("A", "1") or not gone.endswith("1"):
            assert path.read_bytes()[: 15 * 20] == content[: 15 * 20]


def test_without_dispatch_the_log_grows_and_a_crash_is_put_right(tmp_path: Path) -> None:
    for root, dispatches in ((tmp_path / "a", True), (tmp_path / "b", False)):
        for _ in range(2):
            with open_writer(root, dispatches=dispatches) as writer:
                for number in range(20):
                    writer.append(WriterMessage("T", b"x", number % 2, keys=f"k{number}",
                                                unique_key=f"{number}"))  # fmt: skip
    assert not (tmp_path / "b" / "consumequeue").exists()
    open_writer(tmp_path / "b").close()
    for folder in ("commitlog", "consumequeue", "index"):
        names = sorted((tmp_path / "a" / folder).rglob("*"))
        assert [p.name for p in names] == [
            p.name for p in sorted((tmp_path / "b" / folder).rglob("*"))]  # fmt: skip
        for path in names:
            other = tmp_path / "b" / path.relative_to(tmp_path / "a")
            assert path.is_dir() or path.read_bytes() == other.read_bytes(), path
    # `abort` is gone afterwards, and a broker believes queues and index.
    (tmp_path := tmp_path / "later").mkdir()
    with open_writer(tmp_path) as writer:
        for number in range(5):
            writer.append(WriterMessage("T", b"x", keys=f"k{number}"))
    writer = open_writer(tmp_path)
    for number in range(60):
        writer.append(WriterMessage("T", b"x", number % 2, keys=f"l{number}"))
    end = writer.log.end
    writer.abandon()
    with open_writer(tmp_path, dispatches=False) as writer:
        writer.append(WriterMessage("T", b"only in the log", 1, keys="m"))
    assert not (tmp_path / "abort").exists()
    found = sum((entries(p.read_bytes(), 16) for p in (tmp_path / "index").iterdir()), Counter())
    assert sum(found.values()) == len(found) == 2 * 65  # UNIQ_KEY and KEYS
    assert max(place for _, place in found) < end
    queues = b"".join(p.read_bytes() for p in sorted((tmp_path / "consumequeue/T").glob("*/0*")))
    assert sum(any(queues[at : at + 20]) for at in range(0, len(queues), 20)) == 65
    with open_writer(tmp_path) as writer:
        assert writer.append(WriterMessage("T", b"x", 1)).queue_offset == 31


def test_damage_before_live_records_or_a_lost_end_is_refused_and_left_alone(tmp_path: Path) -> None:
    clock = Clock()
    with open_writer(tmp_path, clock) as writer:
        for number in range(10):
            clock.now += 1
            writer.append(WriterMessage("T", b"body %d" % number))
    segment = tmp_path / "commitlog" / ("0" * 20)
    raw = bytearray(segment.read_bytes())
    raw[raw.index(b"body 4")] ^= 1
    segment.write_bytes(raw)
    with pytest.raises(DamageFound, match=r"bodyCRC.*reput recover"):
        open_writer(tmp_path)
    assert segment.read_bytes() == raw
    (tmp_path / "abort").touch()
    with pytest.raises(DamageFound):
        # durable long before, as the checkpoint tells: no crash leaves that
        open_writer(tmp_path, clock)
    # The log's end is gone, and the queue shows that it was longer.
    (tmp_path := tmp_path / "later").mkdir()
    with open_writer(tmp_path) as writer:
        first = writer.append(WriterMessage("T", b"first"))
        last = writer.append(WriterMessage("T", b"second"))
    segment = tmp_path / "commitlog" / ("0" * 20)
    raw = segment.read_bytes()
    segment.write_bytes(raw[: last.physical_offset].ljust(len(raw), b"\0"))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(StoreError, match="1 entries of queues lie past the log's end at"):
        open_writer(tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
    (tmp_path / "abort").touch()  # after a crash the end may not have been durable
    with open_writer(tmp_path) as writer:
        assert (writer.entries_cut, writer.log.end) == (1, first.size)
        assert writer.append(WriterMessage("T", b"third")).queue_offset == 1


@pytest.mark.parametrize("verified", [True, False])
def test_record_crcs_end_the_log_where_they_are_verified(tmp_path: Path, verified: bool) -> None:
    """forceVerifyPropCRC: after a crash a last record with a changed tag is cut off."""
    named = {"enabledAppendPropCRC": "true", "forceVerifyPropCRC": str(verified).lower()}
    with open_writer(tmp_path, **named) as writer:
        writer.append(WriterMessage("T", b"x", tags="kept"))
        last = writer.append(WriterMessage("T", b"x", tags="torn"))
    segment = tmp_path / "commitlog" / ("0" * 20)
    segment.write_bytes(segment.read_bytes().replace(b"torn", b"worn"))
    (tmp_path / "abort").touch()
    (tmp_path / "checkpoint").write_bytes(bytes(4096))
    with open_writer(tmp_path, **named) as writer:
        end = last.physical_offset + (0 if verified else last.size)
        assert writer.log.end == end


def test_a_torn_record_is_cut_off_wherever_it_was_torn(tmp_path: Path) -> None:
    """The real store accepts 19 of these with wrong keys or tags."""
    whole = tmp_path / "whole"
    with open_writer(whole) as writer:
        writer.append(WriterMessage("T", b"first", keys="a", tags="t"))
        last = writer.append(
            WriterMessage("T", b"second", keys="b c", tags="t", properties={"p": "q"}))  # fmt: skip
    raw = (whole / "commitlog" / ("0" * 20)).read_bytes()
    for cut in range(last.size):
        root = tmp_path / str(cut)
        (root / "commitlog").mkdir(parents=True)
        (root / "abort").touch()
        torn = raw[: last.physical_offset + cut].ljust(len(raw), b"\0")
        (root / "commitlog" / ("0" * 20)).write_bytes(torn)
        with open_writer(root) as writer:
            assert writer.log.end == last.physical_offset, cut
            assert writer.append(WriterMessage("T", b"third")).queue_offset == 1
        kept = b"".join(path.read_bytes() for path in root.glob("reput-cut/*"))
        assert kept == torn[last.physical_offset :].rstrip(b"\0"), cut
        bodies = [record.body for record in stored_records(root / "commitlog")]
        assert bodies == [b"first", b"third"]


GOLDEN = ("continued_5.3.3", "expired_5.3.3", "garbage_tail_5.3.3", "bad_magic_tail_5.3.3",
          "torn_tail_5.3.3", "one_queue_5.3.3", "odd_5.3.3")  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_stores_of_rocketmq_are_continued_and_nothing_stale_comes_back(tmp_path, name: str) -> None:
    golden = golden_stores.unpack(name)
    root = golden_stores.copy_input(golden, tmp_path / "store")
    named = dict(golden.settings)
    before = list(stored_records(root / "commitlog"))
    with open_writer(root, Clock(1_900_000_000_000), release=golden.version, **named) as writer:
        end = before[-1].physical_offset + before[-1].size
        assert writer.log.end == end
        queue = next(r for r in reversed(before) if r.transaction == 0 and r.topic.isascii())
        key = (queue.topic, queue.queue_id)
        following = writer.appender.next_offset(key)
        result = writer.append(WriterMessage("Continued", b"x"))
        assert result.queue_offset == 0
        assert following >= 1
    after = list(stored_records(root / "commitlog"))
    assert after[:-1] == before
    assert after[-1].topic == "Continued"
    last = max((root / "commitlog").iterdir(), key=lambda p: int(p.name))
    tail = last.read_bytes()
    assert not any(tail[after[-1].physical_offset + after[-1].size - int(last.name) :])


@pytest.mark.parametrize("name", ["middle_crc_5.3.3", "middle_magic_5.3.3", "middle_size_5.3.3"])
def test_a_refusal_leaves_a_clean_store_clean(tmp_path: Path, name: str) -> None:
    """RocketMQ would cut a store with `abort` at the damage. A second open refuses as the first."""
    golden = golden_stores.unpack(name)
    root = golden_stores.copy_input(golden, tmp_path / "store")
    (root / "abort").unlink(missing_ok=True)
    if name != "middle_crc_5.3.3":
        shutil.rmtree(root / "consumequeue", ignore_errors=True)  # the whole log is looked at
    for _ in range(2):
        with pytest.raises(DamageFound):
            open_writer(root, release=golden.version, **golden.settings)
        assert not (root / "abort").exists()


def test_neither_thirty_crashes_nor_a_small_index_mean_reading_all_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint moves on as a store is reopened, by as much as is durable."""
    clock = Clock()
    read = []
    for _ in range(30):
        writer = open_writer(tmp_path, clock)
        for number in range(12):
            clock.now += 1000
            writer.append(WriterMessage("T", bytes(900), keys=f"k{number}"))
        read.append(writer.log.end - (writer.recovered.checked_from if writer.recovered else 0))
        writer.abandon()
    assert read[-1] <= read[1] + 2 * 4096
    open_writer(tmp_path, clock).close()
    # `index/` changes once the log has grown by so much, so that the checkpoint can follow.
    (tmp_path := tmp_path / "later").mkdir()
    monkeypatch.setattr(index_files, "PUBLISH_LOG_BYTES", 3 * 4096)
    clock = Clock()
    writer = open_writer(tmp_path, clock, maxIndexNum=10_000)
    for number in range(200):
        clock.now += 1000
        writer.append(WriterMessage("T", bytes(900), keys=f"k{number}"))
        writer.dispatch()
        if number % 4 == 3:
            writer.flush()
            writer.keep_checkpoint()
    writer.abandon()
    assert len(list((tmp_path / "index").iterdir())) == 1
    writer = open_writer(tmp_path, clock, maxIndexNum=10_000)
    assert writer.recovered is not None
    assert writer.log.end - writer.recovered.checked_from <= 3 * 4096 + 3 * 4096
    assert writer.log.end > 40 * 4096
    writer.close()
    found = sum((entries(p.read_bytes(), 16) for p in (tmp_path / "index").iterdir()), Counter())
    assert sum(found.values()) == len(found) == 400
