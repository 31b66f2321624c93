"""A log that changes while it is converted: nothing is published."""

import os
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.converting import convert as convert_store
from reput.jobs.converting import new_log
from reput.jobs.engines.local import local_engine
from reput.store_format.faults import StoreError
from tests import golden_stores


def grows(segment: Path) -> None:
    with segment.open("ab") as file:
        file.write(bytes(4096))


def is_written_to(segment: Path) -> None:
    """A byte of a body, where nothing else of the file changes but its time."""
    raw = segment.read_bytes()
    at = raw.rindex(b"\x01TAGS") if b"\x01TAGS" in raw else 200
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(bytes([raw[at] ^ 1]))


def is_replaced(segment: Path) -> None:
    """By a copy of the same time and size."""
    about, copy = segment.stat(), segment.with_name("copy")
    copy.write_bytes(segment.read_bytes())
    os.utime(copy, ns=(about.st_atime_ns, about.st_mtime_ns))
    copy.replace(segment)


def goes(segment: Path) -> None:
    segment.unlink()


@pytest.mark.parametrize("change", [grows, is_written_to, is_replaced, goes])
@pytest.mark.parametrize("when", ["before it is written", "after it was written"])
def test_nothing_is_published(change, when, tmp_path, monkeypatch) -> None:
    golden = golden_stores.unpack("small_all_5.3.3")
    store = golden_stores.copy_input(golden, tmp_path / "store")
    last = max((store / "commitlog").iterdir())
    write_log = new_log.write_log

    def changing(*given: Any) -> Any:
        if when == "before it is written":
            change(last)
        rows = write_log(*given)
        if when == "after it was written":
            change(last)
        return rows

    monkeypatch.setattr(convert_store.new_log, "write_log", changing)
    with local_engine(1) as engine, pytest.raises(StoreError):
        convert(
            engine, str(store), str(tmp_path / "out"), rocketmq=golden.version,
            settings={name: str(value) for name, value in golden.settings.items()},
        )  # fmt: skip
    assert sorted(each.name for each in tmp_path.iterdir()) == ["store"]
