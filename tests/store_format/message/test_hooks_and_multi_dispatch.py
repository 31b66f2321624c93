"""Timer messages, put as a broker puts them: by rule, and as real brokers did."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from reput.store_format.layouts import SYS_TRANSACTION_COMMIT, SYS_TRANSACTION_PREPARED
from reput.store_format.message.message import TIMER_TOPIC, Message, parse_properties
from reput.store_format.message.multi_dispatch import Further, Numbering
from reput.store_format.message.refusals import TimerDisabled, TimerIllegal, TopicUnsafe
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import writer_settings_from
from tests.broker.writer.stores import Clock, as_message, open_writer, stored_records
from tests.store_format.fate.stores import unpack

NOW = 1_700_000_000_500


def put(root: Path, properties: dict[str, str], **named: Any) -> tuple[str, dict[str, str]]:
    """The topic that a message is put into, and its properties there."""
    with open_writer(root, Clock(NOW), **named) as writer:
        writer.append(Message("T", b"", 3, properties=properties))
    record = list(stored_records(root / "commitlog"))[-1]
    return record.topic, parse_properties(record.properties)


@pytest.mark.parametrize(("given", "out"), [
    ({"TIMER_DELAY_SEC": "2"}, 1_700_000_002_000), ({"TIMER_DELAY_MS": "2000"}, 1_700_000_002_000),
    ({"TIMER_DELAY_MS": "1"}, 1_700_000_000_000),
    ({"TIMER_DELIVER_MS": "1700000003000"}, 1_700_000_002_000),  # a tick: the one before
    ({"TIMER_DELIVER_MS": "1700000003001"}, 1_700_000_003_000),
    ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "9000"}, 1_700_000_002_000),
    ({"TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": "1700000003001"}, 1_700_000_009_000),
])  # fmt: skip
def test_it_waits_for_its_tick(tmp_path: Path, given: dict[str, str], out: int) -> None:
    topic, properties = put(tmp_path, given)
    assert (topic, properties["TIMER_OUT_MS"]) == (TIMER_TOPIC, str(out))
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("T", "3")
    assert properties.items() >= given.items()


def test_the_precision_is_the_wheel_s_and_some_messages_are_not_its(tmp_path) -> None:
    _, properties = put(tmp_path, {"TIMER_DELAY_MS": "1250"}, timerPrecisionMs=100)
    assert properties["TIMER_OUT_MS"] == "1700000001700"
    assert put(tmp_path, {"TIMER_DELAY_SEC": "9"}, release="4.9.7")[0] == "T"
    assert put(tmp_path, {"TIMER_DELAY_SEC": "9", "TIMER_OUT_MS": "1"})[0] == "T"
    topic, properties = put(tmp_path, {"DELAY": "1", "TIMER_DELAY_SEC": "9"})
    assert topic == "SCHEDULE_TOPIC_XXXX"
    assert "TIMER_DELAY_SEC" not in properties


@pytest.mark.parametrize("given", [{"TIMER_DELIVER_MS": str(NOW)}, {"TIMER_DELAY_SEC": "0"}])
def test_what_is_due_goes_to_its_own_topic(tmp_path: Path, given: dict[str, str]) -> None:
    topic, properties = put(tmp_path, given)
    assert topic == "T"
    assert "TIMER_OUT_MS" not in properties


@pytest.mark.parametrize(("named", "error", "status"), [
    ({"timerWheelEnable": "false"}, TimerDisabled, "WHEEL_TIMER_NOT_ENABLE"),
    ({"timerMaxDelaySec": "8"}, TimerIllegal, "WHEEL_TIMER_MSG_ILLEGAL"),
])  # fmt: skip
def test_a_refusal_has_rocketmqs_status(tmp_path, named, error, status) -> None:
    with pytest.raises(error) as refused:
        put(tmp_path, {"TIMER_DELAY_SEC": "9"}, **named)
    assert refused.value.status == status  # type: ignore[attr-defined]


@pytest.mark.parametrize("given", [
    {"TIMER_DELAY_SEC": "soon"}, {"TIMER_DELAY_SEC": "259201"}, {"TIMER_DELIVER_MS": "9" * 18},
    {"TIMER_DELIVER_MS": "9" * 20}, {"TIMER_DELIVER_MS": "5", "TIMER_DEL_UNIQKEY": "K"},
])  # fmt: skip
def test_what_no_wheel_takes_is_refused(tmp_path: Path, given: dict[str, str]) -> None:
    with pytest.raises(TimerIllegal):
        put(tmp_path, given)


def test_it_is_put_as_a_real_broker_did(tmp_path: Path) -> None:
    store = unpack("live_5.3.3", tmp_path / "lived")[0]
    found = [r for r in stored_records(store / "commitlog") if r.topic == TIMER_TOPIC]
    assert len(found) == 6
    for number, record in enumerate(found):
        properties = parse_properties(record.properties)
        message = as_message(record)
        message.topic, message.queue_id = (
            properties.pop("REAL_TOPIC"), int(properties.pop("REAL_QID")),
        )  # fmt: skip
        del properties["TIMER_OUT_MS"]
        message.properties = properties
        root = tmp_path / str(number)
        clock = Clock(record.store_timestamp)
        with open_writer(root, clock, mappedFileSizeCommitLog=1 << 17) as writer:
            writer.append(message)
        (made,) = stored_records(root / "commitlog")
        places = ("queue_offset", "physical_offset", "store_timestamp", "body_at")
        nowhere: dict[str, Any] = dict.fromkeys(places, 0)
        assert made._replace(**nowhere) == record._replace(**nowhere)


# --- Which further queues a message gets a number in, by the releases of RocketMQ's classes.
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
    for names in ("", " ", "\t "):
        assert further("5.3.3", names) is None
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
