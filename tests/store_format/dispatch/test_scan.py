"""How a scan says that a stretch ended: why, where, and whether anything is written after it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch import scan
from reput.store_format.dispatch import scan as scan_module
from reput.store_format.dispatch.dispatch import firsts, unpacked
from reput.store_format.faults import Fault
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.release.profiles import Era, profile
from reput.store_format.release.settings import Settings
from reput.udfs.rebuild import scan as task_module
from tests.logs import Message, build_log, properties
from tests.store_format.damage.walked import reader

SMALL, SEGMENT = 1 << 16, 1 << 17


def log_of(count: int) -> bytes:
    messages = [Message(topic=f"T{i % 3}", queue_id=i % 2, queue_offset=i // 6,
        properties=properties(("KEYS", " ".join(f"k{n}" for n in range(i % 5)))))
        for i in range(count)]  # fmt: skip
    return build_log(messages, SEGMENT)[0]


def outcome(
    segment: bytes, most_queue_puts: int, **more: Any
) -> tuple[list[Any], dict[Any, bytes], scan.End, int]:
    """(index puts, each queue's entries, the end, how often either was given), by further rules."""
    read = reader(np.frombuffer(segment, np.uint8))
    puts: list[Any] = []
    entries: dict[Any, bytes] = {}
    given = 0
    rules = replace(scan.scan_rules(profile("5.3.3"), Settings(), ()), **more)
    buffers = scan.Buffers(SEGMENT, most_queue_puts)
    for part in scan.scan(read, scan.Stretch(0, SEGMENT, 0, SEGMENT, 0), rules, buffers):
        match part:
            case scan.IndexPuts(hashes, messages):
                assert len(messages) == firsts(hashes)
                puts += unpacked(hashes, messages).tolist()
                given += 1
            case scan.Runs(queues, runs):
                given += 1
                for number, key in enumerate(queues):
                    at, count = int(runs.entries_at[number]), int(runs.count[number])
                    entry = runs.entries[at : at + 20 * count].tobytes()
                    entries[key] = entries.get(key, b"") + entry
            case scan.End():
                return puts, entries, part, given
    raise AssertionError("no End")


def small_log(count: int) -> bytes:
    messages = [Message(queue_offset=i, body=b"x" * 50) for i in range(count)]
    return build_log(messages, SMALL)[0]


def end_of(segment: bytes, start: int = 0, end: int = SMALL, first: int = 0) -> scan.End:
    read = reader(np.frombuffer(segment, np.uint8))
    rules = scan.scan_rules(profile("5.3.3"), Settings(), ())
    *_, last = scan.scan(read, scan.Stretch(0, len(segment), start, end, first), rules)
    assert isinstance(last, scan.End)
    return last


def test_a_stretch_ends_where_the_log_or_it_does() -> None:
    end = end_of(small_log(10))
    assert (end.fault, end.rest_is_zero, end.records) == (Fault.ZEROS, True, 10)
    end = end_of(small_log(10), start=1, first=scan.FIND_FIRST)
    assert (end.fault, end.rest_is_zero, end.records) == (Fault.ZEROS, True, 9)
    for first in [0, scan.FIND_FIRST]:
        for place in [SMALL - 1, SMALL // 2]:
            segment = bytearray(small_log(10))
            segment[place] = 1
            end = end_of(bytes(segment), start=0 if first == 0 else 1, first=first)
            assert (end.fault, end.rest_is_zero) == (Fault.ZEROS, False)
    end = end_of(small_log(10), start=SMALL // 2, first=scan.FIND_FIRST)
    assert (end.first, end.next, end.rest_is_zero) == (scan.NONE_FOUND, scan.NONE_FOUND, True)
    segment = build_log([Message(body=b"y" * 50_000)], SMALL)[0]
    end = end_of(segment, start=1000, end=2000, first=scan.FIND_FIRST)
    assert (end.first, end.rest_is_zero) == (scan.NONE_FOUND, False)
    size = end_of(small_log(1)).next
    left = end_of(small_log(10), end=size * 4 - 1)
    right = end_of(small_log(10), start=size * 4 - 1, first=scan.FIND_FIRST)
    assert (left.records, left.next, left.fault) == (4, size * 4, Fault.NONE)
    assert (right.first, right.records) == (size * 4, 6)
    size = end_of(small_log(1)).next
    end = end_of(small_log(10)[: size * 10], end=size * 10)
    assert (end.fault, end.next) == (Fault.SHORT_TAIL, size * 10)
    # Found by a drawn log: the rebuild ended with Python's OverflowError.
    rows, end = np.zeros(1, RECORD_ROW), scan.End()
    for time in ((1 << 63) - 1, -(1 << 63)):
        rows["storeTimestamp"] = time
        end.count(rows)
    assert end.fell_by == (1 << 63) - 1


# --- What a scan gives while its outputs are full again and again is what large ones give at
# once.
LARGE = 1 << 20


@pytest.mark.parametrize(
    ("index_puts", "queue_puts"), [(100, LARGE), (LARGE, 100), (100, 100), (300, 101)]
)
def test_outputs_that_fill_up_lose_nothing(index_puts: int, queue_puts: int, monkeypatch) -> None:
    segment = log_of(700)
    puts, entries, end, given = outcome(segment, LARGE)
    assert (end.records, len(puts), given) == (700, 1400, 2)
    monkeypatch.setattr(scan_module, "INDEX_PUTS", index_puts)
    again = outcome(segment, queue_puts)
    assert again[:2] == (puts, entries)
    assert again[2] == end
    assert again[3] > 5


def test_each_thread_has_its_own_buffers_of_its_storages_window() -> None:
    first = task_module.scan_buffers(SEGMENT, 1 << 16)
    assert task_module.scan_buffers(SEGMENT, 1 << 16) is first
    assert len(first.window) == 1 << 16
    assert len(task_module.scan_buffers(SEGMENT, 1 << 17).window) == 1 << 17
    together = Barrier(2)

    def twice(_: int) -> tuple[int, int]:
        first = task_module.scan_buffers(1 << 10, 1 << 10)
        together.wait(60)
        return id(first), id(task_module.scan_buffers(1 << 10, 1 << 10))

    with ThreadPoolExecutor(2) as pool:
        (a, a_again), (b, b_again) = pool.map(twice, range(2))
    assert a == a_again != b == b_again


# --- Eras and messages that were indexed twice, as a scan knows of them.
def puts_by(segment: bytes, **rules: object) -> list[tuple[int, int]]:
    """(physical offset, key hash) of all puts, by further rules of a scan."""
    puts, *_ = outcome(segment, scan_module.QUEUE_PUTS, **rules)
    return [(put[0], put[2]) for put in puts]


def places_of(puts: list[tuple[int, int]]) -> list[int]:
    return sorted({place for place, _ in puts})


def test_each_record_is_dispatched_by_its_own_release_and_as_often_as_it_was_indexed() -> None:
    segment = log_of(50)
    every = puts_by(segment)
    border = places_of(every)[20]
    eras = (Era(0, "5.3.3", ("5.3.3",)), Era(border, "5.3.3", ("5.3.3",)))
    rules = scan.scan_rules(profile("5.3.3"), Settings(), (), eras)
    ((stop, older),) = rules.older
    assert (stop, older) == (border, rules.dispatch)
    unindexed = ((border, older._replace(index=False)),)
    assert puts_by(segment, older=unindexed) == [p for p in every if p[0] >= border]
    for held in [1, 2, 4, 8, 10]:
        segment = log_of(50)
        once = puts_by(segment)
        several = [p for p in places_of(once) if sum(place == p for place, _ in once) == 4]
        again = puts_by(segment, again=((several[2], held), (several[5], held)))
        wanted = []
        for place in places_of(once):
            keys = [put for put in once if put[0] == place]
            more = held if place in (several[2], several[5]) else 0
            wanted += keys[: more % 4] + keys * (more // 4) + keys
        assert again == wanted
    place = next(p for p in places_of(once) if sum(place == p for place, _ in once) == 4)
    held = 4 * scan_module.INDEX_PUTS
    again = puts_by(segment, again=((place, held),))
    assert len(again) == len(once) + held
