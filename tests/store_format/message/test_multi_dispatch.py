"""Which further queues a message gets a number in, by the releases of RocketMQ's classes."""

from contextlib import nullcontext

import pytest

from reput.store_format.layouts import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_PREPARED
from reput.store_format.message.multi_dispatch import Further, Numbering
from reput.store_format.message.refusals import TopicUnsafe
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import writer_settings_from

BOTH = {"enableMultiDispatch": "true", "enableLmq": "true"}


def numbering(release: str, **given: str) -> Numbering:
    return Numbering(profile(release), writer_settings_from(given or BOTH))


def further(release: str, names: str, topic: str = "T", transaction: int = 0) -> Further | None:
    return numbering(release).of(topic, 3, transaction, {"INNER_MULTI_DISPATCH": names})


@pytest.mark.parametrize(("release", "multi", "lmq", "on"), [
    ("4.9.2", "true", "true", False), ("4.9.3", "true", "false", True),
    ("5.3.1", "false", "true", False), ("5.3.1", "true", "false", True),
    ("5.3.2", "true", "false", False), ("5.3.2", "false", "true", True),
])  # fmt: skip
def test_it_is_on_by_the_setting_of_its_release(release, multi, lmq, on) -> None:
    assert numbering(release, enableMultiDispatch=multi, enableLmq=lmq).is_on == on


@pytest.mark.parametrize(("topic", "without"), [
    ("T", []), ("%RETRY%g", ["5.1.1", "5.1.4", "5.2.0", "5.3.1", "5.3.3"]),
    ("SCHEDULE_TOPIC_XXXX", ["5.1.4", "5.3.1", "5.3.3"]),  # CommitLog of 5.2.0 numbers them
    ("rmq_sys_wheel_timer", ["5.1.4", "5.3.1", "5.3.3"]), ("rmq_sys_other", ["5.3.1", "5.3.3"]),
])  # fmt: skip
def test_some_topics_have_no_further_queues(topic: str, without: list[str]) -> None:
    releases = ("4.9.7", "5.0.0", "5.1.1", "5.1.4", "5.2.0", "5.3.1", "5.3.3")
    assert [r for r in releases if further(r, "%LMQ%a", topic) is None] == without


@pytest.mark.parametrize("names", ["", " ", "\t "])
def test_a_blank_list_names_nothing(names: str) -> None:
    assert further("5.3.3", names) is None


@pytest.mark.parametrize(("name", "refused"), [
    ("%LMQ%a/b", ["4.9.8", "5.1.1"]),  # later a broker gives it a number and no queue
    ("%LMQ%" + "x" * 251, ["4.9.8", "5.1.1", "5.1.2", "5.3.3"]), ("%LMQ%" + "x" * 250, []),
    ("..", ["4.9.8"]),  # a name without the prefix is a queue's up to 4.9.8
])  # fmt: skip
def test_a_queue_that_could_not_be_dispatched_is_refused(name: str, refused: list[str]) -> None:
    for release in ("4.9.8", "5.1.1", "5.1.2", "5.3.3"):
        found = further(release, name)
        assert found is not None
        with pytest.raises(TopicUnsafe) if release in refused else nullcontext():
            numbering(release).check_folders(found)


def test_a_light_queue_has_the_id_0_and_numbers_are_written_last() -> None:
    for release, other in (("4.9.8", ("b", 3)), ("5.0.0", None), ("5.3.3", None)):
        found = further(release, "%LMQ%a,b,,")
        assert found is not None
        assert found.queues == (("%LMQ%a", 0), other)
    given = {"WAIT": "false", "a": "x"}
    numbered = {"a": "x", "INNER_MULTI_QUEUE_OFFSET": "0,,12"}
    assert list(numbering("5.1.4").numbered(given, [0, None, 12]).items()) == [*numbered.items()]
    assert list(numbering("5.2.0").numbered(given, [0, None, 12]).items()) == [
        *numbered.items(), ("WAIT", "false"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("release", "numbers", "following"),
    [("4.9.7", [7, 7], 8), ("5.0.0", [7, 8], 9), ("5.1.4", [7, 7], 9), ("5.3.3", [7, 7], 9)],
)
def test_a_queue_that_is_named_twice(release: str, numbers: list[int], following: int) -> None:
    found = further(release, "%LMQ%a,%LMQ%a")
    assert found is not None
    assert found.numbers(lambda _: 7) == (numbers, {("%LMQ%a", 0): following})


@pytest.mark.parametrize(
    ("release", "after"),
    [("4.9.7", {}), ("5.0.0", None), ("5.1.4", None), ("5.2.0", {("%LMQ%a", 0): 8})],
)
def test_what_is_prepared_advances_no_queue_before_5_2_0(release, after) -> None:
    found = further(release, "%LMQ%a", transaction=SYS_TRANSACTION_PREPARED)
    assert (found and found.numbers(lambda _: 7)) == (None if after is None else ([7], after))
    committed = further(release, "%LMQ%a", transaction=SYS_TRANSACTION_COMMIT)
    assert committed is not None
    assert committed.numbers(lambda _: 7)[1] == {("%LMQ%a", 0): 8}
