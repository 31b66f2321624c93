"""The writer's records beside those of the real `putMessage`, made of the same messages.

RocketMQ gets each message as an object (MessageExtBrokerInner), its properties by the way that a
producer's take: the client's map and its text, the broker's map of that text and its text, the
broker's hooks. The writer gets it as a `Message`, at RocketMQ's store time. Every byte is compared.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.layouts import SYS_TRANSACTION_PREPARED, SYS_TRANSACTION_ROLLBACK
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import Profile, profile
from tests.broker.writer.stores import Clock, open_writer, stored_records
from tests.rocketmq import build
from tests.rocketmq.case import NO_DELIVERY
from tests.rocketmq.driver import Driver
from tests.rocketmq.puts import as_job

pytestmark = pytest.mark.rocketmq

SETTINGS = {"mappedFileSizeCommitLog": 65536, "messageDelayLevel": NO_DELIVERY}
SHORT = ("4.1.0", "4.9.7", "5.3.3")
VERSIONS = [
    version if version in SHORT else pytest.param(version, marks=pytest.mark.long)
    for version in sorted(build.VERSIONS + build.RECORD_VERSIONS)
]
# Nine names of one hash code and more: a bucket that HashMap.treeifyBin makes a table larger for.
ALIKE = [f"{a}{b}{c}{d}" for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB")
         for d in ("Aa", "BB")]  # fmt: skip
ODD = ["x ", "ünï", "订单", "🚀", "a,b;c=d", "%s %d %%", "x\t\n\r", "\x03\x1f\x7f", "\ufeff",
       "a" * 3000, "null", "-1", "x\u2028", "e\u0301"]  # fmt: skip


@pytest.fixture(scope="module", params=VERSIONS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with Driver(request.param) as running:
        yield running


def messages(rules: Profile) -> Iterator[Message | list[Message]]:
    """Every kind of message that a broker's store is given; a list is a batch."""
    r = random.Random(rules.release)

    def message(**fields: Any) -> Message:
        defaults: dict[str, Any] = {
            "topic": f"T{r.randrange(3)}", "body": r.randbytes(r.randrange(400)),
            "queue_id": r.randrange(3), "unique_key": f"U{r.randrange(1 << 40):X}",
            "born_timestamp": 1_700_000_000_000 + r.randrange(1000),
            "born_host": "10.1.2.3:4567", "store_host": "10.3.2.1:10911",
        }  # fmt: skip
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


def put(writer: CommitLogWriter, message: Message | list[Message]) -> None:
    if isinstance(message, list):
        writer.append_batch(message)
    else:
        writer.put(writer.encoder.draft(message))


@pytest.mark.parametrize("crc", [False, True])
def test_a_record_is_the_real_put_messages_byte_for_byte(driver, tmp_path, crc: bool) -> None:
    rules = profile(driver.version)
    if crc and not rules.property_crc:
        return  # the release has no __CRC32#: there is nothing to compare
    settings = SETTINGS | ({"enabledAppendPropCRC": "true"} if crc else {})
    given = list(messages(rules))
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
            put(writer, message)
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
