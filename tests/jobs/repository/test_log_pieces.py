"""The log that a repository has is the store's, cut back, damaged or expired as it may be."""

import os
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.backups import backups
from reput.jobs.replicating import source
from reput.jobs.repository import log_pieces
from reput.store_format.faults import StoreError
from reput.store_format.files import runs
from reput.store_format.files.local import LocalStorage
from tests.built import Built
from tests.jobs.repository.backing import SEGMENT, catalogue, log_of, run, store, whole_log


def test_a_log_in_pieces_is_whole_and_each_ends_with_a_record(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(log_pieces, "PIECE_BYTES", 3000)
    monkeypatch.setattr(runs, "PIECE_BYTES", 3000)
    monkeypatch.setattr(LocalStorage, "window_bytes", 600)  # the long record comes bit by bit
    monkeypatch.setattr(source, "_LONG_PIECE_BYTES", 200)
    built = Built().put(count=20).put(body=b"x" * 1500).put(count=40, body=b"y" * 300)
    about = run(tmp_path, built)
    assert about.pieces > 5
    assert log_of(tmp_path, 1) == {0: whole_log(built)}
    pieces = catalogue(tmp_path).run(1).pieces
    borders = {*built.places(), about.end, *range(0, about.end, SEGMENT)}
    assert {piece.offset for piece in pieces} <= borders
    assert sum(piece.records for piece in pieces) == 61
    assert pieces[0].times[0] == built.messages[0].store_timestamp
    assert pieces[-1].times[1] == built.messages[-1].store_timestamp


@pytest.mark.parametrize("cut", [31, 25, 8])
def test_a_log_that_went_on_differently_becomes_a_branch(tmp_path: Path, cut: int) -> None:
    old = Built().put(count=20)
    run(tmp_path, old)
    run(tmp_path, old.put(count=15))
    before, end = log_of(tmp_path, 2), catalogue(tmp_path).run(2).end
    other = Built().put(count=cut).put(count=30, body=b"other")
    about = run(tmp_path, other)
    at = other.places()[cut]
    assert about.branch is not None
    assert (about.begin, about.branch.differs_at, about.branch.parent_end) == (at, at, end)
    assert log_of(tmp_path, 3) == {0: whole_log(other)}
    assert log_of(tmp_path, 2) == before
    assert [each.run for each in catalogue(tmp_path).heads()] == [2, 3]
    assert run(tmp_path, other.put(count=3)).branch is None
    assert log_of(tmp_path, 4) == {0: whole_log(other)}


def test_a_log_that_was_only_cut_back_is_a_branch_too(tmp_path: Path) -> None:
    old = Built().put(count=30)
    run(tmp_path, old)
    short = Built().put(count=9)
    about = run(tmp_path, short)
    assert (about.end, about.bytes) == (len(whole_log(short)), 0)
    assert about.branch is not None
    assert log_of(tmp_path, 2) == {0: whole_log(short)}
    assert run(tmp_path, short.put(count=1, body=b"new")).branch is None
    assert log_of(tmp_path, 3) == {0: whole_log(short)}


def test_a_log_that_lost_its_first_segment_and_was_cut_back_is_the_same_log(tmp_path: Path) -> None:
    built = Built().put(count=60)
    kept = run(tmp_path, built)  # one piece of several segments
    other = Built().put(count=50).put(count=15, body=b"other")
    store(tmp_path, other)
    (tmp_path / f"store/commitlog/{0:020d}").unlink()
    about = run(tmp_path)
    assert about.branch is not None
    assert (about.branch.parent_end, about.begin) == (kept.end, built.places()[50])
    assert log_of(tmp_path, 2) == {0: whole_log(other)}


def test_segments_that_expired_first_are_a_named_gap_and_others_stay(tmp_path: Path) -> None:
    built = Built().put(count=20)
    kept = run(tmp_path, built)
    built.put(count=60)
    store(tmp_path, built)
    names = sorted(os.listdir(tmp_path / "store/commitlog"))
    for name in names[:-2]:
        (tmp_path / "store/commitlog" / name).unlink()
    about = run(tmp_path)
    begin = int(names[-2])
    assert about.gap == (kept.end, begin)
    log = whole_log(built)
    assert log_of(tmp_path, 2) == {0: log[: kept.end], begin: log[begin:]}
    assert catalogue(tmp_path).gaps(catalogue(tmp_path).run(2)) == [(kept.end, begin)]
    (row, _) = backups(str(tmp_path / "repo"))
    assert (row.gaps, row.first, row.end) == ([(kept.end, begin)], 0, len(log))


def test_damage_with_records_after_it_is_kept_and_named(tmp_path: Path) -> None:
    built = Built().put(count=40)
    places = built.places()
    name = f"commitlog/{0:020d}"
    built.damage(name, places[5] + 4, b"\0\0\0\0").damage(name, places[6] + 4, b"\1")
    about = run(tmp_path, built)
    assert about.damaged == [(places[5], places[7])]
    assert not about.good
    there = built.contents()
    raw = b"".join(there[each] for each in sorted(there) if each.startswith("commitlog/"))
    assert log_of(tmp_path, 1) == {0: raw[: about.end]}
    assert about.records == 38
    assert run(tmp_path).damaged == []  # of what is new


def test_a_missing_segment_ends_a_backup_and_is_said_each_time(tmp_path: Path) -> None:
    built = Built().put(count=60)
    path = Path(store(tmp_path, built)) / "commitlog" / f"{SEGMENT:020d}"
    path.rename(tmp_path / "away")
    for _ in range(2):
        about = run(tmp_path)
        assert (about.end, about.good) == (SEGMENT, False)
        assert "a segment is missing before it" in about.warnings[-1]
    (tmp_path / "away").rename(path)
    assert run(tmp_path).good
    assert log_of(tmp_path, 3) == {0: whole_log(built)}


def test_a_torn_end_is_not_backed_up_until_it_is_whole(tmp_path) -> None:
    built = Built().put(count=10)
    places, name = built.places(), f"commitlog/{0:020d}"
    end = len(whole_log(built))
    torn = Built().put(count=10).damage(name, places[-1] + 40, bytes(end - places[-1] - 40))
    about = run(tmp_path, torn)
    assert (about.end, about.good) == (places[-1], True)
    assert run(tmp_path, built).begin == places[-1]
    assert log_of(tmp_path, 2) == {0: whole_log(built)}


def test_the_last_record_of_a_running_brokers_log_is_read_until_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, real = Built().put(count=10, keys="k"), log_pieces.read_log
    whole = whole_log(built)
    path = tmp_path / f"store/commitlog/{0:020d}"

    def read_log(*asked: Any) -> None:
        path.write_bytes(whole + path.read_bytes()[len(whole) :])  # the broker goes on
        real(*asked)

    monkeypatch.setattr(LocalStorage, "lock_holder", lambda *_: 1)
    monkeypatch.setattr(log_pieces, "read_log", read_log)
    run(
        tmp_path,
        Built().put(count=10, keys="k").damage(f"commitlog/{path.name}", len(whole) - 2, b"?"),
    )
    assert log_of(tmp_path, 1) == {0: whole}
    assert run(tmp_path).branch is None


@pytest.mark.parametrize("expired", [False, True])
def test_another_store_is_refused(tmp_path: Path, expired: bool) -> None:
    """expired: its log begins where that of the repository ended long ago, as after a gap."""
    run(tmp_path, Built().put(count=30))
    other = Built(start=9 * SEGMENT * expired).put("Other", count=30, body=b"other")
    with pytest.raises(StoreError, match=r"is not the log of which .*; --store NAME begins"):
        run(tmp_path, other)
    assert run(tmp_path, name="second").run == 1
    assert sorted(os.listdir(tmp_path / "repo")) == ["reput-repository.json", "second", "store"]
