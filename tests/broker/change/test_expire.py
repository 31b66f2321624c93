"""What expires, by RocketMQ's rules, and what is kept because somebody needs it."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from reput.broker.change.expire import (
    AgedSegment,
    DeleteReason,
    delete_reason,
    expired_segments,
    files_below,
)
from reput.jobs.backup import backup
from reput.jobs.deliver_delayed import deliver_delayed
from reput.jobs.expire import expire
from reput.jobs.resolve_transactions import resolve_transactions
from reput.store_format.faults import StoreError
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.files.runs import FORMAT
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import ExpirySettings, settings_from
from tests import golden_stores
from tests.broker.change.expiring import HOUR, NOW, a_store, run
from tests.broker.services.preparing import Transactions
from tests.broker.services.stores import T0, disk, half, writing
from tests.broker.writer.stores import Clock
from tests.faults.memory_files import MemoryFiles
from tests.in_process import as_text
from tests.local_time import time_zone
from tests.store_format.fate.stores import IN_ROCKSDB, unpack
from tests.trees import unlocked

TEN = [AgedSegment(f"commitlog/{n}", n * 100, 100, NOW - (100 - n) * HOUR) for n in range(30)]


def assert_reason(at: DeleteReason, why: str, any_age: bool) -> None:
    assert why in at.why
    assert (bool(at.why), at.of_any_age) == (bool(why), any_age)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return a_store(tmp_path / "store")


def names(going: Any) -> list[str]:
    return [each.path.rpartition("/")[2] for each in going]


def test_when_a_broker_deletes() -> None:
    for hour, log, queues, manual, why, any_age in [
        (4, 0.1, 0.1, False, "it is 04h", False), (5, 0.75, 0.75, False, "", False),
        (5, 0.76, 0.1, False, "76% of the disk is used, more than 75%", False),
        (5, 0.1, 0.76, False, "76% of the disk is used, more than 75%", False),
        (5, 0.85, 0.1, False, "more than 75%", False), (5, 0.86, 0.1, False, "more than 85%", True),
        (5, 0.1, 0.91, False, "more than 85%", True),
        (5, 0.1, 0.1, True, "asked for at any hour", False)]:  # fmt: skip
        at = delete_reason(ExpirySettings(), profile("5.3.3"), hour, (log, queues), manual)
        assert_reason(at, why, any_age)
    for disks in [(0.9, 0.1), (0.1, 0.9)]:
        settings = ExpirySettings(disk_max_used_space_ratio=95)
        at = delete_reason(settings, profile("5.3.3"), 5, disks, manual=False)
        assert_reason(at, "90% of the disk is used, more than 85%", any_age=True)


def test_files_of_any_age_go_above_ratios_kept_in_bounds() -> None:
    """30 to 85 and 35 to 90 percent, whichever is less (CleanCommitLogService.isSpaceToDelete)."""
    for forcibly, warning, used, most in [
        (0, 90, 0.30, None), (0, 90, 0.31, 30), (29, 90, 0.30, None), (31, 90, 0.31, None),
        (95, 90, 0.85, None), (95, 90, 0.86, 85), (84, 90, 0.85, 84), (95, 100, 0.86, 85),
        (85, 0, 0.35, None), (85, 0, 0.36, 35), (85, 40, 0.41, 40),
        (85, 40, 0.40, None)]:  # fmt: skip
        settings = ExpirySettings(disk_space_clean_forcibly_ratio=forcibly,
                                  disk_space_warning_level_ratio=warning)  # fmt: skip
        for disks in ((used, 0.1), (0.1, used)):
            at = delete_reason(settings, profile("5.3.3"), 5, disks, manual=False)
            assert at.of_any_age == (most is not None)
            assert most is None or f"more than {most}% (diskSpace" in at.why


def test_before_5_0_0_a_full_disk_waits_for_the_hour() -> None:
    for hour, log, queues, manual, why, any_age in [
        (5, 0.94, 0.1, False, "", False), (5, 0.1, 0.94, False, "", False),
        (5, 0.96, 0.1, False, "96% of the disk is used, more than 85%", True),
        (5, 0.86, 0.96, False, "96% of the disk is used, more than 85%", True),
        (4, 0.84, 0.1, False, "it is 04h (deleteWhen=04)", False),
        (4, 0.94, 0.1, False, "it is 04h (deleteWhen=04); 94% of the disk is used", True),
        (5, 0.1, 0.94, True, "asked for at any hour; 94% of the disk is used", True)]:  # fmt: skip
        settings = ExpirySettings(disk_max_used_space_ratio=95)
        at = delete_reason(settings, profile("4.9.8"), hour, (log, queues), manual)
        assert_reason(at, why, any_age)
    at = delete_reason(ExpirySettings(), profile("4.9.8"), 5, (0.76, 0.94), manual=False)
    assert "76% of the disk is used, more than 75%" in at.why
    assert not at.of_any_age


@pytest.mark.parametrize(("used", "goes"), [(0.3, False), (0.31, True)])
def test_what_is_not_expired_stays_up_to_the_least_ratio_of_a_broker(used, goes, tmp_path) -> None:
    given = as_text(golden_stores.unpack("mixed_5.3.3").settings)
    said = expire(
        str(a_store(tmp_path / "store")), rocketmq="5.3.3",
        settings=given | {"diskSpaceCleanForciblyRatio": "0"}, now=NOW - 190 * HOUR, dry_run=True,
        used=lambda path: used, even_pending=True, even_delayed=True)  # fmt: skip
    assert bool(said.segments) == goes


def test_ten_segments_a_run_and_no_queue_file_of_the_logs_first_message() -> None:
    at = DeleteReason("now", False)
    settings = ExpirySettings(file_reserved_time=72)
    assert names(expired_segments(TEN, settings, NOW, at)) == [str(n) for n in range(10)]
    settings = ExpirySettings(file_reserved_time=95)
    assert names(expired_segments(TEN, settings, NOW, at)) == [str(n) for n in range(6)]
    assert names(expired_segments(TEN, settings, NOW - 1, at)) == [str(n) for n in range(5)]
    touched = [TEN[0], TEN[1]._replace(modified=NOW), *TEN[2:]]
    assert names(expired_segments(touched, settings, NOW, at)) == ["0"]
    assert expired_segments(TEN, settings, NOW, DeleteReason("", False)) == []
    assert names(expired_segments(TEN[:3], settings, NOW, at)) == ["0", "1"]
    fresh = [each._replace(modified=NOW) for each in TEN]
    assert len(expired_segments(fresh, settings, NOW, DeleteReason("full", True))) == 10
    files = MemoryFiles()
    files.make_folder("consumequeue/T/0")
    for number, last in enumerate((900, 1000, 1100)):
        path = f"consumequeue/T/0/{number * 40:020d}"
        entry = last.to_bytes(8, "big") + (50).to_bytes(4, "big") + bytes(8)
        files.create(path).write_at(0, bytes(20) + entry)
    given = settings_from({"mappedFileSizeConsumeQueue": "40"}, release="5.3.3")
    for log_start, going in ((899, 0), (900, 0), (901, 1), (1000, 1), (1001, 2), (1200, 2)):
        assert len(list(files_below(files, given, log_start))) == going, log_start


def test_a_dry_run_says_all_and_changes_nothing(store: Path) -> None:
    before = unlocked(store)
    reported = run(store, dry_run=True)
    assert unlocked(store) == before
    assert reported.segments
    assert reported.files
    done = run(store)
    assert done.done
    gone = {each.path: each.length for each in (*reported.segments, *reported.files)}
    assert before.keys() - unlocked(store).keys() == gone.keys()
    assert done.bytes == reported.bytes == sum(gone.values())
    assert not run(store).needed
    segments = sorted((store / "commitlog").iterdir())
    assert int(segments[0].name) == done.log_start


def test_a_queue_file_goes_with_its_last_message_and_not_before(store: Path) -> None:
    before = unlocked(store)
    few = as_text(golden_stores.unpack("mixed_5.3.3").settings) | {"deleteFileBatchMax": "3"}
    done = expire(str(store), rocketmq="5.3.3", settings=few, any_hour=True, now=NOW,
                  used=lambda path: 0.1, even_pending=True, even_delayed=True)  # fmt: skip
    gone = [each.path for each in done.files if each.path.startswith("consumequeue/")]
    assert len(done.segments) == 3
    assert gone
    assert all(int.from_bytes(before[path][-20:-12]) < done.log_start for path in gone)
    stays = [path for queue in (store / "consumequeue").glob("*/*")
             for path in sorted(queue.iterdir())[:-1]]  # fmt: skip
    assert stays
    assert all(int.from_bytes(p.read_bytes()[-20:-12]) >= done.log_start for p in stays)


@pytest.mark.parametrize(
    ("zone", "hours"), [("UTC", -4), ("Asia/Shanghai", 12), ("America/New_York", 1)])  # fmt: skip
def test_deletewhen_is_an_hour_of_the_local_clock(store: Path, zone: str, hours: int) -> None:
    """NOW is 08:00 in UTC; so many hours later it is 04:00 there."""
    with time_zone(zone):
        for each in (-4, 12, 1):
            done = run(store, any_hour=False, now=NOW + each * HOUR, dry_run=True)
            assert done.needed is (each == hours)


@pytest.mark.parametrize("name", ["zz-notes.txt", "00000000000000000000.mine", "0", "folder"])
def test_what_is_no_queue_file_stays_and_is_named(store: Path, name: str) -> None:
    """Else somebody's file is read as entries; and behind it the queue's last file is none."""
    queue = max((store / "consumequeue").glob("*/*"), key=lambda at: len(list(at.iterdir())))
    if name == "folder":
        (queue / f"{2000:020}.d").mkdir()
    else:
        (queue / name).write_bytes(bytes(100))
    plain = run(store, dry_run=True)
    stranger = queue / (f"{2000:020}.d" if name == "folder" else name)
    stays = unlocked(stranger)
    done = run(store)
    assert done.files == plain.files
    assert any(str(stranger) in warning for warning in done.warnings)
    assert unlocked(stranger) == stays


def test_a_queue_file_of_another_length_stays_and_is_named(store: Path) -> None:
    """What stands at its end is no last entry."""
    queue = max((store / "consumequeue").glob("*/*"), key=lambda at: len(list(at.iterdir())))
    os.truncate(min(queue.iterdir()), 1967)
    before = unlocked(store)
    with pytest.raises(StoreError, match=r"1967: a hole, or a file of a wrong length"):
        run(store)
    assert unlocked(store) == before


def offsets(store: Path, topic: str, queue: int, offset: int) -> None:
    (store / "config").mkdir(exist_ok=True)
    table = {"offsetTable": {f"{topic}@readers": {str(queue): offset}}}
    (store / "config" / "consumerOffset.json").write_text(json.dumps(table))


def test_what_a_group_has_not_read_stays(store: Path) -> None:
    whole = run(store, dry_run=True)
    queue = next(path for path in sorted((store / "consumequeue").glob("*/*/*")))
    topic, queue_id = queue.parts[-3], int(queue.parts[-2])
    first = int.from_bytes(queue.read_bytes()[:8])
    offsets(store, topic, queue_id, int(queue.name) // 20)
    kept = run(store, dry_run=True)
    assert kept.kept[0].offset == first
    assert "group 'readers' has read" in kept.kept[0].who
    assert len(kept.segments) == first // 262144 < len(whole.segments)
    assert kept.kept_segments == len(whole.segments) - len(kept.segments)
    for way in ({"even_unread": True}, {"ignored_groups": ["readers"]}):
        assert run(store, dry_run=True, **way).segments == whole.segments
    offsets(store, topic, queue_id, 1 << 40)
    assert run(store, dry_run=True).segments == whole.segments
    (store / "config" / "consumerOffset.json").write_text("{")
    with pytest.raises(StoreError, match="what is unread is not known"):
        run(store, dry_run=True)


def a_queue(store: Path) -> tuple[str, int, list[Path]]:
    """Topic, id and files of a queue of several files."""
    folder = max((store / "consumequeue").glob("*/*"), key=lambda at: len(list(at.iterdir())))
    return folder.parent.name, int(folder.name), sorted(folder.iterdir())


def test_what_no_offset_or_no_queue_tells_was_not_read(store: Path) -> None:
    """A group's topic may have a queue of which it never said an offset; and where the queues
    are behind the log, nobody has read the rest.
    """
    whole = run(store, dry_run=True)
    topic, queue_id, files = a_queue(store)
    first = int.from_bytes(files[0].read_bytes()[:8])
    for other in (store / "consumequeue" / topic).iterdir():
        if other.name != str(queue_id):
            shutil.rmtree(other)
    offsets(store, topic, 9, 0)
    assert [each.offset for each in run(store, dry_run=True).kept] == [first]
    for wrong in ("5", None, 1.5):
        offsets(store, topic, queue_id, wrong)  # type: ignore[arg-type]
        assert [each.offset for each in run(store, dry_run=True).kept] == [first]
    offsets(store, topic, queue_id, 10**30)
    assert run(store, dry_run=True).segments == whole.segments
    for each in (store / "consumequeue").iterdir():
        shutil.rmtree(each)
    kept = run(store, dry_run=True).kept[0]
    assert (kept.offset, "the queues do not have all of the log" in kept.who) == (0, True)


def test_what_a_lost_queue_file_held_was_perhaps_not_read(store: Path) -> None:
    """The group's offset is at the end of what is left of the queue."""
    topic, queue_id, files = a_queue(store)
    offsets(store, topic, queue_id, int(files[-1].name) // 20)
    first = int.from_bytes(files[-1].read_bytes()[:8])
    for other in (store / "consumequeue" / topic).iterdir():
        if other.name != str(queue_id):
            shutil.rmtree(other)
    assert [each.offset for each in run(store, dry_run=True).kept] == [first]
    files[-1].unlink()
    kept = run(store, dry_run=True).kept
    assert [each.offset for each in kept] == [first]
    assert "nothing tells whether what they lack was read" in kept[0].who


def test_an_unread_message_behind_expired_ones_stays(store: Path) -> None:
    """A queue's first file may have nothing but expired entries: a kill came before it went."""
    topic, queue_id, files = a_queue(store)
    entries = files[0].read_bytes()
    files[0].write_bytes(
        b"".join(bytes(8) + entries[at + 8 : at + 20] for at in range(0, 2000, 20)))  # fmt: skip
    offsets(store, topic, queue_id, 0)
    for other in (store / "consumequeue" / topic).iterdir():
        if other.name != str(queue_id):
            shutil.rmtree(other)
    (store / "commitlog" / "0".zfill(20)).unlink()
    live = int.from_bytes(files[1].read_bytes()[:8])
    for release in ("4.9.7", "5.3.3"):
        assert run(store, dry_run=True, rocketmq=release).kept[0].offset == live


def what_needs(root: Path, **options: Any) -> list[tuple[int, str]]:
    """Who needs what of a store that the writer made: segments that stay, and why."""
    options = {"dry_run": True, "now": 1 << 41, "any_hour": True} | options
    reported = expire(str(root), rocketmq="5.3.3", **({"used": lambda path: 0.1} | options))
    return [(each.offset, each.who) for each in reported.kept]


def test_what_waits_stays_wherever_its_end_would_stand(tmp_path: Path) -> None:
    """A pending half message; one that is ended in another segment is not needed."""
    root, clock = tmp_path / "s", Clock(T0)
    body = "x" * 1500
    with writing(disk(root), clock) as writer:
        ends = Transactions(writer)
        ended = half(writer, "ended" + body)
        for _ in range(6):
            writer.append(Message("Orders", body.encode(), 0))
        ends.rollback(ended)
        for _ in range(6):
            writer.append(Message("Orders", body.encode(), 0))
    assert len(list((root / "commitlog").iterdir())) > 3
    assert what_needs(root) == []
    with writing(disk(root), clock) as writer:
        pending = half(writer, "pending")
        due = writer.append(Message("Orders", b"late", 0, delay_level=2)).physical_offset
        timed = {"TIMER_DELAY_MS": "86400000"}
        timer = writer.append(Message("Orders", b"t", 0, properties=timed)).physical_offset
        for _ in range(6):
            writer.append(Message("Orders", body.encode(), 0))
    waits = "2 delayed messages not delivered yet"
    halves = "1 half message not decided yet"
    assert what_needs(root) == [(pending, halves), (due, waits)]
    assert what_needs(root, even_pending=True) == [(due, waits)]
    assert what_needs(root, even_delayed=True) == [(pending, halves)]
    assert what_needs(root, even_delayed=True, even_pending=True) == []
    deliver_delayed(str(root), until=due_at(clock), rocketmq="5.3.3")
    assert what_needs(root, even_pending=True) == [(timer, "1 delayed message not delivered yet")]
    resolve_transactions(str(root), decide="rollback", rocketmq="5.3.3")
    assert what_needs(root, even_delayed=True) == []


def test_half_messages_in_rocksdb_and_what_a_group_gets_again_stay(tmp_path: Path) -> None:
    """Of a real broker's store: the first is pending, and many segments behind it have expired."""
    store, _ = unpack(IN_ROCKSDB, tmp_path)
    given = {"rocketmq": "5.5.0", "even_unread": True, "settings": {"maxHashSlotNum": "50"}}
    assert len(list((store / "commitlog").iterdir())) == 5
    reported = expire(str(store), used=lambda path: 0.1, now=1 << 41, any_hour=True, **given)
    assert [(each.offset, each.who) for each in reported.kept] == [
        (0, "7 half messages not decided yet"),
        (4963, "3 delayed messages not delivered yet")]  # fmt: skip
    assert len(list((store / "commitlog").iterdir())) == 5
    # Its retry topic, of which it has said no offset yet.
    (tmp_path := tmp_path / "later").mkdir()
    root = tmp_path / "s"
    with writing(disk(root), Clock(T0)) as writer:
        again = writer.append(Message("%RETRY%readers", b"again", 0)).physical_offset
        for _ in range(6):
            writer.append(Message("Orders", b"x" * 1500, 0))
    offsets(root, "Orders", 0, 6)
    assert [place for place, _ in what_needs(root)] == [again]
    assert "'%RETRY%readers'" in what_needs(root)[0][1]


def due_at(clock: Clock) -> int:
    """When what waits by level is due, and the timer is not."""
    return clock.now + 3_600_000


@pytest.mark.parametrize("text", ['{"offsetTable":null}', '{"offsetTable":{"topic@group":[1]}}'])
def test_offsets_that_are_none_are_no_offsets(store: Path, text: str) -> None:
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "consumerOffset.json").write_text(text)
    with pytest.raises(StoreError, match="what is unread is not known"):
        run(store, dry_run=True)
    (store / "config" / "consumerOffset.json").unlink()
    (store / "config" / "consumerOffsets").mkdir()
    (store / "config" / "consumerOffsets" / "CURRENT").write_text("MANIFEST-1")
    with pytest.raises(StoreError, match=r"RocksDB cannot be read: .* what is unread is not known"):
        run(store, dry_run=True)


def test_delayed_and_half_messages_stay(store: Path) -> None:
    whole = run(store, dry_run=True)
    delayed = run(store, dry_run=True, even_delayed=False)
    assert len(delayed.segments) < len(whole.segments)
    assert "delayed messages not delivered yet" in delayed.kept[0].who


def checked(folder: Path) -> None:
    """As if `reput check` had found all pieces whole."""
    there = Catalogue(LocalStorage(), str(folder), "store")
    pieces = {piece.name: piece.sha256 for run in there.backups() for piece in run.pieces}
    (folder / "store/checks").mkdir(exist_ok=True)
    whole = {"format": FORMAT, "checked": 1, "runs": {}, "pieces": pieces}
    (folder / "store/checks/1.json").write_text(json.dumps(whole))


def changed(store: Path) -> None:
    """A bit of a body in the log's first segment is the other; its time is as before."""
    first = min((store / "commitlog").iterdir())
    about, raw = os.stat(first), bytearray(first.read_bytes())
    raw[200] ^= 1
    first.write_bytes(raw)
    os.utime(first, ns=(about.st_atime_ns, about.st_mtime_ns))


def test_only_what_a_checked_backup_has_goes(store: Path, tmp_path: Path) -> None:
    whole = run(store, dry_run=True)
    there = tmp_path / "repo"
    with pytest.raises(StoreError, match="is not a backup repository"):
        run(store, backed_up=str(tmp_path))
    backup(str(store), str(there), settings=as_text(golden_stores.unpack("mixed_5.3.3").settings))
    unchecked = run(store, backed_up=str(there), dry_run=True)
    assert unchecked.segments == []
    assert "or no check found it whole" in unchecked.kept[0].who
    checked(there)
    assert run(store, backed_up=str(there), dry_run=True).segments == whole.segments
    changed(store)
    assert run(store, backed_up=str(there), dry_run=True).segments == []
    changed(store)
    assert run(store, backed_up=str(there)).done


def test_the_rest_of_a_piece_is_compared_too(store: Path, tmp_path: Path) -> None:
    """Of a piece whose first segment has expired before."""
    there = tmp_path / "repo"
    backup(str(store), str(there), settings=as_text(golden_stores.unpack("mixed_5.3.3").settings))
    checked(there)
    first = min((store / "commitlog").iterdir())
    first.unlink()
    whole = run(store, dry_run=True)
    assert run(store, dry_run=True, backed_up=str(there)).segments == whole.segments
    changed(store)
    assert run(store, dry_run=True, backed_up=str(there)).segments == []


def test_nothing_goes_without_consent_or_from_a_store_in_use(store: Path) -> None:
    before = unlocked(store)

    def no(what: str) -> None:
        raise StoreError(f"no: {what}")

    with pytest.raises(StoreError, match="no: delete"):
        run(store, confirm=no)
    from reput.jobs.opening.held import held_store

    with held_store(str(store), False) as held:
        held.lock_at_last()
        with pytest.raises(StoreInUse):
            run(store)
    (store / "abort").write_bytes(b"")
    with pytest.raises(StoreError, match="not stopped cleanly"):
        run(store)
    (store / "abort").unlink()
    assert unlocked(store) == before


@pytest.mark.parametrize("now", [-(10**12), 0, NOW - 300 * HOUR])
def test_a_clock_that_was_set_back_expires_nothing(store: Path, now: int) -> None:
    """Before the segments were written, before 1970: of any hour, by any length of time."""
    before = unlocked(store)
    assert not run(store, now=now).needed
    assert not run(store, now=now, any_hour=False).needed
    assert unlocked(store) == before
