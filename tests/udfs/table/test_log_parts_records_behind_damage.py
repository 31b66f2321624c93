"""Behind damage the records of a segment go on, from any offset and only as far as is asked."""

from collections.abc import Sequence

import pytest

from reput.jobs.opening.questions import open_store
from reput.store_format.log.segments import find_segments
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from reput.udfs.table.log_parts import live_behind
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.in_process import STORE, as_text, storage_of
from tests.memory_storage import MemoryStorage
from tests.store_format.fate.logs import SEGMENT as LARGE
from tests.store_format.fate.logs import SmallLog


def behind(
    log: Damaged, place: int, limit: int | None = None, batch_topics: Sequence[str] = ()
) -> list[int]:
    storage = storage_of(log.log)
    settings = settings_from(as_text(log.settings))
    segments = find_segments(storage, [f"{STORE}/commitlog"], SEGMENT)
    steps = live_behind(storage, segments, profile(log.version), settings, batch_topics, limit)
    return [int(at) for step in steps(place) for at in step.rows["physicalOffset"]]


def in_segment(log: Damaged, number: int) -> list[int]:
    return [at for at in log.places if at // SEGMENT == number]


def test_a_sound_segment_has_its_records_from_the_offset_to_its_end() -> None:
    log = damaged()
    first, second = in_segment(log, 0), in_segment(log, 1)
    assert (len(first) > 20, len(second) > 20) == (True, True)
    assert behind(log, 0) == first
    assert behind(log, first[5]) == first[5:]
    assert behind(log, first[5] + 1) == first[6:]
    assert behind(log, SEGMENT) == second
    assert behind(log, SEGMENT - 1) == []


@pytest.mark.parametrize("number", [0, 7])
def test_a_damaged_record_is_passed_over(number: int) -> None:
    log = damaged()
    log.flip(number, 1)  # totalSize is 1 << 16 more
    left = [at for at in in_segment(log, 0) if at != log.places[number]]
    assert behind(log, 0) == left
    assert behind(log, log.places[number] + 1) == [at for at in left if at > log.places[number]]


def test_a_record_with_nothing_but_a_wrong_body_stays() -> None:
    log = damaged()
    log.flip(7, 90)  # in the body, which begins 88 bytes into a record
    assert behind(log, log.places[7]) == in_segment(log, 0)[7:]


@pytest.mark.parametrize(("of", "left"), [("5.3.3", False), ("5.1.4", True)])
def test_a_checksum_of_the_whole_record_counts_where_the_release_has_it(
    of: str, left: bool
) -> None:
    log = damaged(messages(20, crc_property=True))
    log.version = of
    log.flip(7, 74)  # reconsumeTimes: nothing else covers it
    assert (log.places[7] in behind(log, 0)) == left


def test_no_record_at_the_limit_or_behind_it() -> None:
    log = damaged()
    log.flip(3, 1)
    for limit, last in ((log.places[9], 8), (log.places[9] + 1, 9), (SEGMENT * 2, None)):
        wanted = in_segment(log, 0)[4:]
        end = len(wanted) if last is None else last - 3
        assert behind(log, log.places[3] + 1, limit) == wanted[:end]


def test_an_offset_outside_of_the_log_is_no_segments() -> None:
    log = damaged()
    with pytest.raises(StopIteration):
        behind(log, (max(log.segments) // SEGMENT + 1) * SEGMENT)


def _two_segments() -> tuple[SmallLog, dict[str, bytes]]:
    """Two half messages; the first is committed in the same segment after a message, the second,
    and a delayed one delivered, in the next.
    """
    log, later = SmallLog(), SmallLog(start=LARGE)
    first, second = log.half("a"), log.half("b")
    log.put("Orders")
    log.commit(first, "a")
    log.delay("d", 1)
    later.positions, later.now = log.positions, log.now
    later.commit(second, "b")
    later.deliver("d")
    later.put("Orders")
    offsets = {"store/config/delayOffset.json": b'{"offsetTable":{1:1}}'}
    return log, {**log.files(), **later.files(), **offsets}


def _asked(files: dict[str, bytes]) -> tuple[list[str], list[str]]:
    """The states of transactions and delayed messages, and what was noted."""
    settings = {"mappedFileSizeCommitLog": str(LARGE), "messageDelayLevel": "1s 5s 1m"}
    with open_store("store", settings=settings, storage=MemoryStorage(files)) as store:
        fates = store.transactions(everything=True), store.delayed(everything=True)
        assert "Orders" in [count.topic for count in store.stats(["topic"])]
    return [row.state for rows in fates for row in rows], [n for rows in fates for n in rows.notes]


def test_transactions_and_delayed_messages_are_read_past_damage() -> None:
    log, files = _two_segments()
    wanted = ["committed", "committed", "delivered"]
    assert _asked(files)[0] == wanted
    name = f"store/commitlog/{0:020d}"
    raw = bytearray(files[name])
    magic = [at for at in range(len(log.raw)) if raw[at : at + 4] == b"\xda\xa3\x20\xa7"]
    raw[magic[2]] = 0
    states, notes = _asked({**files, name: bytes(raw)})
    assert states == wanted
    assert any("live records behind it are read" in line for line in notes)


@pytest.mark.parametrize("short", [True, False], ids=["short", "gone"])
def test_a_short_or_missing_segment_in_the_middle_ends_no_answer(short: bool) -> None:
    """What it may have held is said."""
    log, files = _two_segments()
    last = SmallLog(start=2 * LARGE, positions=log.positions, now=log.now + 9000)
    last.put("Orders")
    middle = f"store/commitlog/{LARGE:020d}"
    files = {**files, **last.files(), middle: files[middle][:100]}
    if not short:
        del files[middle]
    states, notes = _asked(files)
    assert states == ["committed", "pending", "not delivered in this log"]
    assert any(f"before physical {2 * LARGE} the log has lost records" in line for line in notes)
