"""check at the end of a log: a segment that is gone, and records torn where nothing covers them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from reput.jobs.judging.report import CheckReport
from reput.jobs.judging.shown import details, next_step, text
from reput.store_format.derived.checkpoint import Checkpoint, encode
from reput.store_format.faults import REASONS, Fault
from reput.store_format.names import index_name
from reput.udfs.damage import searches
from tests.damaged import SEGMENT, START, Damaged, damaged, messages
from tests.in_process import STORE, rebuild_log, storage_of
from tests.jobs.checking import checked
from tests.logs.encoder import properties
from tests.memory_storage import MemoryStorage

LOST = "segments, or the end of the last one, may be missing"


def without_its_last_segment(log: Damaged) -> MemoryStorage:
    """Only the log; what is left of it ends in a BLANK."""
    storage = storage_of(log.log)
    del storage.files[f"{STORE}/commitlog/{max(log.segments):020d}"]
    del log.segments[max(log.segments)]
    return storage


def lost(report: CheckReport) -> dict[str, str]:
    """What says that the log was longer, by the file that says so."""
    return {f.path.removeprefix(f"{STORE}/"): f.reason for f in report.findings if LOST in f.reason}


def derived(log: Damaged, *kinds: str) -> dict[str, bytes]:
    """The derived files of these kinds, under names that a store may have."""
    files = rebuild_log(log.log).files.items()
    names = {f"index/{n}": f"index/{index_name(START + n)}" for n in range(99)}
    return {f"{STORE}/{names.get(path, path)}": content
            for path, content in files if path.startswith(kinds)}  # fmt: skip


def test_nothing_shows_it_where_only_the_log_is_left() -> None:
    report = checked(log := damaged(), storage=without_its_last_segment(log))
    assert report.sound, text(report)


@pytest.mark.parametrize("file_bytes", [200, 20_000])
def test_queues_that_go_on(file_bytes: int) -> None:
    """In the same file, or in files of their own."""
    log = damaged()
    log.settings["mappedFileSizeConsumeQueue"] = file_bytes
    files = derived(log, "consumequeue", "index")
    storage = without_its_last_segment(log)
    storage.files |= {p: c for p, c in files.items() if "consumequeue" in p}
    storage.files |= derived(log, "index")
    report = checked(log, storage=storage)
    ((path, reason),) = lost(report).items()
    assert path == "consumequeue"
    past = report.damage["past_end"]
    gone = sum(place >= max(log.segments) + SEGMENT for place in log.places)
    assert sum(each["count"] for each in past) == report.damage["messages_past_end"] == gone > 3
    assert {each["topic"] for each in past} == {"T"}
    assert f"name {gone} messages of {len(past)} queues" in reason
    assert all(f"{each['first']} to {each['first'] + each['count'] - 1}" in "".join(details(report))
               for each in past if each["count"] > 1)  # fmt: skip
    assert "slave or in a backup" in next_step(report)
    assert f"the log ends at {max(log.segments) + SEGMENT:,}" in reason
    assert not report.sound
    assert reason in text(report)


def test_light_queues_have_their_messages_twice() -> None:
    """A message of an LMQ is in its own queue too."""
    log = damaged()
    files = derived(log, "consumequeue", "index")
    storage = without_its_last_segment(log)
    more = {p.replace("consumequeue/T/", "consumequeue/%LMQ%T/"): c for p, c in files.items()}
    storage.files |= files | more
    gone = sum(place >= max(log.segments) + SEGMENT for place in log.places)
    damage = checked(log, storage=storage).damage
    assert damage["messages_past_end"] == gone
    assert sum(each["count"] for each in damage["past_end"]) == 2 * gone


def test_an_index_file_that_goes_on() -> None:
    log = damaged()
    files = derived(log, "index")
    storage = without_its_last_segment(log)
    storage.files |= files | derived(log, "consumequeue")
    assert list(lost(checked(log, storage=storage))) == [max(files).removeprefix(f"{STORE}/")]


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (Checkpoint(physic_msg_timestamp=START + 59), "a message of 2023-11-14 22:13:20.059"),
        (Checkpoint(START, confirm_phy_offset=1 << 20), "a message at 1,048,576"),
        (Checkpoint(START, logics_physical_offset=1 << 20), "a message at 1,048,576"),
        (Checkpoint(START, START), ""),
    ],
)
def test_a_checkpoint_that_knows_more(known: Checkpoint, says: str) -> None:
    log = damaged()
    storage = without_its_last_segment(log)
    storage.files[f"{STORE}/checkpoint"] = encode(known)
    found = lost(checked(log, storage=storage))
    assert says in found["checkpoint"] if says else not found


def test_groups_that_have_read_more() -> None:
    log = damaged()
    whole = storage_of(log.log)
    storage = without_its_last_segment(log)
    saved = {"offsetTable": {"T@group": {"0": 20, "1": 3, "77": 5}, "gone@group": {"0": 9}}}
    for each in (whole, storage):
        each.files[f"{STORE}/config/consumerOffset.json"] = json.dumps(saved).encode()
    ((path, reason),) = lost(checked(log, storage=storage)).items()
    assert path == "config/consumerOffset.json"
    said = "topic 'T', queue 0 was read up to 20 by group 'group', the log has it up to 1"
    assert said in reason
    assert reason.endswith(" (reput recover leaves it)")
    assert not lost(checked(damaged(), storage=whole))
    for wrong in (b"", b"{}", b'{"offsetTable": [1]}', b'{"offsetTable": {"T@g": {"x": 1}}}'):
        storage.files[f"{STORE}/config/consumerOffset.json"] = wrong
        assert not lost(checked(log, storage=storage))


# --- torn records ---------------------------------------------------------------------------


def ending_in(*last: dict[str, Any]) -> Damaged:
    """A log of one segment, whose last records are these; properties over two sectors."""
    long = properties(("KEYS", "k"), ("p", "v" * 1100), ("q", "w"))
    more = messages(10 + len(last), 1, properties=properties(("KEYS", "k")))
    made = [*more[:10]]
    for message, over in zip(more[10:], last, strict=True):
        made.append(type(message)(**{**vars(message), "properties": long, **over}))
    log = damaged(made)
    assert len(log.segments) == 1
    return log


def tear(log: Damaged, number: int, cut: bool) -> int:
    """Lose a sector of a record's properties, or all that follows one; returns its place."""
    place, end = log.places[number], log.places[number] + log.size(number)
    sector = (end - 600) // 512 * 512
    assert sector > place + 150
    log.put(sector, bytes((end if cut else sector + 512) - sector))
    return place


@pytest.mark.parametrize("cut", [False, True])
def test_a_torn_last_record_is_reported_though_a_rebuild_takes_it(cut: bool) -> None:
    log = ending_in({})
    place = tear(log, 10, cut)
    assert rebuild_log(log.log).summary.messages == 11  # as RocketMQ does
    reports = [checked(log, splits) for splits in (1, 3)]
    for report in reports:
        (got,) = report.damage["ranges"]
        assert (got["offset"], got["length"], got["kind"]) == (
            place, log.size(10), "content",
        )  # fmt: skip
        assert got["reason"] == REASONS[Fault.TORN][1]
        assert report.messages == 11
        assert not report.sound
        assert report.damage["bytes_lost"] == 0


def test_each_record_that_was_not_durable_may_be_torn() -> None:
    log = ending_in({}, {})
    places = [tear(log, 10, False), tear(log, 11, False)]
    storage = storage_of(log.log)
    assert [r["offset"] for r in checked(log, storage=storage).damage["ranges"]] == places
    for durable, left in ((START + 10, places), (START + 11, places[1:]), (START + 12, [])):
        storage.files[f"{STORE}/checkpoint"] = encode(Checkpoint(durable))
        report = checked(log, storage=storage)
        assert [each["offset"] for each in report.damage["ranges"]] == left


def test_behind_damage_in_the_same_segment() -> None:
    log = ending_in({})
    log.flip(3, 5)
    place = tear(log, 10, True)
    assert [each["offset"] for each in checked(log).damage["ranges"]] == [log.places[3], place]


@pytest.mark.parametrize("properties", [b"p\x01a\0b", b"KEYS\x01k\0", b"KEYS\x01k\x02" + bytes(20)])
def test_nuls_are_no_damage(properties: bytes) -> None:
    """Not in the last record either, unless the store was killed and nothing has dispatched it."""
    one, two = ending_in({"properties": properties}), ending_in({"properties": properties}, {})
    for log in (one, two):
        for more in ({}, derived(log, "consumequeue"), derived(log, "index")):
            for abort in ({}, {f"{STORE}/abort": b""}):
                storage = storage_of(log.log)
                storage.files |= more | abort
                report = checked(log, storage=storage)
                whole = log is two or more or not abort or not properties.endswith(b"\0")
                assert not report.warnings
                assert report.damage["range_count"] == (not whole)


@pytest.mark.parametrize("window", [1000, 8 << 20])
def test_a_record_longer_than_a_window_does_not_end_the_look(window: int, monkeypatch) -> None:
    monkeypatch.setattr(searches, "_WINDOW_BYTES", window)
    log = ending_in({"body": bytes([1]) * 400}, {})
    place = tear(log, 11, True)
    assert [each["offset"] for each in checked(log).damage["ranges"]] == [place]


@pytest.mark.parametrize("newest", [25, 50])
def test_a_clock_that_was_set_back_a_segment_ago(newest: int) -> None:
    """The checkpoint knows of a message before that; its splits and the last segment are older."""
    made = messages(newest + 1)
    made += [
        replace(each, store_timestamp=each.store_timestamp - 3_600_000)
        for each in messages(120)[newest + 1 :]
    ]
    log = damaged(made)
    time = made[newest].store_timestamp
    assert log.places[newest] // SEGMENT == log.places[newest + 1] // SEGMENT
    storage = storage_of(log.log)
    for knows, says in ((time, False), (time + 1, True)):
        storage.files[f"{STORE}/checkpoint"] = encode(Checkpoint(knows, knows))
        assert bool(lost(checked(log, storage=storage))) == says


def test_a_clock_that_was_set_back_is_no_lost_end() -> None:
    """The newest message that the checkpoint knows of is there, and is not the last."""
    log = ending_in({"store_timestamp": START + 9000}, {"store_timestamp": START})
    storage = storage_of(log.log)
    storage.files[f"{STORE}/checkpoint"] = encode(Checkpoint(START + 9000, START + 9000))
    assert not lost(checked(log, storage=storage))
    storage.files[f"{STORE}/checkpoint"] = encode(Checkpoint(START + 9001, START + 9001))
    assert lost(checked(log, storage=storage))


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("number", [1, 30, 38, 39, 59])
def test_a_fall_of_store_timestamp_is_said(number: int, splits: int) -> None:
    """Anywhere in the log, also from segment to segment; a mere correction is not."""
    for fall, wanted in ((1000, False), (5000, True)):
        made = [
            m if n < number else replace(m, store_timestamp=m.store_timestamp - fall - 1)
            for n, m in enumerate(messages())
        ]
        log = damaged(made)
        report = checked(log, splits)
        assert report.sound
        said = f"storeTimestamp falls by {fall / 1000:.1f} s at physical {log.places[number]:,}: "
        assert (said in text(report)) is wanted
        assert ("storeTimestamp" in text(report)) is wanted


@pytest.mark.parametrize("later", [True, False])
def test_an_index_of_an_older_log_is_named_with_what_a_broker_does(later: bool) -> None:
    """The log was removed, or the store's path changed, and its index stayed (#8041)."""
    old, new = damaged(messages(200)), damaged(
        [replace(m, store_timestamp=m.store_timestamp + later * 86_400_000) for m in messages(40)]
    )  # fmt: skip
    storage = storage_of(new.log)
    storage.files |= derived(new, "consumequeue") | derived(old, "index")
    report = checked(new, storage=storage)
    (finding,) = report.findings
    indexed = f"a broker indexes no message before physical {old.places[-1]:,}"
    assert (indexed in finding.reason, LOST in finding.reason) == (later, not later)
    assert ("next      reput rebuild" in text(report)) is later
