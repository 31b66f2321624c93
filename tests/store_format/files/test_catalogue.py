"""The catalogue of a repository: what a run's log is, and what is said of an edited one."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files.catalogue import MARKER, Catalogue, nearest, only_store
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.runs import (
    FORMAT,
    Branch,
    Forget,
    Kept,
    LastRecord,
    Piece,
    Run,
    StateEntry,
    as_bytes,
    parse_run,
)

_SHA = "ab" * 32


def _piece(offset: int, end: int) -> Piece:
    return Piece(offset, end - offset, _SHA, 10, 2, (1000, 2000))


def _run(number: int, parent: int | None, begin: int, *ends: int, **more: Any) -> Run:
    borders = [begin, *ends]
    pieces = tuple(_piece(a, b) for a, b in zip(borders, ends, strict=False))
    values = {
        "run": number, "parent": parent, "started": number * 1000, "ended": number * 1000 + 500,
        "reput": "0", "rocketmq": "5.3.3", "settings": {"mappedFileSizeCommitLog": "4096"},
        "first": 0, "begin": begin, "end": borders[-1],
        "last": LastRecord(begin, _SHA, 1), "pieces": pieces,
        "state": (StateEntry("config/topics.json", _SHA, 3, 0o600),),
    }  # fmt: skip
    return Run(**{**values, **more})


def _repository(folder: Path, *objects: Run | Forget) -> Catalogue:
    runs = folder / "b" / "runs"
    runs.mkdir(parents=True)
    (folder / MARKER).write_text(json.dumps({"format": FORMAT}))
    for each in objects:
        (runs / f"{each.run:08d}.json").write_bytes(as_bytes(each.as_json()))
    return Catalogue(LocalStorage(), str(folder), "b")


def test_a_run_reads_as_it_was_written(tmp_path: Path) -> None:
    run = _run(
        2,
        1,
        40,
        60,
        80,
        gap=(30, 40),
        without=("secrets",),
        forget=1,
        expired=(("T", 0, 1, 2, 3, 4, 5, 6),),
        more={"new": [1]},
    )
    assert parse_run(as_bytes(run.as_json()), "f", 2) == run
    forget = Forget(3, 9, (1,), {2: Kept(0, 0, (_piece(0, 40),))})
    assert parse_run(as_bytes(forget.as_json()), "f", 3) == forget


def test_the_log_of_a_branch_has_only_the_first_part_of_its_parent(tmp_path: Path) -> None:
    there = _repository(tmp_path, _run(1, None, 0, 50, 90), _run(2, 1, 90, 120), _run(3, 2, 70, 99))
    chains = [[(part.piece.offset, part.end) for part in there.chain(there.run(number))]
              for number in (2, 3)]  # fmt: skip
    assert chains == [[(0, 50), (50, 90), (90, 120)], [(0, 50), (50, 70), (70, 99)]]


def test_the_end_of_each_branch_is_a_head(tmp_path: Path) -> None:
    there = _repository(tmp_path, _run(1, None, 0, 50), _run(2, 1, 50, 90),
                        _run(3, 2, 70, 99, branch=Branch(90, 70)), _run(4, 3, 99, 120))  # fmt: skip
    assert [run.run for run in there.heads()] == [2, 4]


def test_a_gap_is_named_where_segments_were_deleted_first(tmp_path: Path) -> None:
    there = _repository(tmp_path, _run(1, None, 0, 50), _run(2, 1, 80, 90, gap=(50, 80)))
    assert there.gaps(there.run(2)) == [(50, 80)]


def test_what_a_forget_kept_replaces_what_a_run_says(tmp_path: Path) -> None:
    kept = Kept(0, 0, (_piece(0, 50), _piece(50, 90)))
    there = _repository(tmp_path, _run(2, 1, 50, 90), _run(3, 2, 90, 99),
                        Forget(4, 1, (1,), {2: kept}), _run(5, 3, 99, 120, forget=4))  # fmt: skip
    assert [part.end for part in there.chain(there.run(5))] == [50, 90, 99, 120]
    assert [run.run for run in there.backups()] == [2, 3, 5]
    assert there.newest() == there.run(5)


def test_the_nearest_moments_on_both_sides_are_known() -> None:
    runs = [_run(1, None, 0, 50), _run(2, 1, 50, 90)]
    found = [nearest(runs, wanted, lambda run: run.end) for wanted in (49, 50, 95)]
    assert [tuple(each and each.run for each in pair) for pair in found] == [
        (None, 1), (1, 2), (2, None),
    ]  # fmt: skip


def _change(*path: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = path

    def change(whole: Any) -> None:
        for each in way:
            whole = whole[each]
        whole[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_change("format", "reput-repository-9"), "reput-repository-9"),
        (_change("run", 8), "run: 8 is not"),
        (_change("kind", "copy"), 'kind: "copy"'),
        (_change("parent", 2), "parent: 2 is not a run before"),
        (_change("from", 999), "from: 999"),
        (_change("end", 99), "end: 99"),
        (_change("settings", {"a": 1}), "settings"),
        (_change("pieces", 0, "sha256", "../x"), r"pieces\[0\].sha256"),
        (_change("pieces", 0, "length", 1 << 40), r"pieces\[0\].length"),
        (_change("pieces", 1, "offset", 41), r"pieces\[1\].offset"),
        (_change("pieces", 0, "times", [5, 1]), r"pieces\[0\].times"),
        (_change("pieces", 0, "stored", True), r"pieces\[0\].stored"),
        (_change("state", 0, "path", "../../etc/passwd"), r"state\[0\].path"),
        (_change("state", 0, "path", "/etc/passwd"), r"state\[0\].path"),
        (_change("expired", [["T", 1]]), "expired"),
        (_change("last", "offset", -1), "last.offset: -1"),
    ],
)
def test_an_edited_run_is_refused_by_file_and_field(
    change: Callable[[dict[str, Any]], None], said: str
) -> None:
    whole = json.loads(as_bytes(_run(2, 1, 40, 60, 80).as_json()))
    change(whole)
    with pytest.raises(StoreError, match=f"^x/2.json: .*{said}"):
        parse_run(as_bytes(whole), "x/2.json", 2)


def test_a_store_is_found_by_name_or_as_the_only_one(tmp_path: Path) -> None:
    _repository(tmp_path, _run(1, None, 0, 50))
    storage = LocalStorage()
    assert only_store(storage, str(tmp_path), None) == "b"
    with pytest.raises(StoreError, match="no store 'c'; there are: b"):
        only_store(storage, str(tmp_path), "c")
    (tmp_path / "c").mkdir()
    with pytest.raises(StoreError, match="2 stores"):
        only_store(storage, str(tmp_path), None)
    with pytest.raises(StoreError, match="not a backup repository"):
        only_store(storage, str(tmp_path / "b"), None)
