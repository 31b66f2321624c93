"""The real RocketMQ opens what the writer wrote, continues it, and is continued.

What each derives from the other's log is the same bytes.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.message.message import Message
from tests.broker.services.preparing import Transactions
from tests.broker.writer.stores import open_writer, stored_records
from tests.rocketmq.driver import Driver, remove_derived
from tests.rocketmq.puts import SIZES, assert_same, derived, put

pytestmark = pytest.mark.rocketmq

VERSIONS = [
    pytest.param("4.9.7", marks=pytest.mark.long),
    "5.3.3",
    pytest.param("5.4.0", marks=pytest.mark.long),
    pytest.param("5.5.0", marks=pytest.mark.long),
]


@pytest.fixture(scope="module", params=VERSIONS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with Driver(request.param) as running:
        yield running


def now() -> int:
    return time.time_ns() // 1_000_000


def write_all_kinds(writer: CommitLogWriter, many: int, first: int = 0) -> None:
    """Every kind of message that the release knows, over several segments."""
    transactions = Transactions(writer)
    v2, v6 = writer.profile.long_topics, writer.profile.ipv6_hosts
    for number in range(first, first + many):
        body = bytes([number % 256]) * (number * 37 % 700)
        kind = number % 9
        if kind == 0:
            writer.append(Message(f"T{number % 3}", body, number % 2, tags="t", keys=f"k{number}"))
        elif kind == 1:
            host = "[2001:db8::1]:1234" if v6 else "10.0.0.1:1234"
            writer.append(Message("T1", body, born_host=host, store_host=host, keys="a b a"))
        elif kind == 2:
            writer.append(Message("T2", body, 1, delay_level=number % 20 + 1, tags="ünï"))
        elif kind == 3:
            half = transactions.prepare(Message("Pay", body, 1, tags="p")).physical_offset
            (transactions.commit if number % 2 else transactions.rollback)(half)
        elif kind == 4:
            writer.append_batch([Message("T0", body, 1, keys=f"b{i}") for i in range(3)])
        elif kind == 5:
            topic = "%RETRY%" + "g" * (200 if v2 else 100)
            writer.append(Message(topic, body, properties={"p": "v" * 50}))
        elif kind == 6:
            writer.append(Message("T1", b"", properties=b""))
        elif kind == 7:
            # as the store takes them directly: they are in no queue
            draft = writer.encoder.draft(Message("T0", body, transaction=4, keys="prepared"))
            writer.put(draft)
            writer.put(writer.encoder.draft(Message("T0", body, transaction=12, keys="back")))
        else:
            writer.append(Message("T2", body, reconsume_times=3, flag=-5, sys_flag=1))


def by_rocketmq(driver: Driver, store: Path, to: Path) -> dict[str, bytes]:
    """What RocketMQ derives from a store's log alone."""
    shutil.copytree(store, to)
    remove_derived(to)
    driver.derive(to, SIZES)
    return derived(to)


def test_each_continues_the_others_store(driver: Driver, tmp_path: Path) -> None:
    store, release = tmp_path / "store", driver.version
    with open_writer(store, now, release=release, **SIZES) as writer:
        write_all_kinds(writer, 400)
    ours = derived(store)
    assert_same(by_rocketmq(driver, store, tmp_path / "a"), ours)

    answer = driver.open_check(store, SIZES)
    assert answer["max_offset"] == writer.log.end
    assert_same(derived(store), ours)

    put(driver, store, 150)
    records = list(stored_records(store / "commitlog"))
    assert len([r for r in records if b"UNIQ_KEY\x01U" in r.properties]) == 150
    with open_writer(store, now, release=release, **SIZES) as writer:
        assert writer.recovered is None
        write_all_kinds(writer, 200, 400)
    assert list(stored_records(store / "commitlog"))[: len(records)] == records
    assert_same(derived(store), by_rocketmq(driver, store, tmp_path / "b"))

    # and ours from RocketMQ's part of the log
    again = tmp_path / "again"
    shutil.copytree(store, again)
    remove_derived(again)
    open_writer(again, now, release=release, **SIZES).close()
    assert_same(derived(again), derived(store))


def test_rocketmq_opens_what_a_crash_of_the_writer_left(driver: Driver, tmp_path: Path) -> None:
    store, release = tmp_path / "store", driver.version
    writer = open_writer(store, now, release=release, **SIZES)
    write_all_kinds(writer, 150)
    writer.dispatch()
    writer.abandon()
    put(driver, store, 50)
    with open_writer(store, now, release=release, **SIZES) as writer:
        assert writer.recovered is None
        write_all_kinds(writer, 50)
    assert_same(derived(store), by_rocketmq(driver, store, tmp_path / "b"))


def test_the_writer_opens_what_a_crash_of_rocketmq_left(driver: Driver, tmp_path: Path) -> None:
    store, release = tmp_path / "store", driver.version
    with open_writer(store, now, release=release, **SIZES) as writer:
        write_all_kinds(writer, 50)
    messages = [{"t": "T1", "q": 0, "b": 100, "bs": n, "born": 1, "p": {"KEYS": f"c{n}"}}
                for n in range(3000)]  # fmt: skip
    driver.tell("put", store=str(store), settings=SIZES, messages=messages, halt_after_ms=300)
    driver.wait_for_death()
    assert (store / "abort").exists()
    with open_writer(store, now, release=release, **SIZES) as writer:
        assert writer.recovered is not None
        write_all_kinds(writer, 50, 50)
    assert_same(derived(store), by_rocketmq(driver, store, tmp_path / "b"))
