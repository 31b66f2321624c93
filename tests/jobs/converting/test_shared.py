"""A diverged pair merged: what both have is there once, and what one has alone is there too."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reput.jobs.compare import compare
from reput.jobs.convert import convert
from reput.jobs.pipeline.pipeline import Cut
from reput.store_format.faults import StoreError
from tests.converted import PLAIN, SEGMENT, log_of, records
from tests.in_process import OUTPUT, Session, as_text
from tests.jobs.comparing.pairs import MASTER, SLAVE, message, store
from tests.logs.encoder import Message
from tests.memory_storage import MemoryStorage

COMMON = [message(n) for n in range(20)]
OURS = [message(n, sender="B") for n in range(20, 25)]
THEIRS = [message(n, sender="C", store_timestamp=1_700_000_000_500 + 1000 * n)
          for n in range(20, 27)]  # fmt: skip


def pair(
    ours: list[Message], theirs: list[Message], offsets: Any = ({}, {}), first: int = 0
) -> MemoryStorage:
    files = {}
    for name, messages, own in ((MASTER, ours, offsets[0]), (SLAVE, theirs, offsets[1])):
        config = {"consumerOffset.json": {"offsetTable": own}}
        files.update(store(name, messages, SEGMENT, first, config))
    return MemoryStorage(files)


def merged(storage: MemoryStorage, splits: int = 1, meet: str = "renumber", **more: Any) -> Any:
    return convert(
        Session(), MASTER, OUTPUT, merge=[SLAVE], meet=meet, rocketmq="5.3.3",
        settings=as_text(PLAIN), storage=storage, cut=Cut(-(-SEGMENT // splits), 2, 2), **more,
    )  # fmt: skip


def keys(messages: list[Message]) -> list[bytes]:
    return [m.properties[len("UNIQ_KEY") + 1 :][:9] for m in messages]


def keys_in(storage: MemoryStorage) -> list[bytes]:
    return [r.partition(b"UNIQ_KEY\x01")[2][:9] for _, r in records(log_of(storage))]


@pytest.mark.parametrize("splits", [1, 7])
def test_what_both_have_is_taken_once_and_nothing_is_lost(splits: int) -> None:
    storage = pair([*COMMON, *OURS], [*COMMON, *THEIRS])
    summary = merged(storage, splits)
    wanted = sorted([*COMMON, *OURS, *THEIRS], key=lambda m: m.store_timestamp)
    assert keys_in(storage) == keys(wanted)
    assert len(summary.topics) == 2
    assert summary.shared == [0, 20]
    assert "20 records of slave are in a store before it too: taken once" in summary.text()


def test_one_that_is_only_behind_adds_nothing_and_moves_nothing() -> None:
    storage = pair([*COMMON, *OURS], COMMON)
    merged(storage, meet="refuse")
    assert keys_in(storage) == keys([*COMMON, *OURS])
    other = pair(COMMON, [*COMMON, *THEIRS])
    with pytest.raises(StoreError, match="--meet renumber"):
        merged(other, meet="refuse")
    merged(other)
    assert keys_in(other) == keys([*COMMON, *THEIRS])


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 20), st.integers(0, 9), st.integers(0, 9), st.sampled_from([1, 5]))
def test_a_drawn_pair_has_each_message_once(common, ours, theirs, splits) -> None:
    one = [*COMMON[:common], *(message(n, sender="B") for n in range(common, common + ours))]
    other = [*COMMON[:common], *(message(n, sender="C") for n in range(common, common + theirs))]
    storage = pair(one, other)
    merged(storage, splits)
    assert sorted(keys_in(storage)) == sorted({*keys(one), *keys(other)})
    numbers = [int.from_bytes(r[20:28]) for _, r in records(log_of(storage))]
    assert numbers == list(range(len(numbers)))


def test_a_group_reads_on_where_nothing_is_that_it_has_not_consumed() -> None:
    # behind the 20 that both have, ours and theirs by turns: B20 C20 B21 C21 ... C25 C26
    offsets = (
        {"T@both": {"0": 23}, "T@ours": {"0": 10}, "T@all": {"0": 25}},
        {"T@both": {"0": 15}, "T@theirs": {"0": 24}, "T@all": {"0": 27}, "T@early": {"0": 7}},
    )
    storage = pair([*COMMON, *OURS], [*COMMON, *THEIRS], offsets)
    merged(storage)
    table = json.loads(storage.files[f"{OUTPUT}/config/consumerOffset.json"])["offsetTable"]
    assert table == {
        "T@both": {"0": 21},  # C20 is the first that it has not read: of ours it has read three
        "T@ours": {"0": 10},
        "T@theirs": {"0": 20},  # B20
        "T@all": {"0": 32},
        "T@early": {"0": 7},
    }


def test_what_compare_says_is_lost_by_either_choice_is_in_the_merged_store() -> None:
    storage = pair([*COMMON, *OURS], [*COMMON, *THEIRS])
    storage.folders.add("staging")
    report = compare(
        Session(), MASTER, [SLAVE], storage=storage, staging_folder="staging", rocketmq="5.3.3",
        settings={"mappedFileSizeCommitLog": str(SEGMENT)},
    )  # fmt: skip
    only = [found.count("only") for found in report.pairs[0].found]
    assert only == [len(OURS), len(THEIRS)]
    merged(storage, meet="apart")
    assert len(keys_in(storage)) == len(COMMON) + sum(only)
