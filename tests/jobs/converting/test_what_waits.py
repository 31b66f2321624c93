"""Transactions, delayed messages and timers of a converted store stand as they stood before."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.jobs.convert import convert
from reput.jobs.opening.open_store import open_store
from reput.store_format.faults import StoreError
from reput.store_format.layouts import TIMER_UNIT
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


def test_units_of_timerlog_name_the_new_places() -> None:
    timers = [
        Message("rmq_sys_wheel_timer", 0, n, b"x" * n, properties(("REAL_TOPIC", "A")))
        for n in range(40)
    ]  # fmt: skip
    log = plain([Message("A"), *timers])
    storage = storage_of(log)
    old = records(log.segments)[1:]
    units = np.zeros(43, TIMER_UNIT)
    units["size"], units["messageSize"] = 52, 1
    units["physicalOffset"][:40] = [place for place, _ in old]
    units["physicalOffset"][40:42] = 1 << 40, old[0][0] + 1
    units["size"][42] = 0
    storage.files[f"{STORE}/timerlog/{0:020d}"] = units.tobytes() + b"tail"
    storage.files[f"{STORE}/timerwheel"] = b"wheel"
    storage.files[f"{STORE}/config/timercheck"] = b"check"
    _, made = converted(log, storage, rename={"A": "AnotherName"}, splits=7)
    raw = made.files[f"{OUTPUT}/timerlog/{0:020d}"]
    after = np.frombuffer(raw[: 43 * 52], TIMER_UNIT)
    new = records(log_of(made))[1:]
    assert after["physicalOffset"].tolist() == [*(place for place, _ in new), 1 << 40, 0, 0]
    assert after["messageSize"].tolist() == [*(len(record) for _, record in new), 1, 1, 1]
    assert raw[43 * 52 :] == b"tail"
    assert made.files[f"{OUTPUT}/timerwheel"] == b"wheel"
    assert made.files[f"{OUTPUT}/config/timercheck"] == b"check"
    listed = json.loads(made.files[f"{OUTPUT}/manifest.json"])["copied"]
    assert f"timerlog/{0:020d}" in listed


def test_a_pending_transaction_of_a_topic_that_is_taken_is_refused() -> None:
    text = properties(("REAL_TOPIC", "A"), ("REAL_QID", "0"), ("UNIQ_KEY", "u"))
    half = Message("RMQ_SYS_TRANS_HALF_TOPIC", 0, 0, b"half", text)
    log = plain([Message("A"), Message("B"), half])
    with pytest.raises(StoreError, match="1 pending transaction of topic 'A'"):
        converted(log, topics=["A"])
    _, made = converted(log, topics=["B"])
    assert len(records(log_of(made))) == 1
