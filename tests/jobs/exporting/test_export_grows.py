"""A log is exported while it grows: what is there is a beginning of the log, and stays right."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from reput.jobs.export import export, verify_export
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.faults import StoreChanged
from reput.udfs.table import export as export_tasks
from tests.damaged import damaged, messages
from tests.in_process import Session
from tests.jobs.opening.writing import SETTINGS, Writing
from tests.jobs.sources.exporting import SAME
from tests.jobs.sources.reading import table, up_to, write

KINDS = ["parquet", "jsonl", "delta", "rocketmq"]


def grows(patch: pytest.MonkeyPatch, grow: Callable[[], Any]) -> None:
    """Let the log grow whenever a part of it is read, before and between its batches."""
    found = export_tasks.batches_of

    def busy(*words: Any, **named: Any) -> Iterator[Any]:
        grow()
        for batch in found(*words, **named):
            yield batch
            grow()

    patch.setattr(export_tasks, "batches_of", busy)


def run(store: Path, to: Path, kind: str, **more: Any) -> Any:
    session: Any = Session() if kind in ("parquet", "jsonl") else None
    return export(
        session, str(store), str(to), format=kind, rocketmq="5.3.3", cut=Cut(1 << 14, 2, 2), **more,
    )  # fmt: skip


def exported(to: Path, kind: str) -> list[dict[str, Any]]:
    if kind == "rocketmq":
        return table(to, rocketmq="5.3.3").to_pylist()
    if kind == "delta":
        made = DeltaTable(to / "messages").to_pyarrow_table().sort_by("physicalOffset")
        return made.to_pylist()
    import pyarrow.dataset as ds

    paths = [str(path) for path in sorted(to.glob("data/part-*"))]
    return ds.dataset(paths, format="json" if kind == "jsonl" else kind).to_table().to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_of_a_log_that_grows_is_a_beginning_of_it(
    kind: str, writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        end = writing.append(200)
    with monkeypatch.context() as patch:
        grows(patch, lambda: writing.append(40))
        done = run(writing.store, tmp_path / "out", kind, settings=SETTINGS)
        if kind != "rocketmq":
            session: Any = Session() if kind in ("parquet", "jsonl") else None
            assert verify_export(
                session, str(writing.store), str(tmp_path / "out"), rocketmq="5.3.3",
                settings=SETTINGS,
            ).same  # fmt: skip
    assert writing.append(1) > end
    log = table(writing.store, rocketmq="5.3.3", columns=f"physicalOffset,size,{','.join(SAME)}")
    rows, whole = exported(tmp_path / "out", kind), log.to_pylist()
    assert 800 <= len(rows) == done.messages < len(whole)
    assert done.log_end == whole[len(rows)]["physicalOffset"] >= end
    names = ["queueOffset"] if kind == "jsonl" else SAME
    for name in names if kind == "rocketmq" else ("physicalOffset", *names):
        if name in log.column_names:
            assert [row[name] for row in rows] == [row[name] for row in whole[: len(rows)]], name


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_is_copied_in_meanwhile_has_no_hole(kind: str, tmp_path, monkeypatch) -> None:
    """Nobody holds its lock: it ends where it did, or the change is named and nothing is there."""
    log = damaged(messages(300))
    store = write(up_to(log, 40), tmp_path / "store")
    counts = iter(range(60, 301, 60))
    with monkeypatch.context() as patch:
        grows(patch, lambda: write(up_to(log, next(counts, 300)), store))
        try:
            run(store, tmp_path / "out", kind)
        except StoreChanged:
            assert not (tmp_path / "out").exists()
            return
    rows = exported(tmp_path / "out", kind)
    assert len(rows) >= 40
    if kind != "rocketmq":
        assert [row["physicalOffset"] for row in rows] == log.places[: len(rows)]
