"""The walk that all readers of a log share: its steps, its long records, and what it reads."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.writer.recovery import first_torn
from reput.jobs.check import check
from reput.jobs.judging.shown import next_step
from reput.jobs.rebuild import REFUSE, SALVAGE
from reput.jobs.repair import repair
from reput.store_format.dispatch.scan import Buffers, End, Scan, scan_rules
from reput.store_format.faults import DamageFound, Fault
from reput.store_format.files.local import LocalStorage
from reput.store_format.log import record
from reput.store_format.log.records import RecordRules
from reput.store_format.log.segments import FIND_FIRST, Segment, Stretch
from reput.store_format.log.walk import NO_CHECKS, Checks, Walk
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import SettingError, Settings
from tests.built import Built
from tests.in_process import OUTPUT, STORE, Session, as_text, rebuild_log, run, storage_of
from tests.logs import Message, encode, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.generator import Hurt, generate
from tests.store_format.log.windows import Records

RULES = RecordRules(True, True)
SEGMENT = Records.size
WINDOW = 1 << 10
SMALL = Message(properties=properties(("KEYS", "k")))
BODY = bytes(range(1, 256)) * 20
LONG = Message(body=BODY, properties=properties(("KEYS", "k")), crc_property=True)


class Log(Records):
    def walk(self, checks: Checks = NO_CHECKS, doubt: Any = None, window: int = WINDOW) -> Walk:
        buffer = np.empty(window, np.uint8)
        return Walk(self.read, SEGMENT, RULES, checks, buffer, None, doubt)


def walked(walk: Walk, at: int = 0, stop: int = SEGMENT) -> tuple[list[int], int, Fault]:
    """(places of the records, where the walk ended, why)."""
    places: list[int] = []
    next_at, fault = at, Fault.NONE
    for step in walk.steps(at, stop):
        assert fault == Fault.NONE
        places += step.rows["physicalOffset"].tolist()
        next_at, fault = step.next, step.fault
    return places, next_at, fault


ALL = Checks(body=True, property=True)
MIXED = (SMALL, LONG, SMALL, SMALL, LONG, LONG, *[SMALL] * 30)


def test_each_record_comes_once_up_to_the_stop_and_nothing_is_read_past_an_end(monkeypatch) -> None:
    monkeypatch.setattr(record, "_PIECE_BYTES", WINDOW)
    log = Log(*MIXED)
    assert walked(log.walk(ALL)) == (log.at, log.end, Fault.ZEROS)
    assert log.longest <= WINDOW < len(BODY)
    for number, place in enumerate(log.at[1:], 1):
        assert walked(log.walk(), 0, place) == (log.at[:number], place, Fault.NONE)
        if number + 1 < len(log.at):
            expected = log.at[: number + 1], log.at[number + 1], Fault.NONE
            assert walked(log.walk(), 0, place + 1) == expected
    assert list(log.walk().steps(5, 5)) == []
    assert list(log.walk().places(0, SEGMENT)) == log.at
    assert list(log.walk().places(1, SEGMENT)) == log.at[1:]
    assert list(log.walk().places(log.at[2], log.at[3] + 48)) == log.at[2:4]
    assert list(log.walk().places(log.at[2], log.at[3] + 47)) == log.at[2:3]
    log.read_bytes = 0
    pieces = list(log.walk().windows(10, 5000))
    assert [at for at, _ in pieces] == list(range(10, 5000, WINDOW))
    assert sum(len(piece) for _, piece in pieces) == log.read_bytes == 4990
    overlapping = [(at, len(piece)) for at, piece in log.walk().windows(10, 5000, 47)]
    assert overlapping[1][0] == 10 + WINDOW - 47
    assert sum(overlapping[-1]) == 5000


@pytest.mark.parametrize("window", [WINDOW, SEGMENT])
def test_of_two_wrong_crcs_the_first_ends_it(window: int) -> None:
    """Also where the first is of a `__CRC32#`, and a later one of a body."""
    sealed = Message(body=b"b", crc_property=True)
    log = Log(SMALL, sealed, Message(body=b"body"), SMALL)
    log.data[log.at[1] + 12] ^= 1  # queueId: only `__CRC32#` covers it
    log.data[log.at[2] + 88] ^= 1
    assert walked(log.walk(ALL, window=window)) == (log.at[:1], log.at[1], Fault.PROPERTY_CRC)
    assert walked(log.walk(Checks(body=True))) == (log.at[:2], log.at[2], Fault.BODY_CRC)
    other = Log(SMALL, Message(body=b"body"), sealed, SMALL)
    other.data[other.at[1] + 88] ^= 1
    other.data[other.at[2] + 12] ^= 1
    assert walked(other.walk(ALL, window=window)) == (other.at[:1], other.at[1], Fault.BODY_CRC)
    (marks,) = [step.wrong for step in log.walk(ALL, window=SEGMENT).marked(0, SEGMENT)]
    assert marks is not None
    assert marks.tolist() == [0, Fault.PROPERTY_CRC, Fault.BODY_CRC, 0]


def test_a_long_record_is_checked_as_one_that_fits_and_its_row_has_the_crc() -> None:
    for at, fault in ((12, Fault.PROPERTY_CRC), (88, Fault.BODY_CRC), (5000, Fault.BODY_CRC)):
        log = Log(SMALL, LONG, SMALL)
        log.data[log.at[1] + at] ^= 1
        for window in (WINDOW, SEGMENT):
            assert walked(log.walk(ALL, window=window)) == (log.at[:1], log.at[1], fault)
            marks = [
                mark
                for step in log.walk(ALL, window=window).marked(0, SEGMENT)
                for mark in (step.wrong if step.wrong is not None else [0] * len(step.rows))
            ]
            assert marks == [0, fault, 0]
        assert walked(log.walk())[0] == log.at
    log = Log(LONG)
    (step, _) = log.walk(Checks(seal=True)).steps(0, SEGMENT)
    (whole, *_) = log.walk(window=SEGMENT).steps(0, SEGMENT)
    assert step.rows["bodyElided"][0] == 1
    assert step.rows["bodyCRC"][0] != whole.rows["bodyCRC"][0]
    (unsealed, _) = log.walk().steps(0, SEGMENT)
    assert unsealed.rows["bodyCRC"][0] == whole.rows["bodyCRC"][0]


@pytest.mark.parametrize("start", range(0, 512, 37))
def test_a_lost_sector_of_a_long_record_is_found(start: int) -> None:
    """Whether its body is at hand or not."""
    text = properties(("KEYS", "k"), ("p", "v" * 1500), ("q", "w"))
    log = Log(Message(body=bytes([1]) * start), Message(body=BODY, properties=text))
    end = log.end
    whole = log.walk(window=SEGMENT), log.walk()
    for lost in (None, (end - 900) // 512 * 512):
        if lost is not None:
            log.data[lost : lost + 512] = bytes(512)
            whole = log.walk(window=SEGMENT), log.walk()
        for walk in whole:
            torn = []
            for step in walk.steps(0, SEGMENT):
                number = first_torn(step.window, step.rows, 0, SEGMENT, 0, walk.read)
                torn += step.rows["physicalOffset"][number : number + 1].tolist()
            assert torn == ([] if lost is None else [log.at[1]])


@pytest.mark.parametrize("start", range(0, 512, 37))
def test_a_nul_that_does_not_end_a_sector_is_no_lost_sector(start: int) -> None:
    text = properties(("KEYS", "k"), ("p", "v" * 1500), ("q", "w"))
    log = Log(Message(body=bytes([1]) * start), Message(body=BODY, properties=text))
    for at in range(log.end - 1400, log.end - 100):
        log.data[at] = at % 512 == 511
    for walk in (log.walk(window=SEGMENT), log.walk()):
        for step in walk.steps(0, SEGMENT):
            number = first_torn(step.window, step.rows, 0, SEGMENT, 0, walk.read)
            assert number == len(step.rows)


def test_sizes_that_lie_do_not_have_the_same_bytes_read_again() -> None:
    """A segment of places that each claim a record of thousands of bytes."""
    log = Log()
    forged = encode(Message(), 0)[:60]
    for place in range(0, SEGMENT - 5000, 64):
        head = bytearray(forged)
        head[:4] = (4900).to_bytes(4, "big")
        head[28:36] = place.to_bytes(8, "big")
        log.data[place : place + 60] = head

    def refused(_: int) -> Fault:
        return Fault.LENGTHS

    for doubt, most in ((refused, 3 * SEGMENT), (None, 1 << 40)):
        log.read_bytes = 0
        walk = log.walk(doubt=doubt, window=4096)
        for place in walk.places(0, SEGMENT):
            _, at, fault = walked(walk, place)
            assert (at, fault != Fault.NONE) == (place, True)
        assert log.read_bytes < most
    assert log.read_bytes > 30 * SEGMENT


@pytest.mark.parametrize("at", [(1 << 20) - 2, 1 << 20, (1 << 20) + 5])
def test_of_a_hole_no_window_is_read_but_a_record_may_begin_in_it(at: int, tmp_path: Path) -> None:
    path, start = tmp_path / "segment", 1 << 30
    record = encode(SMALL, start + at)
    assert record[:2] == bytes(2)
    with path.open("wb") as file:
        file.seek(at + 2)
        file.write(record[2:])
        file.truncate(3 << 20)
    reader = LocalStorage().open(str(path))
    segment = Segment(str(path), start, reader.state)
    rules = scan_rules(profile("5.3.3"), Settings(), ())
    read: list[int] = []

    def scanned(first: int, begin: int, length: int) -> End:
        read.clear()
        stretch = Stretch(start, segment.end, start + begin, start + begin + length, first)
        made = Scan(segment.read_by(reader), stretch, rules, Buffers(length, window_bytes=WINDOW))
        load = made.walk.load
        made.walk.load = lambda *each: read.append(each[0]) or load(*each)  # type: ignore
        *_, end = made.run()
        assert isinstance(end, End)
        return end

    for first, begin in ((FIND_FIRST, 0), (start + at, at)):
        end = scanned(first, begin, (2 << 20) - begin)
        assert (end.first, end.records, end.rest_is_zero) == (start + at, 1, True)
        assert end.next == start + at + len(record)
    assert scanned(FIND_FIRST, 0, 1 << 19) == End()
    assert read == []
    assert scanned(FIND_FIRST, 2 << 20, 1 << 20) == End()
    assert len(read) == 1  # the file's last bytes
    assert not scanned(start, 0, 2 << 20).rest_is_zero
    reader.close()


def test_what_is_at_hand_is_not_read_again_and_a_read_that_failed_leaves_nothing() -> None:
    log = Log(*[SMALL] * 5)
    walk = log.walk()
    assert list(walk.places(0, SEGMENT // 64)) == log.at
    before = log.read_bytes
    assert walked(walk, log.at[1], log.at[3])[0] == log.at[1:3]
    assert log.read_bytes == before
    log = Log(*[SMALL] * 40)
    walk = log.walk()
    failing = [False]

    def read(at: int, buffer: Any) -> None:
        buffer[:] = 7
        if failing[0]:
            raise OSError("no")
        log.read(at, buffer)

    walk.read = read
    assert walk.load(0)[0] == log.data[0]
    failing[0] = True
    with pytest.raises(OSError, match="no"):
        walk.load(2000)
    failing[0] = False
    assert walk.load(0).tobytes() == bytes(log.data[:WINDOW])


# --- Swapped and renamed segments: known by their records, and read in the order that these
# prove.
@pytest.fixture
def hurt() -> Hurt:
    return generate("swapped segments", 0, crc=False, count=600)


def reported(hurt: Hurt) -> dict[str, object]:
    return {"rocketmq": hurt.log.version, "settings": as_text(hurt.log.settings)}


def derived(storage: MemoryStorage) -> dict[str, bytes]:
    start = f"{OUTPUT}/consumequeue/"
    return {p.removeprefix(start): c for p, c in storage.files.items() if p.startswith(start)}


def wanted(hurt: Hurt) -> dict[str, bytes]:
    files = rebuild_log(hurt.log.log._replace(segments=hurt.whole)).files
    start = "consumequeue/"
    return {p.removeprefix(start): c for p, c in files.items() if p.startswith(start)}


def test_check_offers_the_order_salvage_reads_it_and_repair_gives_the_segments_their_names(
    hurt,
) -> None:
    storage = storage_of(hurt.log.log)
    report = check(Session(), STORE, storage=storage, **reported(hurt))  # type: ignore[arg-type]
    again = check(
        Session(), STORE, storage=storage, assume_names=True,
        **reported(hurt),  # type: ignore[arg-type]
    )  # fmt: skip
    offered = [each for each in report.findings if "--assume-names reads it as" in each.reason]
    assert len(offered) == 2
    assert "--assume-names" in next_step(report)  # to give both their names takes a third one
    assert report.messages < 600
    assert again.messages == 600
    assert again.damage["range_count"] == 0
    assert len(report.damage["left_out"]) == 2
    assert not again.damage["left_out"]
    assert len(again.findings) == 2
    run(STORE, OUTPUT, on_damage=SALVAGE, assume_names=True, storage=storage, **reported(hurt))
    assert derived(storage) == wanted(hurt)
    storage = storage_of(hurt.log.log)
    repair(
        Session(), STORE, OUTPUT, assume_names=True, storage=storage,
        **reported(hurt),  # type: ignore[arg-type]
    )  # fmt: skip
    for start, raw in hurt.whole.items():
        assert storage.files[f"{OUTPUT}/commitlog/{start:020d}"] == raw
    assert derived(storage) == wanted(hurt)


def test_only_salvage_reads_another_order_and_two_files_that_say_one_place_stay(hurt: Hurt) -> None:
    storage = storage_of(hurt.log.log)
    with pytest.raises(SettingError, match="--assume-names"):
        run(STORE, OUTPUT, on_damage=REFUSE, assume_names=True, storage=storage, **reported(hurt))
    first, second = sorted(hurt.log.segments)[:2]
    hurt.log.segments[second] = hurt.log.segments[first]
    storage = storage_of(hurt.log.log)
    report = check(
        Session(), STORE, storage=storage, assume_names=True,
        **reported(hurt),  # type: ignore[arg-type]
    )  # fmt: skip
    assert not any(f"{first:020d}" in each.reason for each in report.findings)


def test_the_last_two_swapped_are_no_torn_end() -> None:
    """Nothing live follows where the log breaks, as no record there stands in its own place."""
    log = Built().put(count=40, keys="k").log()
    *_, before, last = sorted(log.segments)
    log.segments[before], log.segments[last] = (log.segments[last].ljust(2048, b"\0"),
                                                log.segments[before])  # fmt: skip
    with pytest.raises(DamageFound, match=f"by its records it is segment {last:020}"):
        rebuild_log(log, on_damage=REFUSE)
    assert rebuild_log(log).summary.messages < 40
