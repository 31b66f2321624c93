"""Records that lost a sector of topic or properties: NULs where a sector or the record ends."""

import pytest

from reput.store_format.log.rules import RecordRules
from reput.udfs.damage import searches
from reput.udfs.damage.searches import FindNewest, FindTorn
from tests.damaged import START, Damaged, damaged, messages
from tests.logs.encoder import properties
from tests.udfs.damage.logs import rows_of, stored

SECTOR = 512
SIZE = 1000  # of each record: 88 bytes, its body's 8, a topic of 1, and its properties
TEXT = properties(("KEYS", "k" * (SIZE - 91 - 8 - 1 - 6)))


def log() -> Damaged:
    made = damaged(messages(4, 1, properties=TEXT))
    assert made.places == [0, 1000, 2000, 3000]
    return made


def torn(changed: Damaged, durable: int = 0, start: int = 0, end: int = 4 * SIZE) -> list[object]:
    storage, segments = stored(changed)
    task = FindTorn(storage, segments[0], start, end, RecordRules(True, True), durable)
    return [tuple(row.values()) for row in rows_of(task, 0)]


@pytest.mark.parametrize(
    ("place", "length", "found"),
    [
        (1536, 464, [(1000, SIZE, True)]),
        (1535, 1, [(1000, SIZE, True)]),  # the last byte of a sector
        (1534, 1, []),
        (1536, 1, []),
        (1999, 1, [(1000, SIZE, True)]),  # of the record
        (1998, 1, []),
        (3100, 1, [(3000, SIZE, False)]),  # of the log's last record; it may have been sent so
        (3583, 1, [(3000, SIZE, True)]),
    ],
)
def test_zeros_up_to_where_a_sector_or_the_record_ends_are_a_lost_sector(
    place: int, length: int, found: list[object]
) -> None:
    changed = log()
    changed.put(place, bytes(length))
    assert torn(changed) == found


def test_a_nul_in_a_text_is_named_only_in_the_log_s_last_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searches, "_WINDOW_BYTES", SIZE + 100)
    changed = log()
    for number in range(4):
        changed.put(number * SIZE + 110, b"\0")
    assert torn(changed) == [(3000, SIZE, False)]


def test_what_was_durable_is_not_torn() -> None:
    changed = log()
    for place in (1535, 2559):
        changed.put(place, b"\0")
    both = [(1000, SIZE, True), (2000, SIZE, True)]
    found = {durable: torn(changed, durable) for durable in (START + 1, START + 2, START + 3)}
    assert found == {START + 1: both, START + 2: both[1:], START + 3: []}


def test_only_records_from_the_start_up_to_the_first_fault_are_looked_at() -> None:
    changed = log()
    changed.put(1535, b"\0")
    changed.put(3583, b"\0")
    assert torn(changed, start=2000) == [(3000, SIZE, True)]
    changed.flip(2, 4)
    assert torn(changed) == [(1000, SIZE, True)]


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
    look = FindTorn(storage, segment, 0, end * SIZE, RecordRules(True, True), 0)
    assert rows_of(FindNewest(look), 0) == [{"timestamp": newest}]
