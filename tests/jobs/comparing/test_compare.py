"""Where two logs part, and what only one has: by a plain comparison of the messages they are of."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.jobs.comparing import logs as parting
from reput.jobs.comparing.compare import verify_queue_log
from reput.jobs.comparing.report import AHEAD, BEHIND, DAMAGED, PARTED, SAME, Comparison
from reput.jobs.judging.report import MISSING, MISSING_AT_END, ONE_TOO_MANY
from reput.store_format.discover.store import store_at
from tests.jobs.comparing import pairs
from tests.logs.encoder import Message, build_log, encode, properties
from tests.store_format.files.queue_log_archive import (
    PLAIN,
    TOPIC,
    compacted_url,
    copy,
    root,
    tiered_url,
)
from tests.trees import flip


def test_each_slave_is_compared_with_the_first_and_one_behind_lacks_the_last_messages() -> None:
    files = {
        **pairs.pair(pairs.COMMON, pairs.COMMON), **pairs.store("behind", pairs.COMMON[:41]),
        **pairs.store("ahead", [*pairs.COMMON, pairs.message(60)]),
    }  # fmt: skip
    report = pairs.compared(files, 0, pairs.SLAVE, "behind", "ahead")
    assert [each.verdict for each in report.pairs] == [SAME, BEHIND, AHEAD]
    same, found, ahead = report.pairs
    assert not report.same
    assert (same.same, same.parting.first) == (True, None)
    assert [side.count("only") for side in ahead.found] == [0, 1]
    assert found.parting.first == pairs.places(pairs.COMMON)[41]
    assert [side.count("only") for side in found.found] == [19, 0]
    (queue,) = found.found[0].queues
    assert (queue.topic, queue.queue_id, queue.least, queue.greatest) == ("T", 0, 41, 59)
    assert found.there is not None
    assert found.there[0].message is not None
    assert found.there[0].message["queueOffset"] == 41
    assert found.there[1].reason == "the log has ended"


def test_logs_that_part_name_both_records() -> None:
    ours = pairs.COMMON[:41] + [pairs.message(n, sender="B") for n in range(41, 50)]
    theirs = pairs.COMMON[:41] + [pairs.message(n, sender="C", topic="U") for n in range(41, 70)]
    (found,) = pairs.compared(pairs.pair(ours, theirs)).pairs
    assert found.verdict == PARTED
    assert found.there is not None
    assert [there.physical_offset for there in found.there] == [pairs.places(ours)[41]] * 2
    assert [there.message and there.message["uniqueKey"] for there in found.there] == [
        "B00000041", "C00000041",
    ]  # fmt: skip
    assert [side.count("only") for side in found.found] == [9, 29]


@pytest.mark.parametrize("later", [0, 7])
def test_a_message_at_another_position_or_sent_again_is_lost_by_neither_choice(later) -> None:
    ours = [pairs.message(41, sender="C"), pairs.message(42, sender="B")]
    time = ours[1].store_timestamp + later
    moved = replace(ours[1], queue_offset=41, store_timestamp=time)
    (found,) = pairs.compared(
        pairs.pair([*pairs.COMMON[:41], *ours], [*pairs.COMMON[:41], moved])
    ).pairs
    assert [side.count("again") for side in found.found] == [1, 1]
    assert [side.count("only") for side in found.found] == [1, 0]


def spoilt(name: str, at: int, bits: int) -> Comparison:
    """The comparison of two alike, of which one has flipped bits."""
    files = pairs.pair(pairs.COMMON, pairs.COMMON)
    raw = bytearray(files[f"{name}/commitlog/{0:020d}"])
    raw[at] ^= bits
    (found,) = pairs.compared({**files, f"{name}/commitlog/{0:020d}": bytes(raw)}).pairs
    return found


def test_a_flipped_bit_loses_no_message_and_names_the_side_that_is_damaged() -> None:
    at = pairs.places(pairs.COMMON)[20]
    found = spoilt(pairs.SLAVE, at + 88 + 3, 1)  # in the body
    assert found.verdict == DAMAGED
    assert found.parting.first == at + 91
    assert found.there is not None
    assert found.there[0].reason == ""
    assert found.there[1].reason.startswith("bodyCRC: ")
    assert found.there[0].message == found.there[1].message
    assert [there.physical_offset for there in found.there] == [at, at]
    assert [side.count("only") for side in found.found] == [0, 0]
    assert [side.count("damaged") for side in found.found] == [0, 1]
    # a record whose size is spoilt is only on the other side
    assert [side.count("only") for side in spoilt(pairs.MASTER, at + 2, 64).found] == [0, 1]


def test_logs_that_begin_apart_or_in_other_segments_are_compared_where_both_are() -> None:
    files = pairs.pair(pairs.COMMON, pairs.COMMON)
    del files[f"{pairs.SLAVE}/commitlog/{0:020d}"]
    report = pairs.compared(files)
    assert report.same
    assert [side.start for side in report.sides] == [0, pairs.SEGMENT]
    files = {
        **pairs.store(pairs.MASTER, pairs.COMMON),
        **pairs.store(pairs.SLAVE, pairs.COMMON[:55], 3000),
    }
    (found,) = pairs.compared(files).pairs
    assert [side.count("only") for side in found.found] == [5, 0]
    long = [pairs.message(n) for n in range(80)]
    files = pairs.pair(long, long)
    del files[f"{pairs.SLAVE}/commitlog/{pairs.SEGMENT:020d}"]
    report = pairs.compared(files)
    (found,) = report.pairs
    inside = sum(pairs.SEGMENT <= at < 2 * pairs.SEGMENT for at in pairs.places(long))
    assert found.found[0].count("only") == inside > 0
    assert found.found[1].count("only") == 0
    assert any("hole" in note for note in report.sides[1].notes)


def test_a_stale_tail_is_named() -> None:
    """What a slave's cut leaves: the new record ends within an old one, and old ones follow."""
    old = pairs.places(pairs.COMMON)
    files = pairs.pair(pairs.COMMON[:41], pairs.COMMON)
    name = f"{pairs.SLAVE}/commitlog/{old[41] // pairs.SEGMENT * pairs.SEGMENT:020d}"
    log = bytearray(files[name])
    new = encode(pairs.message(41, sender="B", body=b"x" * 40, store_timestamp=1_800_000_000_000),
                 old[41])  # fmt: skip
    log[old[41] % pairs.SEGMENT : old[41] % pairs.SEGMENT + len(new)] = new
    files[name] = bytes(log)
    (extra,) = [base for base in (old[-1] // pairs.SEGMENT * pairs.SEGMENT,) if base]
    if extra > old[41]:
        files[f"{pairs.SLAVE}/commitlog/{extra:020d}"] = bytes(pairs.SEGMENT)
    report = pairs.compared(files)
    assert report.sides[1].end == old[41] + len(new)
    assert report.sides[1].tail is not None
    assert report.sides[1].tail.record in old[42:45]
    assert report.pairs[0].found[1].count("only") == 1


def test_each_message_of_one_store_alone_is_a_line_without_its_body() -> None:
    lines = io.BytesIO()
    files = pairs.pair(
        [*pairs.COMMON[:41], pairs.message(41, sender="B", topic="U")], pairs.COMMON[:43]
    )
    pairs.compared(files, messages=lines)
    rows = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert [(row["store"], row["uniqueKey"], row["kind"]) for row in rows] == [
        (pairs.MASTER, "B00000041", "only"), (pairs.SLAVE, "A00000041", "only"),
        (pairs.SLAVE, "A00000042", "only"),
    ]  # fmt: skip
    assert rows[0]["keys"] == 2
    assert b"body" not in lines.getvalue()


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_what_only_one_has_is_what_a_plain_comparison_says(data: st.DataObject) -> None:
    """Any common beginning, any two tails that share some messages, any cut of the work."""
    count = data.draw(st.integers(0, 40), "common")
    tails = [
        data.draw(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 9),
                                     st.integers(0, 30)), max_size=25, unique_by=lambda t: t[:2]),
                  name)
        for name in ("ours", "theirs")
    ]  # fmt: skip
    logs = [
        [*pairs.COMMON[:count], *(
            pairs.message(count + n, sender=sender, queue_id=int(number % 2),
                          topic=f"T{number % 3}",
                    properties=properties(("UNIQ_KEY", f"{sender}-{number}")),
                    body=bytes([number]) * (3 + length // 30))
            for n, (sender, number, length) in enumerate(tail)
        )]
        for tail in tails
    ]  # fmt: skip
    segments = [data.draw(st.sampled_from([4096, 4096, 2048]), "segment") for _ in range(2)]
    files = {
        **pairs.store(pairs.MASTER, logs[0] or pairs.COMMON[:1], segments[0]),
        **pairs.store(pairs.SLAVE, logs[1] or pairs.COMMON[:1], segments[1]),
    }
    logs = [log or pairs.COMMON[:1] for log in logs]
    pieces = data.draw(st.sampled_from([1 << 20, 1000, 64]), "pieces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parting, "_PIECE_BYTES", pieces)
        (found,) = pairs.compared(files, data.draw(st.integers(0, 2), "seed")).pairs

    def kinds(ours: list[Message], theirs: list[Message]) -> dict[str, int]:
        there = {(m.topic, m.properties, m.body) for m in theirs}
        missing = [m for m in ours if m not in theirs]
        again = sum((m.topic, m.properties, m.body) in there for m in missing)
        return {"only": len(missing) - again, "again": again}

    for side, one, other in ((0, *logs), (1, logs[1], logs[0])):
        counted = {kind: found.found[side].count(kind) for kind in ("only", "again", "damaged")}
        wanted = {**kinds(one, other), "damaged": 0}
        if wanted["again"]:  # those that stand in the common beginning of the other are not seen
            continue
        assert counted == wanted
    whole = [
        b"".join(build_log(log, size).values()) for log, size in zip(logs, segments, strict=True)
    ]
    ends = [side.end for side in (found.ours, found.theirs)]
    shared = min(ends)
    unlike = next((n for n in range(shared) if whole[0][n] != whole[1][n]), None)
    if unlike is None:
        unlike = None if ends[0] == ends[1] else shared
    assert found.parting.first == unlike


# --- A queue's own log and the queue file beside it: every way in which an entry may differ.
__all__ = ["copy", "root"]  # fixtures

COMPACTED, TIERED = 46, 20  # bytes of an entry


def differences(url: str) -> list[tuple[str, int, str, int | None, int | None]]:
    report = verify_queue_log(store_at(url))
    return [(Path(d.path).name, d.offset, d.field, d.there, d.wanted) for d in report.differences]


@pytest.mark.parametrize(
    ("byte", "field"),
    [(7, "physicalOffset"), (11, "size"), (19, "tagsCode"), (27, "storeTimestamp"),
     (35, "baseOffset"), (37, "batchSize")],
)  # fmt: skip
def test_each_field_of_an_entry_is_compared(byte: int, field: str, copy: Path) -> None:
    path = copy / f"compaction/compactionCq/{TOPIC}/0/{0:020d}"
    flip(path, 2 * COMPACTED + byte, 2)
    ((name, at, said, there, wanted),) = differences(compacted_url(copy))
    assert (name, at, said) == (path.name, 2 * COMPACTED, f"entry 2 {field}")
    assert there is not None
    assert wanted is not None
    assert there ^ wanted == 2


def test_of_a_compacted_queue_s_file_one_entry_too_few_or_too_many_is_told(copy: Path) -> None:
    path = copy / f"compaction/compactionCq/{TOPIC}/0/{0:020d}"
    raw = path.read_bytes()
    entries = [raw[at : at + COMPACTED] for at in range(0, len(raw), COMPACTED)]
    used = sum(int.from_bytes(entry[8:12], "big") > 0 for entry in entries)
    last = raw[(used - 1) * COMPACTED : used * COMPACTED]
    path.write_bytes(raw[: (used - 1) * COMPACTED].ljust(len(raw), b"\0"))
    assert differences(compacted_url(copy)) == [
        (path.name, (used - 1) * COMPACTED, MISSING_AT_END, used - 1, used)
    ]
    path.write_bytes(raw[: used * COMPACTED] + last + raw[(used + 1) * COMPACTED :])
    assert differences(compacted_url(copy)) == [
        (path.name, used * COMPACTED, ONE_TOO_MANY, used + 1, used)
    ]
    path.unlink()
    assert differences(compacted_url(copy)) == [(path.name, 0, MISSING, None, None)]


def test_a_tiered_queue_s_missing_file_is_a_hole_or_a_missing_end(copy: Path) -> None:
    files = copy / f"tiered/judge/{PLAIN}/0/CONSUME_QUEUE"
    by_start = sorted(files.iterdir(), key=lambda path: path.name[8:])
    assert len(by_start) >= 3
    sizes = [path.stat().st_size for path in by_start]
    last = by_start[-1].read_bytes()
    by_start[-1].unlink()
    (found,) = differences(tiered_url(copy))
    assert found[1:] == (0, MISSING_AT_END, None, None)
    by_start[-1].write_bytes(last)
    by_start[1].unlink()
    (hole,) = differences(tiered_url(copy))
    assert hole[2:] == (f"a hole before {sizes[0] + sizes[1]}", sizes[0], sizes[0] + sizes[1])


def test_the_report_names_the_queue_and_counts_its_files(root: Path) -> None:
    report = verify_queue_log(store_at(tiered_url(root)))
    assert report.same
    assert report.files == len(list((root / f"tiered/judge/{PLAIN}/0/CONSUME_QUEUE").iterdir()))
    assert report.warnings == []
