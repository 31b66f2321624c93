"""A forget removes what no kept backup needs, and nothing else."""

import os
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.forget import forget
from reput.jobs.repository.forget import Forgotten, stays
from reput.store_format.faults import StoreError
from reput.store_format.release.settings import SettingError
from tests.built import Built
from tests.jobs.repository.backing import catalogue, content, log_of, run, store, whole_log
from tests.store_format.files.repositories import run_of

_OLD = 3_600_000_000_000 * 2


def thin(folder: Path, **keep: Any) -> Forgotten:
    (found,) = forget(str(folder / "repo"), **keep)
    return found


def files(folder: Path) -> set[str]:
    base = folder / "repo/store"
    return {str(each.relative_to(base)) for each in base.rglob("*") if each.is_file()}


def test_what_kept_backups_need_stays(tmp_path: Path) -> None:
    built = Built().put(count=20)
    run(tmp_path, built)
    run(tmp_path, built.put(count=20).file("config/topics.json", '{"topicConfigTable":{}}'))
    run(tmp_path, built.put(count=20))
    before = files(tmp_path)
    would = thin(tmp_path, keep_last=2, dry_run=True)
    assert (would.removed, would.done, files(tmp_path)) == ([1], False, before)
    done = thin(tmp_path, keep_last=2)
    assert (done.removed, done.kept, done.pieces, done.files) == ([1], 2, 0, 1)
    assert log_of(tmp_path, 3) == {0: whole_log(built)}
    there = catalogue(tmp_path)
    assert [each.run for each in there.backups()] == [2, 3]
    assert content(tmp_path, there.run(2), "config/topics.json") == b'{"topicConfigTable":{}}'
    run(tmp_path, built.put(count=5))
    thin(tmp_path, keep_last=1)
    assert [each.run for each in catalogue(tmp_path).backups()] == [5]
    assert log_of(tmp_path, 5) == {0: whole_log(built)}
    assert {name for name in files(tmp_path) if name.startswith("runs/")} == {
        "runs/00000005.json", "runs/00000006.json",
    }  # fmt: skip
    assert run(tmp_path, built.put(count=5)).begin == catalogue(tmp_path).run(5).end


def test_segments_that_the_broker_deleted_go_with_the_last_backup_that_had_them(tmp_path) -> None:
    built = Built().put(count=25)
    run(tmp_path, built)
    run(tmp_path, built.put(count=40))
    names = sorted(os.listdir(tmp_path / "store/commitlog"))
    for name in names[:-1]:
        (tmp_path / "store/commitlog" / name).unlink()
    about = run(tmp_path)
    assert (about.gap, about.first) == (None, 0)
    done = thin(tmp_path, keep_last=1)
    assert (done.removed, done.pieces) == ([1, 2], 1)
    ((first, raw),) = log_of(tmp_path, 3).items()
    assert 0 < first <= int(names[-1])
    assert raw == whole_log(built)[first:]
    assert run(tmp_path, built.put(count=3)).gap is None


def test_the_newest_of_each_branch_stays(tmp_path: Path) -> None:
    run(tmp_path, Built().put(count=30))
    other = Built().put(count=15).put(count=9, body=b"other")
    run(tmp_path, other)
    run(tmp_path, other.put(count=9))
    done = thin(tmp_path, keep=1)
    assert (done.removed, done.kept) == ([2], 2)
    assert log_of(tmp_path, 1) == {0: whole_log(Built().put(count=30))}
    assert log_of(tmp_path, 3) == {0: whole_log(other)}


def test_what_an_old_branch_keeps_is_its_own(tmp_path: Path) -> None:
    """Its log, not all of the newer one's; and a gap of that is no hole that nobody named."""
    run(tmp_path, Built().put(count=30))
    other = Built().put(count=15).put(count=9, body=b"other")
    run(tmp_path, other)
    store(tmp_path, other.put(count=100))
    names = sorted(os.listdir(tmp_path / "store/commitlog"))
    for count in (0, 5):
        store(tmp_path, other.put(count=count))
        for name in names[:-2]:
            (tmp_path / "store/commitlog" / name).unlink()
        about = run(tmp_path)
    done = thin(tmp_path, keep_last=1)
    assert (about.run, done.removed, done.pieces) == (4, [2, 3], 1)
    ((first, raw),) = log_of(tmp_path, 4).items()
    assert (first, raw) == (int(names[-2]), whole_log(other)[first:])
    assert log_of(tmp_path, 1) == {0: whole_log(Built().put(count=30))}


def test_what_unfinished_runs_left_goes_after_an_hour(tmp_path: Path) -> None:
    run(tmp_path, Built().put(count=3))
    before = files(tmp_path)
    for name in ("log/00000000000000000000-9-0123456789abcdef.zst", "log/x.0f.part",
                 "state/00.zst", "runs/00000002.json.aa.part", "claim.json.bb.part"):  # fmt: skip
        (tmp_path / "repo/store" / name).write_bytes(b"x")
    assert thin(tmp_path, keep_last=1).left == 0
    now = os.stat(tmp_path / "repo/store").st_mtime_ns
    for name in files(tmp_path):
        os.utime(tmp_path / "repo/store" / name, ns=(now - _OLD, now - _OLD))
    done = thin(tmp_path, keep_last=1)
    assert (done.left, done.removed) == (5, [])
    assert files(tmp_path) == before


def test_a_clock_that_was_set_back_or_ahead_makes_no_backup_older_nor_keeps_it() -> None:
    runs = [run_of(1, None, 0, 9), run_of(2, 1, 9, 10, ended=900_000), run_of(3, 2, 10, 11)]
    kept = stays(runs, [3], 800_000, None, 1_000_000)
    assert [each.run for each in kept] == [2, 3]
    runs = [run_of(1, None, 0, 9, ended=1 << 42), run_of(2, 1, 9, 10), run_of(3, 2, 10, 11)]
    assert [each.run for each in stays(runs, [3], 800_000, None, 1_000_000)] == [3]


def test_nothing_is_removed_that_nobody_agreed_to_or_while_a_run_is_missing(tmp_path: Path) -> None:
    run(tmp_path, Built().put(count=3))
    run(tmp_path)
    before = files(tmp_path)

    def no(_: str) -> None:
        raise StoreError("nothing was done")

    with pytest.raises(StoreError, match="nothing was done"):
        thin(tmp_path, keep_last=1, confirm=no)
    assert files(tmp_path) == before
    for wrong in ({}, {"keep": 1, "keep_last": 1}):
        with pytest.raises(SettingError, match="--keep TIME or --keep-last N"):
            thin(tmp_path, **wrong)
    built = Built().put(count=3)
    for _ in range(3):
        run(tmp_path, built.put(count=3))
    (tmp_path / "repo/store/runs/00000002.json").unlink()
    with pytest.raises(StoreError, match=r"00000002.json: is missing: nothing is removed"):
        thin(tmp_path, keep_last=1)


def test_of_a_killed_forget_the_next_removes_the_rest(tmp_path: Path, monkeypatch) -> None:
    from reput.jobs.repository import forget as module

    built = Built().put(count=3)
    for n in range(4):
        run(tmp_path, built.put(count=3).file("config/topics.json", f'{{"n":{n}}}'))
    monkeypatch.setattr(module, "for_all", lambda *_: None)
    assert thin(tmp_path, keep_last=1).removed == [1, 2, 3]
    assert [each.run for each in catalogue(tmp_path).backups()] == [4]
    assert log_of(tmp_path, 4) == {0: whole_log(built)}
    monkeypatch.undo()
    done = thin(tmp_path, keep_last=1)
    assert (done.removed, done.files) == ([], 3)
    assert log_of(tmp_path, 4) == {0: whole_log(built)}
    assert len([name for name in files(tmp_path) if name.startswith("state/")]) == 2
    assert store(tmp_path, built)
