"""Records that lost a sector of topic or properties, or that were written in part."""

import pytest

from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.log.rules import RecordRules
from reput.udfs.damage import searches
from reput.udfs.damage.searches import FindNewest, FindTorn
from tests.damaged import START, Damaged, damaged, messages
from tests.logs.encoder import properties
from tests.udfs.damage.logs import rows_of, stored

SIZE = 1000  # of each record: 88 bytes, its body's 8, a topic of 1, and its properties
TEXT = properties(("KEYS", "k" * (SIZE - 91 - 8 - 1 - 6)))


def log() -> Damaged:
    made = damaged(messages(4, 1, properties=TEXT))
    assert made.places == [0, 1000, 2000, 3000]
    return made


def torn(
    changed: Damaged, durable: int = 0, start: int = 0, end: int = 4 * SIZE, killed: bool = False
) -> list[int]:
    """The places of the records that are torn."""
    storage, segments = stored(changed)
    task = FindTorn(
        storage, segments[0], start, end, RecordRules(True, True), Checkpoint(durable),
        "store" if killed else None,
    )  # fmt: skip
    rows = rows_of(task, 0)
    assert all(row["size"] == SIZE for row in rows)
    return [row["offset"] for row in rows]


@pytest.mark.parametrize(
    ("place", "length", "found"),
    [
        (1536, 464, []),  # the record after it has bytes in that sector
        (1024, 512, []),  # so has the record's head
        (2560, 512, [2000]), (2560, 440, []),
        (3584, 416, [3000]),  # the log's last record: nothing follows
        (3585, 415, []), (3583, 417, []), (3584, 415, []), (3072, 512, []),
    ],
)  # fmt: skip
def test_zeros_of_a_whole_sector_are_a_lost_one(place: int, length: int, found: list[int]) -> None:
    changed = log()
    changed.put(place, bytes(length))
    assert torn(changed) == found


def test_a_last_record_that_ends_in_zeros_was_written_in_part_if_the_broker_was_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searches, "_WINDOW_BYTES", SIZE + 100)
    changed = log()
    for number in range(4):
        changed.put(number * SIZE + SIZE - 9, bytes(9))
    assert (torn(changed), torn(changed, killed=True)) == ([], [3000])
    assert torn(changed, START + 4, killed=True) == []  # the checkpoint knows of it


def test_what_was_durable_is_not_torn() -> None:
    changed = log()
    changed.put(3584, bytes(416))
    found = {durable: torn(changed, durable) for durable in (START + 3, START + 4)}
    assert found == {START + 3: [3000], START + 4: []}


def test_only_records_from_the_start_up_to_the_first_fault_are_looked_at() -> None:
    changed = log()
    changed.put(3584, bytes(416))
    assert torn(changed, start=2000) == [3000]
    changed.flip(2, 4)
    assert torn(changed) == []


@pytest.mark.parametrize(
    ("times", "end", "newest"),
    [((5, 9, 7, 1), 4, 9), ((5, 9, 7, 1), 1, 5), ((-5, -9, -7, -8), 4, -5), ((5, 9, 7, 1), 0, 0)],
)
def test_the_newest_record_need_not_be_the_last(
    times: tuple[int, ...], end: int, newest: int
) -> None:
    changed = log()
    for number, time in enumerate(times):
        changed.put(number * SIZE + 56, time.to_bytes(8, "big", signed=True))
    storage, (segment, *_) = stored(changed)
    look = FindTorn(storage, segment, 0, end * SIZE, RecordRules(True, True), Checkpoint())
    assert rows_of(FindNewest(look), 0) == [{"timestamp": newest}]
