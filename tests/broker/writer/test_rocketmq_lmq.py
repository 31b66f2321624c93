"""Messages with further queues (LMQ, INNER_MULTI_DISPATCH), put into the real store and into ours.

Log, queues and index have the same bytes, also after a stop and a start, by each release's rule.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from tests.broker.writer.stores import Clock, open_writer, stored_records
from tests.rocketmq import build
from tests.rocketmq.case import NO_DELIVERY
from tests.rocketmq.driver import Driver
from tests.rocketmq.puts import SIZES, as_job, assert_same, derived

pytestmark = pytest.mark.rocketmq

SHORT = ("5.3.3",)
SINCE = (4, 9, 3)
VERSIONS = [
    version if version in SHORT else pytest.param(version, marks=pytest.mark.long)
    for version in sorted(build.VERSIONS + build.RECORD_VERSIONS)
    if tuple(map(int, version.split("."))) >= SINCE
]
# These begin at 0 with light queues after each start: nobody fills lmqTopicQueueTable.
FORGET = ("4.9.3", "5.0.0")
SWITCHES = [(True, True), (True, False), (False, True)]


@pytest.fixture(scope="module", params=VERSIONS)
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    with Driver(request.param) as running:
        yield running


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
        made.append(Message(topic, b"x" * (number % 50), number % 3, properties=properties,
                            keys=f"k{number}", tags="t", unique_key=f"U{number}",
                            born_timestamp=1_700_000_000_000, born_host="10.0.0.1:1",
                            store_host="10.0.0.2:2", **fields))  # fmt: skip

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


@pytest.mark.parametrize(("multi", "lmq"), SWITCHES)
def test_log_queues_and_index_are_the_real_stores(driver, tmp_path, multi: bool, lmq: bool) -> None:
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
            as_broker=True, pace=50,
        )  # fmt: skip
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
