"""Multi-dispatch: which topics and names it leaves out, by release, compared with the reference."""

from typing import Any

import numpy as np
import pytest

from reput.store_format.dispatch.scan import Runs, Stretch, scan, scan_rules
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests.logs import Message, build_log, properties
from tests.reference import derive
from tests.store_format.damage.walked import reader

SETTINGS = {"enableMultiDispatch": "true", "enableLmq": "true", "mappedFileSizeConsumeQueue": "200"}


def queues(messages: list[Message], release: str, **more: str) -> set[str]:
    """topic/queueId of each queue that a scan puts the messages into."""
    data = np.frombuffer(build_log(messages, 4096)[0], np.uint8)
    rules = scan_rules(profile(release), settings_from(SETTINGS, more, release=release), ())
    found = set()
    for part in scan(reader(data), Stretch(0, 4096, 0, 4096, 0), rules):
        if isinstance(part, Runs):
            found |= {f"{key.topic}/{key.queue_id}" for key in part.queues}
    return found


def reference_queues(messages: list[Message], release: str, **more: str) -> set[str]:
    settings: dict[str, Any] = SETTINGS | more | {"mappedFileSizeCommitLog": 4096}
    files = derive(build_log(messages, 4096), settings, release).files
    return {name.split("/", 1)[1].rsplit("/", 1)[0] for name in files
        if name.startswith("consumequeue/")}  # fmt: skip


TOPICS = ("T", "%RETRY%g", "%RETRY", "SCHEDULE_TOPIC_XXXX", "SCHEDULE_TOPIC_XXXXX",
    "rmq_sys_wheel_timer", "rmq_sys_wheel_timers", "rmq_sys_x", "rmq_sys", "%LMQ%t")  # fmt: skip


def test_lists_and_topics_that_are_left_out() -> None:
    for release in ["4.9.2", "4.9.4", "5.1.0", "5.1.1", "5.1.2", "5.1.4", "5.2.0"]:
        messages = [Message(topic=topic, queue_id=5, properties=properties(
            ("INNER_MULTI_DISPATCH", f"%LMQ%a{n},b{n},%LMQ%c{n}/d"),
            ("INNER_MULTI_QUEUE_OFFSET", "1,2,3"))) for n, topic in enumerate(TOPICS)]  # fmt: skip
        assert queues(messages, release) == reference_queues(messages, release)
    for names, offsets, others in [("%LMQ%a", "0", {"%LMQ%a/0"}), ("a", "0", {"a/5"}),
        ("a,b", "0", set()), ("a", "0,1", set()),
        ("a,b,,", "1,2", {"a/5", "b/5"}),  # empty parts at the end do not count
        ("a,b", "1,2,,", {"a/5", "b/5"}), (",", ",", set()), (" ", "1", set()), ("a", " ", set()),
        ("%LMQ%a,%LMQ%a", "1,2", {"%LMQ%a/0"}), ("a/b,c", "1,2", {"c/5"}),
        ("T", "9", set())]:  # fmt: skip
        pairs = properties(("INNER_MULTI_DISPATCH", names), ("INNER_MULTI_QUEUE_OFFSET", offsets))
        message = Message(queue_id=5, properties=pairs)
        assert (
            queues([message], "5.3.3") == {"T/5"} | others == reference_queues([message], "5.3.3")
        )


@pytest.mark.parametrize("release", ["5.4.0", "5.5.0", "5.5.1"])
@pytest.mark.parametrize("double", ["false", "true"])
@pytest.mark.parametrize("for_lmq", ["false", "true"])
def test_lmq_queues_in_rocksdb_have_no_files(release: str, double: str, for_lmq: str) -> None:
    """tests/rocketmq/test_commands_in_rocksdb.py has RocketMQ's own."""
    given = {"rocksdbCQDoubleWriteEnable": double, "combineCQUseRocksdbForLmq": for_lmq}
    lists = properties(("INNER_MULTI_DISPATCH", "%LMQ%a"), ("INNER_MULTI_QUEUE_OFFSET", "1"))
    message = Message(topic="T", queue_id=5, properties=lists)
    left_out = release != "5.4.0" and double == for_lmq == "true"
    found = queues([message], release, **given)
    assert found == reference_queues([message], release, **given)
    assert found == ({"T/5"} if left_out else {"T/5", "%LMQ%a/0"})
