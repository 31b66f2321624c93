"""Which records a conversion takes, and under which names, by the names of topics."""

import pytest

from reput.store_format.rewrite.changes import Changes, Decision, Fate, is_shared

HALF, OPS, TIMER = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer"
DELAYED, RETRY, DLQ = "SCHEDULE_TOPIC_XXXX", "%RETRY%group", "%DLQ%group"
LEFT_OUT, TAKEN, FOLLOWS = Fate


@pytest.mark.parametrize("topic", ["T", HALF, OPS, TIMER, DELAYED, RETRY, DLQ])
def test_without_changes_all_is_taken_as_it_is(topic: str) -> None:
    changes = Changes()
    assert changes.of_queue(topic) == changes.of_name(topic) == Decision(TAKEN)
    assert (changes.keeps_sizes, changes.by_topic, changes.selects) == (True, False, False)


@pytest.mark.parametrize(
    ("changes", "taken", "left_out"),
    [
        (Changes(topics=("A", "B")), ["A", "B"], ["C", "a"]),
        (Changes(dropped=("A",)), ["B", "C"], ["A"]),
        (Changes(topics=("A", "B"), dropped=("B",)), ["A"], ["B", "C"]),
        (Changes(merges=True), ["A", "C"], []),
    ],
)
def test_topics_are_taken_by_name(changes: Changes, taken: list[str], left_out: list[str]) -> None:
    for topics, fate in ((taken, TAKEN), (left_out, LEFT_OUT)):
        for topic in topics:
            assert changes.of_queue(topic).fate == changes.of_name(topic).fate == fate


@pytest.mark.parametrize(
    ("topic", "fate"),
    [
        (DELAYED, FOLLOWS), (RETRY, FOLLOWS), (DLQ, FOLLOWS), ("TBW102", FOLLOWS),
        (HALF, FOLLOWS), (TIMER, FOLLOWS),  # what still waits there
        (OPS, LEFT_OUT),
    ],
)  # fmt: skip
def test_a_shared_topics_records_follow_the_topic_that_they_name(topic: str, fate: Fate) -> None:
    for changes in (Changes(topics=("A",)), Changes(dropped=("A",)), Changes(merges=True)):
        assert changes.of_queue(topic).fate == fate
    assert Changes(topics=(topic,)).of_queue(topic).fate == TAKEN
    assert Changes(dropped=(topic,)).of_queue(topic).fate == LEFT_OUT
    assert Changes(renames=(("A", "B"),)).of_queue(topic).fate == TAKEN  # nothing is left out


def test_what_names_no_topic_goes_where_only_some_topics_are_taken() -> None:
    assert Changes(topics=("A",)).unnamed == LEFT_OUT
    assert Changes(dropped=("A",)).unnamed == Changes(merges=True).unnamed == TAKEN


def test_names_shifts_and_starts_are_of_the_old_name() -> None:
    changes = Changes(
        renames=(("A", "B"),), shifts=(("A", 8),), starts=(("A", 1, 500), ("B", 1, 7))
    )
    assert changes.of_queue("A", 1) == Decision(TAKEN, "B", 8, 500)
    assert changes.of_queue("A", 0) == Decision(TAKEN, "B", 8, 0)
    assert changes.of_queue("B", 1) == Decision(TAKEN, "", 0, 7)
    assert changes.of_name("A") == Decision(TAKEN, "B")
    assert (changes.renamed("A"), changes.renamed("C")) == ("B", "C")


@pytest.mark.parametrize(
    ("changes", "by_topic", "keeps"),
    [
        (Changes(renames=(("A", "B"),)), True, False),
        (Changes(shifts=(("A", 1),)), True, False),
        (Changes(starts=(("A", 0, 1),)), True, False),
        (Changes(merges=True), True, False),
        (Changes(store_host=bytes(8)), False, False),
    ],
)
def test_what_has_to_be_looked_at(changes: Changes, by_topic: bool, keeps: bool) -> None:
    assert (changes.by_topic, changes.keeps_sizes) == (by_topic, keeps)


def test_shared_topics_are_the_brokers_and_the_groups() -> None:
    shared = [t for t in ("T", HALF, DELAYED, "rmq_sys_x", RETRY, DLQ, "%LMQ%x") if is_shared(t)]
    assert shared == [HALF, DELAYED, "rmq_sys_x", RETRY, DLQ, "%LMQ%x"]
