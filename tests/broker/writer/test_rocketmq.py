"""The real RocketMQ opens what the writer wrote, continues it, and is continued.

What each derives from the other's log is the same bytes.
"""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.layouts import SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import Profile, profile
from tests.broker.services.preparing import Transactions
from tests.broker.writer.stores import Clock, open_writer, stored_records
from tests.rocketmq import build
from tests.rocketmq.case import NO_DELIVERY
from tests.rocketmq.driver import Driver, remove_derived
from tests.rocketmq.puts import SIZES, as_job, assert_same, derived, put

pytestmark = pytest.mark.rocketmq


def of_releases(*quick: str, since: str = "4", but: tuple[str, ...] = ()) -> Any:
    """A driver for each release whose records differ; the others but the quick ones are long."""
    versions = sorted(build.VERSIONS + build.RECORD_VERSIONS)
    some = [each for each in versions if each >= since and each not in ("5.4.0", "5.5.0", *but)]
    made = [each if each in quick else pytest.param(each, marks=pytest.mark.long) for each in some]
    return pytest.mark.parametrize("driver", made, indirect=True)


# What is derived of either's log is alike from 5.3.3 on, but for 5.5.1.
of_each = of_releases("5.3.3", since="4.9.7", but=("5.0.0", "5.1.1", "5.1.4", "5.2.0"))


@pytest.fixture(scope="module")
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


@of_each
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


@of_each
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


@of_each
def test_the_writer_opens_what_a_crash_of_rocketmq_left(driver: Driver, tmp_path: Path) -> None:
    store, release = tmp_path / "store", driver.version
    with open_writer(store, now, release=release, **SIZES) as writer:
        write_all_kinds(writer, 50)
    messages = [{"t": "T1", "q": 0, "b": 100, "bs": n, "born": 1,
                 "p": {"KEYS": f"c{n}"}} for n in range(3000)]  # fmt: skip
    driver.tell("put", store=str(store), settings=SIZES, messages=messages, halt_after_ms=300)
    driver.wait_for_death()
    assert (store / "abort").exists()
    with open_writer(store, now, release=release, **SIZES) as writer:
        assert writer.recovered is not None
        write_all_kinds(writer, 50, 50)
    assert_same(derived(store), by_rocketmq(driver, store, tmp_path / "b"))


# --- Messages with further queues (LMQ, INNER_MULTI_DISPATCH), put into the real store and into
# ours.
# These begin at 0 with light queues after each start: nobody fills lmqTopicQueueTable.
FORGET = ("4.9.3", "5.0.0")


def messages(release: str, first: int) -> list[Message]:
    """Every kind of list, on every kind of topic. A list that begins with another topic's name, or
    has a blank one in it, stops RocketMQ's dispatch for good from 5.0.0 on, and is not drawn then.
    """
    made: list[Message] = []

    def put(names: str | None, topic: str = "T", **fields: Any) -> None:
        number = first + len(made)
        properties = {"a": f"{number}", **fields.pop("properties", {})}
        if names is not None:
            properties["INNER_MULTI_DISPATCH"] = names
        made.append(Message(
            topic, b"x" * (number % 50), number % 3, properties=properties, keys=f"k{number}",
            tags="t", unique_key=f"U{number}", born_timestamp=1_700_000_000_000,
            born_host="10.0.0.1:1", store_host="10.0.0.2:2", **fields))  # fmt: skip

    lists = ["%LMQ%a", "%LMQ%a,%LMQ%b", "%LMQ%b,%LMQ%b,%LMQ%a", "%LMQ%a,Other", "Other", ",",
             "%LMQ%c,,", None]  # fmt: skip
    if profile(release).multi_all_names:
        lists += ["Other,%LMQ%a", "T,%LMQ%a"]
    for names in lists * 2:
        put(names)
        put(names, wait=False)
        put(names, properties={"INNER_MULTI_QUEUE_OFFSET": "77,78"})
    for topic in ("%RETRY%g", "rmq_sys_x", "Other"):
        put("%LMQ%a,%LMQ%d", topic)
    put("%LMQ%a", delay_level=2)
    for transaction in (4, 8, 12):
        put("%LMQ%a,%LMQ%e", transaction=transaction)
        put("%LMQ%e")
    return made


@pytest.mark.parametrize(("multi", "lmq"), [(True, True), (True, False), (False, True)])
@of_releases("5.3.3", since="4.9.3", but=("5.1.4",))
def test_log_queues_and_index_are_the_real_stores(driver, tmp_path, multi: bool, lmq: bool) -> None:
    if driver.version != "5.3.3" and not (multi and lmq):
        return  # the switches are one release's
    settings = SIZES | {"enableMultiDispatch": str(multi).lower(), "enableLmq": str(lmq).lower(),
                        "messageDelayLevel": NO_DELIVERY}  # fmt: skip
    if multi and profile(driver.version).property_crc:
        # without, 5.2.0 leaves 20 bytes of old memory behind the properties (crc32ReservedLength)
        settings["enabledAppendPropCRC"] = "true"
    ours, theirs, clock = tmp_path / "ours", tmp_path / "theirs", Clock()
    for first in (0,) if driver.version in FORGET else (0, 1000):  # again, after a stop
        given = messages(driver.version, first)
        answer = driver.ask(
            "put", store=str(theirs), settings=settings, messages=[as_job(m) for m in given],
            as_broker=True, pace=50)  # fmt: skip
        assert answer["statuses"] == {"PUT_OK": len(given)}
        records = list(stored_records(theirs / "commitlog"))
        stamps = {record.physical_offset: record.store_timestamp for record in records}
        with open_writer(ours, clock, release=driver.version, **settings) as writer:
            for message, offset in zip(given, answer["offsets"], strict=True):
                clock.now = stamps[offset]
                writer.put(writer.encoder.draft(message))
        for one, other in zip(stored_records(ours / "commitlog"), records, strict=True):
            assert one == other
        assert_same(logs(ours), logs(theirs))
        assert_same(derived(ours), derived(theirs))


def logs(store: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes().rstrip(b"\0") for p in sorted((store / "commitlog").iterdir())}


# --- The writer's records beside those of the real `putMessage`, made of the same messages.
SETTINGS = {"mappedFileSizeCommitLog": 65536, "messageDelayLevel": NO_DELIVERY}
# Nine names of one hash code and more: a bucket that HashMap.treeifyBin makes a table larger for.
ALIKE = [f"{a}{b}{c}{d}" for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB")
         for d in ("Aa", "BB")]  # fmt: skip
ODD = ["x ", "ünï", "订单", "🚀", "a,b;c=d", "%s %d %%", "x\t\n\r", "\x03\x1f\x7f", "\ufeff",
       "a" * 3000, "null", "-1", "x\u2028", "e\u0301"]  # fmt: skip


def all_messages(rules: Profile) -> Iterator[Message | list[Message]]:
    """Every kind of message that a broker's store is given; a list is a batch."""
    r = random.Random(rules.release)

    def message(**fields: Any) -> Message:
        defaults: dict[str, Any] = {
            "topic": f"T{r.randrange(3)}", "body": r.randbytes(r.randrange(400)),
            "queue_id": r.randrange(3), "unique_key": f"U{r.randrange(1 << 40):X}",
            "born_timestamp": 1_700_000_000_000 + r.randrange(1000), "born_host": "10.1.2.3:4567",
            "store_host": "10.3.2.1:10911"}  # fmt: skip
        return Message(**{**defaults, **fields})

    yield message()
    yield message(body=b"", tags="t", keys=["k1", "k2"])
    for value in ODD:
        yield message(properties={"p": value})
        yield message(properties={f"n{value}"[:90]: "v"}, tags=value)
    for many in (1, 2, 5, 11, 12, 13, 25, 70, 97, 130):
        names = [f"name{r.randrange(10**6)}" for _ in range(many)]
        yield message(properties={name: f"{number}" for number, name in enumerate(names)})
    # 5.1.0 on the broker's map begins with 128 buckets: nine of one become a tree, see java_map
    for many in range(2, 9 if rules.property_map_capacity > 64 else 11):
        yield message(properties=dict.fromkeys(r.sample(ALIKE, many), "v"))
    for level in (1, 3, 18, 19, 1000):
        yield message(delay_level=level, tags="t")
        yield message(properties={"a": "b", "DELAY": str(level), "c": "d"})
    for text in ("0", "-3", "+2", "007", "٣"):
        yield message(properties={"DELAY": text})
    yield message(properties={"TIMER_DELAY_SEC": "5", "DELAY": "2", "TIMER_DELAY_MS": "1",
                              "TIMER_DELIVER_MS": "9"})  # fmt: skip
    yield message(properties={"TIMER_DELAY_SEC": "5", "TIMER_OUT_MS": "7"})
    for kind in (SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK):
        yield message(transaction=kind, properties={"DELAY": "3", "TIMER_DELAY_MS": "5"})
    yield message(transaction=8, tags="committed")
    yield message(transaction=8, delay_level=2)
    yield message(flag=-5, sys_flag=1, reconsume_times=3, wait=False)
    if rules.ipv6_hosts:
        yield message(born_host="[2001:db8::1]:1", store_host="[2001:db8::2]:2")
    for _ in range(60):
        batch = [message(topic="B", queue_id=1, born_timestamp=5, tags=r.choice(("", "t")),
                         properties={f"n{r.randrange(99)}": r.choice(ODD)} if r.random() < 0.7
                         else None) for _ in range(r.randrange(1, 5))]  # fmt: skip
        yield batch
        yield message(properties={f"q{n}": r.choice(ODD) for n in range(r.randrange(9))})


def put_ours(writer: CommitLogWriter, message: Message | list[Message]) -> None:
    if isinstance(message, list):
        writer.append_batch(message)
    else:
        writer.put(writer.encoder.draft(message))


@of_releases("4.1.0", "4.9.7", "5.3.3", but=("4.5.2", "5.1.1"))
@pytest.mark.parametrize("crc", [False, True])
def test_a_record_is_the_real_put_messages_byte_for_byte(driver, tmp_path, crc: bool) -> None:
    rules = profile(driver.version)
    if crc and not rules.property_crc:
        return  # the release has no __CRC32#: there is nothing to compare
    settings = SETTINGS | ({"enabledAppendPropCRC": "true"} if crc else {})
    given = list(all_messages(rules))
    jobs = []
    for message in given:
        if isinstance(message, list):
            shared = as_job(message[0])
            jobs.append(shared | {"p": {}, "batch": [as_job(one) for one in message]})
        else:
            jobs.append(as_job(message))
    theirs = tmp_path / "theirs"
    answer = driver.ask("put", store=str(theirs), settings=settings, messages=jobs, as_broker=True)
    assert answer["statuses"] == {"PUT_OK": len(given)}
    records = list(stored_records(theirs / "commitlog"))

    clock, ours = Clock(), tmp_path / "ours"
    stamps = {record.physical_offset: record.store_timestamp for record in records}
    with open_writer(ours, clock, release=driver.version, **settings) as writer:
        for message, offset in zip(given, answer["offsets"], strict=True):
            clock.now = stamps[offset]
            put_ours(writer, message)
    found = list(stored_records(ours / "commitlog"))
    for one, other in zip(found, records, strict=False):
        assert one == other
    assert len(found) == len(records) == sum(len(m) if isinstance(m, list) else 1 for m in given)
    for record in records:
        segment = record.physical_offset // 65536 * 65536
        at, stop = record.physical_offset - segment, record.physical_offset - segment + record.size
        name = f"{segment:020d}"
        expected = (theirs / "commitlog" / name).read_bytes()[at:stop]
        assert (ours / "commitlog" / name).read_bytes()[at:stop] == expected
