"""An opened log: parts that cover it once, its present end, and the places where reading begins."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from reput.jobs.sources import opened_log
from reput.jobs.sources.options import EARLIEST, LATEST, SourceOptions
from reput.store_format.faults import SALVAGE, DamageFound, StoreError
from reput.store_format.release.profiles import RELEASES
from reput.udfs.table.log_parts import LogParts
from tests import golden_stores
from tests.built import write_log
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.in_process import STORE, as_text
from tests.jobs.found import found
from tests.logs import build_log, small

OPTIONS = SourceOptions(STORE)


def opened(log: Damaged, options: SourceOptions = OPTIONS, grows: bool = False) -> LogParts:
    return opened_log.parts_log(found(log.log).plan, options, True, grows)


def older(name: str) -> list[int]:
    """The segments of a golden store that have damage or an older life."""
    store = golden_stores.unpack(name)
    given = {"rocketmq": store.version, "settings": as_text(store.settings), "on_damage": SALVAGE}
    options = SourceOptions(str(store.input), **given)
    log = opened_log.parts_log(opened_log.plan_of(options), options, False, False)
    return sorted(log.judged(log.segments[-1].end).live)


def end(log: Damaged) -> int:
    last = len(log.messages) - 1
    return log.places[last] + log.size(last)


def with_spare(**more: int) -> Damaged:
    return damaged(messages(60), extra_segments=1, **more)


@pytest.mark.parametrize("version", ["4.1.0", "4.9.7", "5.3.3", "5.5.0"])
def test_a_store_with_odd_times_and_queue_offsets_has_no_older_life(version: str) -> None:
    """Its queueOffsets have gaps, repeats and zeros, its times fall: no broker wrote them so."""
    assert older(f"odd_{version}") == []


@pytest.mark.long
def test_only_golden_stores_with_damage_have_an_older_life() -> None:
    found = {name for name in golden_stores.names() if older(name)}
    assert {name.partition("_")[0] for name in found} == {"bad", "continued", "garbage", "middle",
                                                          "torn"}  # fmt: skip


@pytest.mark.parametrize("wanted", [None, 1, 2, 7])
def test_parts_cover_the_written_segments_once_and_in_order(wanted: int | None) -> None:
    log = opened(with_spare())
    assert [s.start for s in log.segments] == [0, SEGMENT, 2 * SEGMENT]
    parts = opened_log.cut(log, 0, 3 * SEGMENT, 4, wanted)
    assert {part.segment for part in parts} == {0, 1}
    edges = [(part.start, part.stop) for part in parts]
    assert (edges[0][0], edges[-1][1]) == (0, 2 * SEGMENT)
    assert all(a[1] == b[0] for a, b in pairwise(edges))
    assert all(part.known == log.segments[part.segment].start for part in parts)
    assert len(parts) >= (wanted or 2)


def test_the_end_is_behind_the_last_whole_record() -> None:
    for log in (damaged(), with_spare()):
        assert opened_log.end_of_log(opened(log), 0) == end(log)
        assert opened_log.end_of_log(opened(log), log.places[50]) == end(log)
    empty = damaged(messages(1))
    empty.segments[0][:] = bytes(SEGMENT)
    assert opened_log.end_of_log(opened(empty), 0) == 0
    full = damaged()
    del full.segments[SEGMENT]
    assert opened_log.end_of_log(opened(full), 0) == SEGMENT
    log = damaged()
    log.put(end(log) - 1, b"\0")  # the last 02 of its properties: it is complete with the next look
    assert opened_log.end_of_log(opened(log), 0) == log.places[-1]
    log = damaged()
    log.put(log.places[-1] + 50, bytes(log.size(59) - 50))
    assert opened_log.end_of_log(opened(log), 0) == log.places[-1]
    log = damaged()
    log.flip(50, 5)
    with pytest.raises(DamageFound, match="magic"):
        opened_log.end_of_log(opened(log), 0)
    passing = replace(OPTIONS, on_damage=SALVAGE)
    assert opened_log.end_of_log(opened(log, passing), 0) == end(log)


def test_reading_begins_at_the_first_record_at_or_after_a_place() -> None:
    log = damaged()
    parts = opened(log)
    last_of_first = max(at for at in log.places if at < SEGMENT)
    assert opened_log.place_of(parts, EARLIEST) == 0
    assert opened_log.offset_after(parts, log.places[5], 0, end(log)) == log.places[5]
    assert opened_log.place_of(parts, LATEST) == end(log)
    for said, place in ((0, 0), (1, log.places[1]), (log.places[9], log.places[9]),
                        (last_of_first + 1, SEGMENT), (end(log), 2 * SEGMENT),
                        (9 * SEGMENT, 2 * SEGMENT)):  # fmt: skip
        assert opened_log.place_of(parts, said) == place, said
    whole = opened(damaged(messages(100)), replace(OPTIONS, on_damage=SALVAGE))
    parts = replace(whole, segments=(whole.segments[0], whole.segments[2]))
    for said in (SEGMENT, SEGMENT + 10, 2 * SEGMENT):
        assert opened_log.place_of(parts, said) == 2 * SEGMENT


def test_a_log_of_an_unknown_release_is_read_as_the_newest(tmp_path: Path) -> None:
    store = write_log(tmp_path / "store", build_log(small.messages(3), small.SEGMENT))
    plan = opened_log.plan_of(SourceOptions(str(store), settings=small.SETTINGS))
    assert plan.profile.release == RELEASES[-1]
    with pytest.raises(StoreError):
        opened_log.plan_of(SourceOptions(str(tmp_path / "none")))


def test_salvage_takes_a_store_with_files_of_a_wrong_length(tmp_path: Path) -> None:
    store = write_log(tmp_path / "store", build_log(small.messages(60), small.SEGMENT))
    (store / "commitlog" / f"{0:020d}").write_bytes(b"short")
    options = SourceOptions(str(store), "5.3.3", small.SETTINGS)
    with pytest.raises(StoreError):
        opened_log.plan_of(options)
    assert opened_log.plan_of(replace(options, on_damage=SALVAGE)).odd == {0}
