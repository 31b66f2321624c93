"""The catalogue of a repository: what a run's log is."""

from pathlib import Path

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files.catalogue import only_store
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.runs import Branch, Forget, Kept
from tests.store_format.files.repositories import piece, repository, run_of


def test_branches_gaps_heads_and_what_was_forgotten(tmp_path: Path) -> None:
    there = repository(
        tmp_path, run_of(1, None, 0, 50, 90), run_of(2, 1, 90, 120), run_of(3, 2, 70, 99)
    )
    chains = [[(part.piece.offset, part.end) for part in there.chain(there.run(number))]
              for number in (2, 3)]  # fmt: skip
    assert chains == [[(0, 50), (50, 90), (90, 120)], [(0, 50), (50, 70), (70, 99)]]
    there = repository(tmp_path / "1", run_of(1, None, 0, 50), run_of(2, 1, 50, 90),
        run_of(3, 2, 70, 99, branch=Branch(90, 70)), run_of(4, 3, 99, 120))  # fmt: skip
    assert [run.run for run in there.heads()] == [2, 4]
    there = repository(tmp_path / "2", run_of(1, None, 0, 50), run_of(2, 1, 80, 90, gap=(50, 80)))
    assert there.gaps(there.run(2)) == [(50, 80)]
    kept = Kept(0, 0, (piece(0, 50), piece(50, 90)))
    there = repository(tmp_path / "3", run_of(2, 1, 50, 90), run_of(3, 2, 90, 99),
                        Forget(4, 1, (1,), {2: kept}), run_of(5, 3, 99, 120, forget=4))  # fmt: skip
    assert [part.end for part in there.chain(there.run(5))] == [50, 90, 99, 120]
    assert [run.run for run in there.backups()] == [2, 3, 5]
    assert there.newest() == there.run(5)
    there = repository(
        tmp_path / "4", run_of(1, None, 0, 50), run_of(3, 2, 90, 99), run_of(4, 3, 99, 120)
    )
    assert [part.end for part in there.chain(there.run(4))] == [99, 120]
    assert [there.is_lost(run) for run in there.backups()] == [False, True, False]
    assert [run.run for run in there.heads()] == [1, 4]


def test_a_store_is_found_by_name_or_as_the_only_one(tmp_path: Path) -> None:
    repository(tmp_path, run_of(1, None, 0, 50))
    storage = LocalStorage()
    assert only_store(storage, str(tmp_path), None) == "b"
    with pytest.raises(StoreError, match="no store 'c'; there are: b"):
        only_store(storage, str(tmp_path), "c")
    (tmp_path / "lost-and-found/x").mkdir(parents=True)  # of somebody else
    assert only_store(storage, str(tmp_path), None) == "b"
    (tmp_path / "c/runs").mkdir(parents=True)
    with pytest.raises(StoreError, match="2 stores"):
        only_store(storage, str(tmp_path), None)
    with pytest.raises(StoreError, match="not a backup repository"):
        only_store(storage, str(tmp_path / "b"), None)
