"""`reput replicate` from a folder: byte for byte, killed anywhere, refused where it must be."""

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from reput.broker.change.replica import NOTE
from reput.jobs.console.options import byte_rate
from reput.jobs.outputs.output import OverlapsInput
from reput.jobs.replicate import add_arguments, replicate
from reput.jobs.replicate import run as run_command
from reput.jobs.replicating.from_folder import Replication
from reput.jobs.replicating.source import SourceCleaned
from reput.jobs.replicating.target import ReplicaDiffers
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.release.settings import SettingError
from tests.jobs.replicating import stores
from tests.logs.encoder import build_log
from tests.memory_storage import MemoryStorage
from tests.trees import flip, write_over


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return stores.make_store(tmp_path / "source")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "replica"


def test_the_same_bytes_and_a_clean_store(target: Path, source: Path) -> None:
    end = stores.record_starts(stores.log_of(source))[1]
    assert stores.run(source, target, dry_run=True).end == end
    assert not target.exists()
    about = stores.run(source, target)
    assert stores.log_of(target) == stores.log_of(source)
    assert (about.records, about.end) == (40, end)
    assert {path.name for path in target.iterdir()} == {
        "checkpoint", "commitlog", "config", "consumequeue", "index", "lock", "reput-replica.json",
    }  # fmt: skip
    config = {path.name for path in (target / "config").iterdir()}
    assert config == {"topics.json", "consumerOffset.json"}


def test_as_far_as_is_wanted(source: Path, tmp_path: Path) -> None:
    starts, end = stores.record_starts(stores.log_of(source))
    about = stores.run(source, tmp_path / "offset", to_offset=starts[20] + 5)
    assert about.end == stores.check_prefix(source, tmp_path / "offset") == starts[20]
    about = stores.run(source, tmp_path / "replica", to_offset=starts[13])
    assert about.records == 13
    assert stores.check_prefix(source, tmp_path / "replica") == starts[13]
    offsets = json.loads((tmp_path / "replica/config/consumerOffset.json").read_text())
    assert offsets == {"offsetTable": {"T0@g": {"0": 1}}}  # no further than its queues go
    assert stores.run(source, tmp_path / "replica").end == end


def test_a_record_that_waited_is_counted_once(source: Path, tmp_path: Path) -> None:
    """Of a live source the last one is read in two rounds."""
    about = stores.run(
        source, tmp_path / "replica", follow=True, every=0.01, idle=0.05, derive=False
    )
    assert (about.records, about.behind) == (len(stores.record_starts(stores.log_of(source))[0]), 0)


def test_words_that_say_nothing_are_refused() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    seconds = ("--every nan", "--every inf", "--idle nan", "--derive-every 0")
    for words, said in (
        ("a b --to-offset -5", "below 0"), ("--master h:1 b --from-offset -1", "below 0"),
        ("--master h:1 b --verify", "no master gives twice"), ("a ", "TARGET is empty"),
        *((f"a b --follow {each}", "are seconds") for each in seconds)):  # fmt: skip
        with pytest.raises(SettingError, match=said):
            run_command(parser.parse_args(words.split(" ")))


def killed_at(source: Path, target: Path, at: int) -> bool:
    """Replicate until operation `at`; whether it came so far."""
    try:
        with stores.killing(stores.Kills(at)):
            stores.run(source, target)
    except stores.Killed:
        return True
    return False


def not_asked(what: str) -> None:
    raise AssertionError(f"asked to {what}")


def kill_everywhere(tmp_path: Path, first: int, step: int) -> int:
    """A first part, then killed at each operation of the rest, then run to the end."""
    source, target, begun = (tmp_path / name for name in ("source", "replica", "begun"))
    whole = tmp_path / "whole"
    stores.make_store(source)
    stores.run(source, whole)
    wanted = stores.derived(whole)
    if first:
        stores.make_store(source, first)
        stores.run(source, begun)
        stores.make_store(source)
    at = 0
    while True:
        stores.clear(target)
        if first:
            shutil.copytree(begun, target)
        killed = killed_at(source, target, at)
        if target.exists():
            stores.check_prefix(source, target)
        if not killed:
            return at
        stores.run(source, target, confirm=not_asked)
        assert stores.log_of(target) == stores.log_of(source), at
        found = stores.derived(target)
        assert {k: v for k, v in found.items() if k != "index"} == {
            k: v for k, v in wanted.items() if k != "index"
        }, at
        assert not (target / "abort").exists()
        at += step


@pytest.mark.parametrize("step", [37, pytest.param(5, marks=pytest.mark.long)])
def test_killed_at_some_operations(step: int, tmp_path: Path) -> None:
    assert kill_everywhere(tmp_path, 0, step) > 60
    assert kill_everywhere(tmp_path / "more", 12, step + 1) > 60


def another_log(source: Path, target: Path) -> None:
    changed = stores.messages(45)
    changed[39] = replace(changed[39], body=b"x" * 7)
    stores.put_log(source, build_log(changed, stores.SEGMENT_BYTES))


# what is done to source and target -> what is said
REFUSED: dict[str, Callable[[Path, Path], object]] = {
    "no beginning of that log": another_log,
    "at offset 60": lambda source, target: flip(target / f"commitlog/{0:020d}", 60),
    "log": lambda source, target: stores.put_end(
        source, stores.record_starts(stores.log_of(source))[0][30]),
    "reput recover": lambda source, target: (target / "abort").write_bytes(b"4711")}  # fmt: skip


@pytest.mark.parametrize("said", REFUSED)
def test_another_log_or_target_is_refused(said: str, target: Path, source: Path) -> None:
    stores.run(source, target)
    REFUSED[said](source, target)
    before = stores.log_of(target)
    error = StoreError if said == "reput recover" else ReplicaDiffers
    with pytest.raises(error, match=said):
        stores.run(source, target)
    assert stores.log_of(target) == before


def test_what_differs_in_the_midst_is_found_where_all_is_compared(target, source) -> None:
    stores.put_log(source, build_log(stores.messages(120), stores.SEGMENT_BYTES))
    starts, end = stores.record_starts(stores.log_of(source))
    stores.run(source, target, to_offset=starts[-1])
    place = next(start for start in starts if start > 5000)  # behind what is always compared
    path = source / f"commitlog/{place - place % stores.SEGMENT_BYTES:020d}"
    flip(path, place % stores.SEGMENT_BYTES + 60)
    before = stores.log_of(target)
    with pytest.raises(ReplicaDiffers, match=f"physical offset {place + 60}"):
        stores.run(source, target, verify=True)
    assert stores.log_of(target) == before
    assert stores.run(source, target).end == end  # its ends alone do not tell


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize("count", [10, 120])
def test_what_a_power_cut_tore_is_copied_again(count: int, verify: bool, tmp_path: Path) -> None:
    """Zeros in the last record's properties, which no CRC covers, and no note of where it ends."""
    source, target = tmp_path / "source", tmp_path / "replica"
    stores.make_store(source, count)
    stores.run(source, target, derive=False)
    (target / NOTE).unlink()
    starts, end = stores.record_starts(stores.log_of(target))
    path = target / f"commitlog/{starts[-1] - starts[-1] % stores.SEGMENT_BYTES:020d}"
    write_over(path, end % stores.SEGMENT_BYTES - 4, bytes(4))
    assert stores.run(source, target, verify=verify).resumed_at == starts[-1]
    assert stores.log_of(target) == stores.log_of(source)


def test_what_a_power_cut_tore_before_the_first_note_is_copied_again(tmp_path: Path) -> None:
    """Of a new replica nothing is durable until a note says so: not its first segments either."""
    source, target, whole = (tmp_path / name for name in ("source", "replica", "whole"))
    stores.make_store(source, 120)
    with stores.killing(stores.Kills()) as operations:
        stores.run(source, whole, derive=False)
    assert killed_at(source, target, operations.count // 2)
    assert len(stores.log_of(target)) > 2
    path = target / f"commitlog/{0:020d}"
    path.write_bytes(
        path.read_bytes()[: stores.SEGMENT_BYTES // 2].ljust(stores.SEGMENT_BYTES, b"\0")
    )
    stores.run(source, target)
    assert stores.log_of(target) == stores.log_of(source)


def test_a_cleaned_source_is_reported(target: Path, source: Path) -> None:
    """Its first segments may go; what the replica lacks may not."""
    stores.run(source, target, to_offset=stores.SEGMENT_BYTES)
    (source / f"commitlog/{0:020d}").unlink()
    stores.run(source, target, to_offset=2 * stores.SEGMENT_BYTES)
    for number in (1, 2):
        (source / f"commitlog/{number * stores.SEGMENT_BYTES:020d}").unlink()
    with pytest.raises(ReplicaDiffers, match="was deleted there"):
        stores.run(source, target)


def test_a_segment_that_goes_under_the_reader_is_reported(source: Path, tmp_path: Path) -> None:
    from reput.jobs.replicating.source import SourceLog

    listed = SourceLog.refresh

    def gone(self: SourceLog) -> None:
        listed(self)
        (source / f"commitlog/{stores.SEGMENT_BYTES:020d}").unlink(missing_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceLog, "refresh", gone)
        with pytest.raises(SourceCleaned, match="was cleaned while it was copied"):
            stores.run(source, tmp_path / "replica")
    assert stores.check_prefix(source, tmp_path / "replica") == stores.SEGMENT_BYTES


def test_damage_ends_the_replica_before_it(source: Path, tmp_path: Path) -> None:
    starts, _ = stores.record_starts(stores.log_of(source))
    path = source / f"commitlog/{starts[9] - starts[9] % stores.SEGMENT_BYTES:020d}"
    flip(path, starts[9] % stores.SEGMENT_BYTES + 95)  # in the body
    with pytest.raises(DamageFound, match="bodyCRC"):
        stores.run(source, tmp_path / "replica")
    assert stores.check_prefix(source, tmp_path / "replica") == starts[9]


def test_what_is_no_replica_stays(target: Path, source: Path, tmp_path: Path) -> None:
    with pytest.raises(OverlapsInput):
        stores.run(source, source / "inside")
    with pytest.raises(OverlapsInput):
        stores.run(source, source)
    target.mkdir()
    (target / "letters.txt").write_text("mine")
    with pytest.raises(StoreError, match="holds no commitlog"):
        stores.run(source, target)
    stores.clear(target)
    (tmp_path / "elsewhere").mkdir()
    target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="not a folder"):
        stores.run(source, target)
    target.unlink()
    shutil.copytree(source, target)
    os.link(target / f"commitlog/{0:020d}", tmp_path / "second")
    with pytest.raises(StoreError, match="hard link"):
        stores.run(source, target)


@pytest.mark.parametrize("link", ["consumequeue", "consumequeue/T0", "consumequeue/T0/0", "index"])
def test_queues_and_index_that_are_links_to_anothers_stay(source, tmp_path, link) -> None:
    other, target = tmp_path / "other", tmp_path / "replica"
    stores.run(source, other)
    before = stores.derived(other)
    (target / "commitlog").mkdir(parents=True)
    (target / link).parent.mkdir(parents=True, exist_ok=True)
    (target / link).symlink_to(other / link)
    with pytest.raises(StoreError, match="is a link"):
        stores.run(source, target)
    assert stores.derived(other) == before
    assert not list((target / "commitlog").iterdir())


def test_queues_without_their_log_stay(target: Path, source: Path) -> None:
    stores.run(source, target)
    before = stores.derived(target)
    for path in (target / "commitlog").iterdir():
        path.unlink()
    (target / "reput-replica.json").unlink()
    with pytest.raises(StoreError, match="no log that they are of"):
        stores.run(source, target, confirm=lambda _: None)
    assert stores.derived(target) == before


def test_a_copied_store_is_asked_about_and_one_in_use_refused(target: Path, source: Path) -> None:
    shutil.copytree(source, target)
    asked = []

    def no(what: str) -> None:
        asked.append(what)
        raise StoreError("nothing was done")

    with pytest.raises(StoreError, match="nothing was done"):
        stores.run(source, target, confirm=no)
    assert len(asked) == 1
    stores.make_store(source, 44)
    stores.run(source, target)
    assert stores.log_of(target) == stores.log_of(source)
    stores.run(source, target)
    release = DiskFiles(str(target)).lock("lock")
    try:
        with pytest.raises(StoreInUse):
            stores.run(source, target)
    finally:
        release()


def test_config_that_somebody_changed_stays(target: Path, source: Path) -> None:
    stores.run(source, target)
    (source / "config/topics.json").write_text('{"topicConfigTable":{"a":{}}}')
    stores.run(source, target)
    assert "a" in (target / "config/topics.json").read_text()
    (target / "config/topics.json").write_text("mine")
    (source / "config/topics.json").write_text('{"topicConfigTable":{"b":{}}}')
    about = stores.run(source, target)
    assert (target / "config/topics.json").read_text() == "mine"
    assert any("topics.json" in line for line in about.warnings)


def sleeping(sleep: Callable[[float], None]) -> SimpleNamespace:
    """The module `time` for the replication alone: other tests' threads may still be asleep."""
    return SimpleNamespace(**{**vars(time), "sleep": sleep})


def test_the_last_record_of_a_growing_log_waits(tmp_path: Path) -> None:
    """Zeros in its properties are found by no CRC; it comes when something follows, or it stays."""
    source, target = tmp_path / "source", tmp_path / "replica"
    stores.make_store(source, 10)
    starts, end = stores.record_starts(stores.log_of(source))
    path = source / f"commitlog/{starts[9] - starts[9] % stores.SEGMENT_BYTES:020d}"
    whole = path.read_bytes()
    torn = bytearray(whole)
    at = end % stores.SEGMENT_BYTES
    torn[at - 4 : at] = bytes(4)
    path.write_bytes(torn)
    ends = []

    def sleep(_: float) -> None:
        ends.append(stores.check_prefix(source, target))
        path.write_bytes(whole)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reput.jobs.replicating.from_folder.time", sleeping(sleep))
        stores.run(source, target, follow=True, idle=0)
    assert ends[0] == starts[9]
    assert stores.log_of(target) == stores.log_of(source)


def test_a_log_that_grows_while_its_end_is_judged(tmp_path: Path) -> None:
    """What stood behind its end by then is no sign of damage: the end itself has moved on."""
    source, target = tmp_path / "source", tmp_path / "replica"
    stores.make_store(source, 5)
    ended = Replication._judge_end

    def later(self: Replication) -> None:
        stores.make_store(source, 40)
        self.source.refresh()
        ended(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Replication, "_judge_end", later)
        about = stores.run(source, target)
    assert about.records == 5
    assert stores.check_prefix(source, target) == about.end


def test_a_log_that_grows_is_followed(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "replica"
    stores.make_store(source, 5)
    counts = iter((9, 22, 40))

    def grow(_: float) -> None:
        stores.check_prefix(source, target)
        count = next(counts, None)
        if count is not None:
            stores.make_store(source, count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reput.jobs.replicating.from_folder.time", sleeping(grow))
        about = stores.run(source, target, follow=True, idle=0.05, derive_every=1e-9)
    assert stores.log_of(target) == stores.log_of(source)
    assert about.end == stores.record_starts(stores.log_of(source))[1]


def test_a_source_far_away_that_grows(tmp_path: Path) -> None:
    """As on S3: an object that has grown is another version, and is listed anew."""
    local, target = tmp_path / "source", tmp_path / "replica"
    ends = []
    for count in (7, 33, 40):
        stores.make_store(local, count)
        files = {
            f"store/commitlog/{start:020d}": data for start, data in stores.log_of(local).items()
        }
        last = max(files)
        files[last] = files[last].rstrip(b"\0")  # as much as has been uploaded
        files["store/config/topics.json"] = (local / "config/topics.json").read_bytes()
        storage = MemoryStorage(files)
        about = replicate(
            "store",
            str(target),
            storage=storage,
            rocketmq="5.3.3",
            settings=stores.SETTINGS,  # type: ignore[arg-type]
        )
        ends.append(stores.check_prefix(local, target))
        assert about.end == ends[-1] == stores.record_starts(stores.log_of(local))[1]
    assert stores.log_of(target) == stores.log_of(local)


def test_rates() -> None:
    assert [byte_rate(text) for text in ("1", "2K", "50MB", "1g")] == [1, 2048, 50 << 20, 1 << 30]
    for wrong in ("", "0", "-1", "x", "1.5M", "M"):
        with pytest.raises(SettingError):
            byte_rate(wrong)
