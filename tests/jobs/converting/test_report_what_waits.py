"""Transactions, delayed messages and timers of a converted store stand as they stood before."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.opening.questions import open_store
from reput.store_format.fate.rows import ENDED
from reput.store_format.faults import StoreError
from tests.converted import converted, log_of, plain, records
from tests.in_process import OUTPUT, STORE, Session, storage_of
from tests.logs.encoder import Message, properties
from tests.store_format.fate.stores import IN_ROCKSDB, LIVED, unpack

LEVELS = {"messageDelayLevel": "1s 2s 30s 1h"}  # of the broker that wrote these (fates.py)


def without_places(rows: Any) -> list[dict[str, Any]]:
    shown = (row._asdict() for row in rows)
    return [{n: v for n, v in row.items() if "physical" not in n} for row in shown]


@pytest.mark.parametrize("name", LIVED)
def test_a_broker_that_lived_is_told_the_same(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    version = name.partition("_")[2]
    made = tmp_path / "made"
    convert(
        Session(), str(store), str(made), rocketmq=version, settings=LEVELS,
        to_settings={"mappedFileSizeCommitLog": "9000"},
    )  # fmt: skip
    one, other = (open_store(str(each), rocketmq=version) for each in (store, made))
    told = without_places(one.transactions(everything=True))
    assert told
    assert without_places(other.transactions(everything=True)) == told
    assert without_places(other.delayed(everything=True)) == without_places(
        one.delayed(everything=True)
    )


def test_transactions_in_rocksdb_tell_of_places(tmp_path: Path) -> None:
    store, _ = unpack(IN_ROCKSDB, tmp_path)
    with pytest.raises(StoreError, match="RMQ_SYS_ROCKSDB_TRANS_"):
        convert(Session(), str(store), str(tmp_path / "made"), rocketmq="5.5.0")
    assert not (tmp_path / "made").exists()


HALF, OP, TIMER = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer"


def half(topic: str, n: int, body: bytes = b"half") -> Message:
    text = properties(("REAL_TOPIC", topic), ("REAL_QID", "0"), ("UNIQ_KEY", f"u{n}{topic}"))
    return Message(HALF, 0, n, body, text, store_timestamp=1_700_000_000_000 + n)


def op(n: int, offset: int) -> Message:
    return Message(OP, 0, n, b"%d," % offset, properties(("TAGS", "d")),
                   store_timestamp=1_700_000_000_000 + offset)  # fmt: skip


def test_of_chosen_topics_pending_half_messages_are_taken_and_no_others() -> None:
    halves = [half("AB"[n % 2], n, b"half of %d" % n) for n in range(8)]
    log = plain([Message("A"), Message("B"), *halves, op(0, 2), op(1, 5)])
    offsets = {"offsetTable": {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 1},
                               f"{OP}@CID_RMQ_SYS_TRANS": {"0": 2}}}  # fmt: skip
    for splits in (1, 9):
        storage = storage_of(log)
        storage.files[f"{STORE}/config/consumerOffset.json"] = json.dumps(offsets).encode()
        _, made = converted(log, storage, splits=splits, topics=["A"])
        found = records(log_of(made))
        assert _bodies(found) == [b"", b"half of 4", b"half of 6"]
        assert [struct.unpack_from(">q", r, 20)[0] for _, r in found[1:]] == [0, 1]
        told = json.loads(made.files[f"{OUTPUT}/config/consumerOffset.json"])["offsetTable"]
        assert told == {f"{HALF}@CID_RMQ_SYS_TRANS": {"0": 0}}
    _, made = converted(log, topics=["A"], rename={"A": "New"})
    assert all(b"REAL_TOPIC\x01New\x02" in r for _, r in records(log_of(made))[1:])


def _bodies(found: list[tuple[int, bytes]]) -> list[bytes]:
    return [r[88 : 88 + int.from_bytes(r[84:88])] for _, r in found]


@pytest.mark.parametrize("name", LIVED)
def test_what_waits_of_one_topic_waits_in_its_store_alone(name: str, tmp_path: Path) -> None:
    store, _ = unpack(name, tmp_path)
    version = name.partition("_")[2]
    one = open_store(str(store), rocketmq=version)

    def waits(of: Any) -> list[Any]:
        transactions = [(r.state, r.topic, r.unique_key) for r in of.transactions()
                        if r.state == "pending"]  # fmt: skip
        delayed = [(r.by, r.topic, r.unique_key, r.due) for r in of.delayed()
                   if r.state not in ENDED]  # fmt: skip
        return sorted([*transactions, *delayed], key=str)

    whole = waits(one)
    for topic in ("Live0", "Live1", "Live2"):
        made = tmp_path / topic
        convert(
            Session(), str(store), str(made), rocketmq=version, settings=LEVELS, topics=[topic],
        )  # fmt: skip
        wanted = [row for row in whole if row[1] == topic]
        assert wanted
        assert waits(open_store(str(made), rocketmq=version)) == wanted
        assert not (made / "timerlog").exists()


def test_pending_transactions_of_rocksdb_are_refused_where_topics_are_chosen(tmp_path) -> None:
    store, _ = unpack(IN_ROCKSDB, tmp_path)
    one = open_store(str(store), rocketmq="5.5.0")
    topics = {str(row.topic) for row in one.transactions() if row.state == "pending"}
    # `resolve-transactions` refuses these too (resolve._known_by_rocksdb)
    with pytest.raises(StoreError, match=r"pending transaction.*only their broker or producer"):
        convert(
            Session(), str(store), str(tmp_path / "made"), rocketmq="5.5.0", topics=sorted(topics)
        )
    assert not (tmp_path / "made").exists()
