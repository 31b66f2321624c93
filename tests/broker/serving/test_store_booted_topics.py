"""Topics that a broker of a release makes when it starts (TopicConfigManager.init)."""

import pytest

from reput.broker.serving.store import booted_topics, topic

READ_WRITE, INHERIT = 6, 1


def made(release: str) -> dict[str, tuple[int, int]]:
    """name -> (queues, perm)."""
    return {each.name: (each.read_queues, each.perm) for each in booted_topics(release, "b", "C")}


def test_every_release_makes_these() -> None:
    assert made("4.9.7") == {
        "SELF_TEST_TOPIC": (1, 6), "TBW102": (8, 7), "BenchmarkTest": (1024, 6), "C": (16, 7),
        "b": (1, 7), "OFFSET_MOVED_EVENT": (1, 6), "SCHEDULE_TOPIC_XXXX": (18, 6),
        "C_REPLY_TOPIC": (1, 6),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("release", "more"),
    [
        ("5.0.0", {"rmq_sys_REVIVE_LOG_C", "rmq_sys_SYNC_BROKER_MEMBER_b",
                   "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}),
        ("5.3.0", set()), ("5.3.1", {"rmq_sys_wheel_timer"}),
    ],
)  # fmt: skip
def test_later_releases_make_more(release: str, more: set[str]) -> None:
    before = {"5.0.0": "4.9.7", "5.3.0": "5.0.0", "5.3.1": "5.3.0"}[release]
    assert made(release).keys() - made(before).keys() == more
    assert made(release).items() >= made(before).items()


def test_a_topic_that_is_made_is_not_of_the_stores_configuration() -> None:
    one = topic("T")
    assert (one.read_queues, one.write_queues, one.perm) == (1, 1, READ_WRITE)
    assert (one.configured, one.order, one.attributes) == (False, False, {})
    assert topic("T", 3, INHERIT)[1:4] == (3, 3, INHERIT)
