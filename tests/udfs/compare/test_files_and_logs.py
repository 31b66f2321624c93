"""An index file of a broker that was killed within its last put."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.jobs.check import check
from reput.jobs.judging.report import CheckReport
from reput.store_format.derived.extent import index_entries
from reput.store_format.derived.index_header import encode_header, read_header
from reput.store_format.files.local import LocalStorage
from reput.udfs.compare.files import _not_zero, field_at, first_difference
from tests import golden_stores
from tests.in_process import Session

NAME = "mixed_5.3.3"


class Killed:
    """A store whose broker was killed, and the header of its newest index file."""

    def __init__(self, folder: Path) -> None:
        self.golden = golden_stores.unpack(NAME)
        self.store = golden_stores.as_left(NAME, folder / "store")
        (self.store / "abort").touch()
        self.index = max((self.store / "index").iterdir())
        file = LocalStorage().open(str(self.index))
        self.head = read_header(file)
        slots = int(str(self.golden.settings["maxHashSlotNum"]))
        before, last = index_entries(file, slots, self.head.entries - 1, 2)
        file.close()
        assert before["physicalOffset"] < last["physicalOffset"]
        self.opens_a_slot = int(last["previous"]) == 0
        self.offset = int(before["physicalOffset"])
        self.time = self.head.begin_timestamp + int(before["timeDiff"]) * 1000

    def check(self, **changed: int) -> CheckReport:
        with self.index.open("r+b") as file:
            file.write(encode_header(self.head._replace(**changed)))
        settings: dict[str, Any] = {n: str(v) for n, v in self.golden.settings.items()}
        version = self.golden.version
        return check(Session(), str(self.store), rocketmq=version, settings=settings)  # type: ignore[arg-type]


def test_a_header_of_the_entry_before_the_last_is_behind_and_another_is_a_difference(
    tmp_path,
) -> None:
    """IndexFile.putKey writes the entry, its slot and hashSlotCount, counts the entry, then sets
    endPhyOffset, and endTimestamp last.
    """
    killed = Killed(tmp_path)
    for offset in (killed.head.end_offset, killed.offset):
        report = killed.check(end_timestamp=killed.time, end_offset=offset)
        assert report.undamaged, report.differences
        assert [each.path for each in report.behind] == [str(killed.index)]
    changed = {"end_offset": killed.offset, "end_timestamp": killed.time}
    changed["next_entry"] = killed.head.next_entry - 1
    for slots_used in range(killed.head.slots_used - 2, killed.head.slots_used + 2):
        report = killed.check(**changed, slots_used=slots_used)
        may_be = (killed.head.slots_used, killed.head.slots_used - killed.opens_a_slot)
        assert report.undamaged == (slots_used in may_be), report.differences
        assert len(report.behind) + len(report.differences) == 1
    for name in ("end_timestamp", "end_offset", "begin_offset", "slots_used"):
        wrong = {"end_timestamp": killed.time, name: getattr(killed.head, name) + 70_000}
        assert len(killed.check(**wrong).differences) == 1, name
    (killed.store / "abort").unlink()  # after a clean stop
    assert len(killed.check(end_timestamp=killed.time - 1).differences) == 1


# --- The place where two derived files differ, by its entry and field as docs/formats names them.
@pytest.mark.parametrize(("folder", "at", "what", "start", "size"), [
    ("consumequeue/T/0", 7, "entry 0 physicalOffset", 0, 8),
    ("consumequeue/T/0", 8, "entry 0 size", 8, 4),
    ("consumequeue/T/0", 39, "entry 1 tagsCode", 32, 8),
    ("batchconsumequeue/T/0", 46 * 3 + 36, "entry 3 batchSize", 46 * 3 + 36, 2),
    ("index", 0, "header beginTimestamp", 0, 8), ("index", 39, "header indexCount", 36, 4),
    ("index", 40, "slot 0", 40, 4), ("index", 40 + 4 * 7 - 1, "slot 6", 64, 4),
    ("index", 68 + 20 + 4, "entry 1 physicalOffset", 92, 8),
    ("index", 68 + 39, "entry 1 previous", 104, 4),
])  # fmt: skip
def test_each_byte_is_in_a_field(folder: str, at: int, what: str, start: int, size: int) -> None:
    """Of index files with seven slots: entries begin at 40 + 4 * 7."""
    field = field_at(folder, at, 7)
    assert (field.what, field.at, field.layout.itemsize) == (what, start, size)


def test_a_fields_value_is_a_signed_big_endian_number() -> None:
    assert field_at("consumequeue/T/0", 10, 7).value(b"\x7f\xff\xff\xff") == 0x7FFFFFFF
    assert field_at("index", 41, 7).value(b"\xff\xff\xff\xfe") == -2


@pytest.mark.parametrize(("there", "wanted", "at"), [
    (b"", b"", -1), (b"abc", b"abc", -1), (b"abc", b"xbc", 0), (b"abc", b"abx", 2),
    (b"aaa", b"abb", 1),
])  # fmt: skip
def test_the_first_byte_that_differs(there: bytes, wanted: bytes, at: int) -> None:
    assert first_difference(np.frombuffer(there, np.uint8), np.frombuffer(wanted, np.uint8)) == at


@pytest.mark.parametrize("at", [5 << 20, (6 << 20) - 1])
def test_a_byte_after_a_hole_is_found(tmp_path: Path, at: int) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as sparse:
        sparse.truncate(6 << 20)

    def not_zero(start: int) -> int | None:
        with closing(LocalStorage().open(str(file))) as reader:
            return _not_zero(reader, start)

    assert not_zero(7) is None
    with file.open("r+b") as sparse:
        sparse.seek(at)
        sparse.write(b"x")
    assert not_zero(7) == at
    assert not_zero(at + 1) is None
