"""Convert: real DLedger groups' stores as plain ones, each committed message as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from reput.jobs.convert import convert
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.verify import verify
from reput.store_format.discover.committed import committed
from reput.store_format.faults import DamageFound
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import DLEDGER_AT
from reput.store_format.log.groups import heads_from
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record import Record
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment, find_segments
from reput.store_format.release.profiles import profile
from tests.in_process import Session, as_text
from tests.store_format.log.dledger_stores import NAMES, change, heads, segments_of, unpack

LOCAL = LocalStorage()


def records(segments: list[Segment], end: int | None = None) -> list[tuple[Record, bytes]]:
    rules = record_rules(profile("5.3.3"), heads_from(segments))
    with LogReader(LOCAL, segments, rules, end=end) as log:
        return [(record, log.body(record)) for record in log.records(log.start)]


@pytest.mark.parametrize("split_bytes", [None, 3000])
@pytest.mark.parametrize("name", NAMES)
def test_each_committed_message_stays_as_it_was(
    name: str, split_bytes: int | None, tmp_path: Path
) -> None:
    store, about = unpack(name, tmp_path / "store")
    given = {"rocketmq": "5.3.3", "settings": as_text(about["sizes"])}
    output = tmp_path / "out"
    convert(Session(), str(store), str(output), cut=Cut(split_bytes), **given)
    segments = segments_of(store, about)
    at = Folder(LOCAL, str(store))
    agreed = committed(at, segments, at)
    assert agreed is not None
    old = records(segments, agreed.end)
    size = about["sizes"]["mappedFileSizeCommitLog"]
    new = records(find_segments(LOCAL, [str(output / "commitlog")], size))
    assert len(old) == len(new)
    places = {a.physical_offset: b.physical_offset for (a, _), (b, _) in zip(old, new, strict=True)}
    moved = {"physical_offset": 0, "body_at": 0, "prepared_offset": 0}
    for (before, body), (after, same) in zip(old, new, strict=True):
        assert (before._replace(**moved), body) == (after._replace(**moved), same)
        link = places[before.prepared_offset] if before.prepared_offset else 0
        assert after.prepared_offset == link
    if name != "mixed":
        assert any(record.prepared_offset for record, _ in new)
    assert verify(Session(), str(output), **given).same
    assert not list(output.glob("dledger-*"))


@pytest.mark.parametrize("asked", ["false", "true"])
def test_what_lies_behind_the_committed_index_comes_where_it_is_asked_for(
    asked: str, tmp_path: Path
) -> None:
    store, about = unpack("killed", tmp_path / "store")
    settings = {**as_text(about["sizes"]), "readUnCommitted": asked}
    output = str(tmp_path / "out")
    made = convert(Session(), str(store), output, rocketmq="5.3.3", settings=settings)
    said = any("readUnCommitted=true" in each for each in made.warnings)
    assert said == (asked == "false")
    assert made.messages == len(heads(store, about)) - (asked == "false")


@pytest.mark.parametrize("field", ["index", "pos"])
def test_a_wrong_head_is_told_and_nothing_is_written(field: str, tmp_path: Path) -> None:
    store, about = unpack("failed_over", tmp_path / "store")
    path, at, _ = heads(store, about)[40]
    change(path, at + getattr(DLEDGER_AT, field), bytes(8))
    with pytest.raises(DamageFound, match=rf"{path}: offset {at} .*: {field} "):
        convert(
            Session(), str(store), str(tmp_path / "out"), rocketmq="5.3.3",
            settings=as_text(about["sizes"]),
        )  # fmt: skip
    assert not (tmp_path / "out").exists()
