"""A growing log is caught up with in rounds, as far as its files are there without a hole."""

import shutil
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reput.jobs.catch_up import Follow, catch_up
from reput.jobs.in_place import follow as follow_module
from reput.jobs.in_place.catch_up import CaughtUp
from reput.jobs.in_place.follow import LogListing, consented, follow, growing_plan, one_round
from reput.jobs.opening.held import held_store
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import ANY_TIME
from reput.store_format.notes import Progress
from tests.broker.services.stores import SIZES, T0, delayed, disk, writing
from tests.broker.writer.stores import TINY, Clock
from tests.damaged import SEGMENT, damaged, messages
from tests.in_process import as_text

LOG = damaged(messages(100))  # three segments
SETTINGS = as_text(LOG.settings)


def at(store: Path) -> StoreAt:
    return StoreAt(LocalStorage(), str(store), "5.3.3", SETTINGS)


def write(store: Path, *lengths: int | None) -> Path:
    """So many bytes of each segment are there; None: it is not there."""
    (store / "commitlog").mkdir(exist_ok=True)
    for number, length in enumerate(lengths):
        if length is not None:
            raw = LOG.segments[number * SEGMENT].ljust(length, b"\0")[:length]
            (store / "commitlog" / f"{number * SEGMENT:020d}").write_bytes(raw)
    return store


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ((SEGMENT, SEGMENT, SEGMENT), [0, 1, 2]),
        ((SEGMENT, None, SEGMENT), [0]),
        ((None, SEGMENT, SEGMENT), [1, 2]),  # older ones have expired
        ((SEGMENT, 100, SEGMENT), [0, 1]),
        ((100, SEGMENT), [0]),
    ],
)
def test_segments_count_up_to_the_first_hole_or_unfinished_one(lengths, kept, tmp_path) -> None:
    plan = growing_plan(at(write(tmp_path, *lengths)))
    assert [segment.start // SEGMENT for segment in plan.segments] == kept
    assert {segment.state.mtime for segment in plan.segments} == {ANY_TIME}


def test_before_the_first_byte_nothing_is_done_and_it_waits_no_longer_than_it_is_told(tmp_path):
    for lengths in (None, (), (0,)):
        if lengths is not None:
            write(tmp_path, *lengths)
        with held_store(str(tmp_path), dry_run=False) as held:
            how = Follow(str(tmp_path), every=0, idle=0.01, confirm=pytest.fail, said=pytest.fail)
            assert follow(how, held, at(tmp_path)) is None
            if lengths is not None:
                assert one_round(held, at(tmp_path), Progress(), pytest.fail) == (None, ())
    assert [path.name for path in tmp_path.iterdir()] == ["commitlog"]
    with pytest.raises(StoreError, match=r"has 4097 bytes, but mappedFileSizeCommitLog is 4096"):
        growing_plan(at(write(tmp_path, SEGMENT, SEGMENT + 1)))


def test_the_last_record_counts_once_the_log_has_stood_still(tmp_path: Path) -> None:
    """Its last bytes may not be there yet."""
    last = max(n for n, place in enumerate(LOG.places) if place < SEGMENT)
    end = LOG.places[last] + LOG.size(last)
    assert end < SEGMENT - 8
    write(tmp_path, end)
    with held_store(str(tmp_path), dry_run=False) as held:
        first, seen = one_round(held, at(tmp_path), Progress(), consented)
        second, again = one_round(held, at(tmp_path), Progress(), consented, seen)
        third, _ = one_round(held, at(tmp_path), Progress(), consented, again)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.entries + second.entries, third.needed) == (last + 1, False)
    assert second.log_end == end


def test_it_ends_when_nothing_has_come_and_asks_once(tmp_path: Path) -> None:
    write(tmp_path, SEGMENT)
    asked: list[str] = []
    told: list[CaughtUp] = []

    def said(about: CaughtUp) -> None:
        told.append(about)
        if len(told) == 1:
            write(tmp_path, SEGMENT, SEGMENT, SEGMENT)

    with held_store(str(tmp_path), dry_run=False) as held:
        how = Follow(str(tmp_path), every=0, idle=0, confirm=asked.append, said=said)
        last = follow(how, held, at(tmp_path))
    assert last is not None
    assert len(asked) == 1
    assert sum(each.entries for each in told) == 100
    assert last.log_end == LOG.places[99] + LOG.size(99)


def test_idle_seconds_begin_anew_as_the_log_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes in pieces of half a record, two seconds apart; then nothing more."""
    now, rounds = [0.0], iter([1, 2, 3, 4, 4, 4, 4])
    monkeypatch.setattr(follow_module, "one_round", lambda *_: (None, (next(rounds),)))
    clock = Mock(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(follow_module, "time", clock)
    how = Follow("", every=2, idle=3, confirm=pytest.fail, said=pytest.fail)
    assert follow(how, Mock(), Mock()) is None
    assert (now, next(rounds)) == ([10.0], 4)


def test_what_waits_is_written_at_its_end_or_by_the_next_catch_up(tmp_path: Path) -> None:
    """Each round takes `abort` away before what follows the log is known for good."""
    config = tmp_path / "store/config"
    with writing(disk(tmp_path / "store"), Clock(T0)) as writer:
        writer.append(delayed("late", 1))
    config.mkdir()
    (config / "consumerOffset.json").write_text('{"offsetTable":{}}')
    given = as_text(TINY | SIZES)
    source = at(tmp_path / "store")._replace(settings=given)
    for ends in (True, False):
        shutil.rmtree(tmp_path / "store/consumequeue")
        (config / "delayOffset.json").unlink(missing_ok=True)
        with held_store(source.path, dry_run=False) as held:
            if ends:
                told: list[CaughtUp] = []
                follow(Follow(source.path, every=0, idle=0, said=told.append), held, source)
                assert [bool(each.waits) for each in told][-1]
            else:
                seen: LogListing = ()
                for _ in range(2):  # and it is killed
                    _, seen = one_round(held, source, Progress(), consented, seen)
        assert (config / "delayOffset.json").exists() == ends
    words: dict[str, Any] = {"rocketmq": "5.3.3", "settings": given}
    found = [catch_up(source.path, dry_run=dry, **words) for dry in (True, False, False)]
    assert [(each.needed, each.done) for each in found] == [(True, False), (True, True),
                                                            (False, False)]  # fmt: skip
    assert (config / "delayOffset.json").exists()
