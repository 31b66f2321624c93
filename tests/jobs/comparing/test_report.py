"""The verdict on two logs, from the spans in which they differ."""

from pathlib import Path
from typing import Any

import pytest

from reput.jobs.compare import compare
from reput.jobs.comparing.contents import ConfigsDiffer, Found, Named, QueueOnly
from reput.jobs.comparing.logs import Parting, Side, There, open_side
from reput.jobs.comparing.report import (
    AHEAD,
    BEHIND,
    DAMAGED,
    PARTED,
    SAME,
    CompareReport,
    Comparison,
    Epochs,
    details,
    text,
)
from reput.store_format.discover.store import store_at
from reput.store_format.log.groups import Epoch
from tests import built
from tests.jobs.comparing.pairs import (
    COMMON,
    MASTER,
    SEGMENT,
    SLAVE,
    compared,
    message,
    pair,
    places,
    store,
)
from tests.logs.encoder import Message, encode
from tests.memory_storage import MemoryStorage
from tests.store_format.log.epoch_files import file_of

ONLY = Found(queues=[QueueOnly("T", 0, "only", messages=1)])
AGAIN = Found(queues=[QueueOnly("T", 0, "again", messages=1)])
ALIKE = Parting((), (), ())


def side(name: str, count: int) -> Side:
    files = store(name, COMMON[:count])
    return open_side(store_at(name, "5.3.3", {}, MemoryStorage(files)))


OURS, THEIRS = side(MASTER, 9), side(SLAVE, 5)
END = THEIRS.end  # the shorter log's


def comparison(parting: Parting, found: Found | None = None, **more: Any) -> Comparison:
    given: dict[str, Any] = {
        "there": None, "found": (found or Found(), Found()), "configs": ConfigsDiffer(),
        "epochs": Epochs(), **more,
    }  # fmt: skip
    return Comparison(OURS, THEIRS, parting, **given)


def test_bytes_that_differ_up_to_an_end_or_with_their_messages_part_logs() -> None:
    beginning = ((5, END - 1),)
    for parting, found, verdict in [
        (ALIKE, None, SAME), (Parting((), ((END, END + 9),), ()), None, BEHIND),
        (Parting((), (), ((END, END + 9),)), None, AHEAD),
        (Parting((), ((0, 9),), ((END, END + 9),)), None, PARTED),
        (Parting(beginning, (), ()), None, DAMAGED), (Parting(beginning, (), ()), AGAIN, DAMAGED),
        (Parting(beginning, (), ()), ONLY, PARTED), (Parting(((5, END),), (), ()), None, PARTED),
        (Parting(((5, 6), (7, END)), (), ()), None, PARTED),
    ]:  # fmt: skip
        assert comparison(parting, found).verdict == verdict
    there = There(70, None, "x"), There(50, None, "y")  # they part at the first of both records
    assert comparison(Parting(((60, 80),), (), ()), there=there).at == 50
    assert comparison(ALIKE).at is None


@pytest.mark.parametrize(("more", "same"), [
    ({}, True), ({"configs": ConfigsDiffer(notes=["no topics"])}, True),
    ({"configs": ConfigsDiffer(topics=Named(["A"]))}, False),
    ({"epochs": Epochs((Epoch(1, 0),), (Epoch(1, 0),))}, True),
    ({"epochs": Epochs((Epoch(1, 0),), None)}, False),
])  # fmt: skip
def test_stores_are_the_same_only_with_their_config_and_epochs(more, same: bool) -> None:
    pair = comparison(ALIKE, **more)
    assert pair.same is same
    assert CompareReport([OURS, THEIRS], [comparison(ALIKE), pair]).same is same
    assert pair.verdict == SAME


# --- What a person reads of a comparison, and what the command answers.
COMPARE_OURS = [*COMMON[:41], *(message(n, sender="B", topic="Pay") for n in range(41, 50))]
COMPARE_THEIRS = [
    *COMMON[:41], message(41, sender="C"), message(42, sender="B\x1b[1m", topic="N\ned"),
]  # fmt: skip


def written(folder: Path, name: str, messages: list[Message]) -> Path:
    return built.write(folder, store(name, messages)) / name


def test_the_summary_says_what_either_choice_loses() -> None:
    files = pair(COMPARE_OURS, COMPARE_THEIRS)
    files[f"{MASTER}/epochFileCheckpoint"] = file_of("1-0")
    files[f"{SLAVE}/epochFileCheckpoint"] = file_of("1-0", f"2-{places(COMPARE_OURS)[41] + 7}")
    report = compared(files)
    lines = text(report).split("\n")
    at = f"{places(COMPARE_OURS)[41]:,}"
    assert lines[0] == f"compared master (master) with slave (slave): they PART at {at}"
    assert f"  master    at {at}: Pay/0 at queueOffset 41, id B00000041, 2 keys, " in lines[3]
    assert f"  slave     at {at}: T/0 at queueOffset 41, id C00000041, 2 keys, " in lines[4]
    assert lines[5] == (
        "  keep      master: 2 messages would be lost that only slave has (N\\ned 1, T 1)"
    )
    assert lines[6] == "  keep      slave: 9 messages would be lost that only master has (Pay 9)"
    assert f"after {at} where the logs part: it would keep bytes that differ" in lines[9]
    assert lines[-2].startswith("  next      reput convert ")
    assert lines[-2].endswith(" --meet renumber --output DIR keeps what either has")
    assert all(line.isprintable() for line in (*lines, *details(report)))
    assert any(
        "master only: Pay/0, 9 messages, queueOffsets 41 to 49" in d for d in details(report)
    )


@pytest.mark.long
def test_spark_finds_the_same(spark: object, tmp_path: Path) -> None:
    master, slave = written(tmp_path, "a", COMPARE_OURS), written(tmp_path, "b", COMPARE_THEIRS)
    found = [
        compare(engine, str(master), [str(slave)], rocketmq="5.3.3").as_json()["compared"]  # type: ignore[arg-type]
        for engine in (None, spark)
    ]
    assert found[0] == found[1]
    assert found[0][0]["messages"][0]["only"] == 9


def test_what_a_log_does_not_have_any_more_is_no_promise() -> None:
    files = pair(COMMON, COMMON[:50])
    del files[f"{MASTER}/commitlog/{0:020d}"]
    lines = text(compared(files)).split("\n")
    assert f"  keep      master: no message is lost but those before {SEGMENT:,}" in lines
    assert (
        f"  next      keep master: it has all that slave has but those before {SEGMENT:,}" in lines
    )
    master = store(MASTER, COMMON[:20], first=8 * SEGMENT)
    report = compared({**master, **store(SLAVE, COMMON)})
    lines = text(report).split("\n")
    assert lines[0].endswith(": they have no byte in common, and nothing was compared")
    assert "  keep      both: which messages only one of them has is not known" in lines
    assert not any("no message is lost" in line or "next" in line for line in lines)
    assert (report.same, report.pairs[0].as_json()["log"]) == (False, "apart")
    lines = text(compared(pair(COMMON, COMMON[:50]))).split("\n")
    many = places(COMMON)[59] + len(encode(COMMON[59], 0)) - places(COMMON)[50]
    assert lines[0].endswith(f": slave is behind by {many:,} bytes, 10 messages")
    assert "  next      keep master: it has all that slave has" in lines
