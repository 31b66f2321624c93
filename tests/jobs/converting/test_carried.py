"""The config/ of a new store: entries of several stores, and of topics with new names."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from reput.jobs.converting.carried import (
    APART,
    MEET_REFUSE,
    RENUMBER,
    batch_topics_in,
    carried_config,
    delivered_up_to,
    meet,
    merged_config,
    parse_renames,
    refuse_unknown_topics,
    wanted_changes,
)
from reput.jobs.converting.new_log import MeasuredLog, QueueKey
from reput.jobs.converting.ordered import Source
from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_table import SettingError
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from reput.udfs.staging import Staging
from tests.converted import plain
from tests.in_process import STORE, Session, storage_of
from tests.logs.encoder import Message


def config(name: str, **whole: Any) -> dict[str, bytes]:
    return {f"{name}.json": json.dumps(whole).encode()}


def source(changes: Changes, **files: bytes) -> Source:
    """A store with these files of config/."""
    storage = storage_of(plain([Message("T")]))
    storage.files |= {f"{STORE}/config/{name}.json": raw for name, raw in files.items()}
    at = store_at(STORE, "5.3.3", {}, storage)
    plan = make_plan(at, discover(at, CONVERT), CONVERT)
    job = Pipeline(Session(), plan, Staging(storage, "staging"), Cut(), Progress())
    return Source(job, changes, MeasuredLog([], 0, 0, {}, []))


def carried(name: str, changes: Changes, raw: bytes) -> Any:
    warnings: list[str] = []
    files = carried_config(source(changes, **{name: raw}), warnings)
    assert not warnings
    return json.loads(files[f"{name}.json"])


@pytest.mark.parametrize(("name", "table", "ours", "theirs", "joined"), [
    ("topics", "topicConfigTable", {"readQueueNums": 4, "writeQueueNums": 8, "perm": 6},
     {"readQueueNums": 5, "writeQueueNums": 2, "perm": 4},
     {"readQueueNums": 5, "writeQueueNums": 8, "perm": 6}),
    ("consumerOffset", "offsetTable", {"0": 7, "1": 3}, {"0": 5, "1": 9, "2": 1},
     {"0": 5, "1": 3, "2": 1}),
    ("subscriptionGroup", "subscriptionGroupTable", {"retryMaxTimes": 1}, {"retryMaxTimes": 2},
     {"retryMaxTimes": 1}),
])  # fmt: skip
def test_an_entry_of_two_stores(name: str, table: str, ours: Any, theirs: Any, joined: Any) -> None:
    warnings: list[str] = []
    configs = [config(name, **{table: each})
               for each in ({"A": ours, "O": ours}, {"A": theirs, "P": theirs})]  # fmt: skip
    found = merged_config(configs, warnings)
    assert json.loads(found[f"{name}.json"])[table] == {"A": joined, "O": ours, "P": theirs}
    assert not warnings


@pytest.mark.parametrize(("tables", "joined"), [
    ([{"1": 9}, {"1": 4}], {"1": 4}),
    ([{"1": 9, "2": 7}, {"2": 8, "3": 6}], {"1": 0, "2": 7, "3": 0}),
    ([{"1": 9}, None], {"1": 0}), ([None, {"1": 9}], {"1": 0}),
    ([{"1": 9}, {"1": 4}, {}], {"1": 0}),
])  # fmt: skip
def test_a_delay_level_of_which_a_store_tells_nothing_is_at_its_start(tables, joined) -> None:
    configs = [{} if each is None else config("delayOffset", offsetTable=each) for each in tables]
    found = merged_config(configs, [])
    assert json.loads(found["delayOffset.json"])["offsetTable"] == joined


@pytest.mark.parametrize("less", [{}, config("consumerOffset"), config("consumerOffset", x=1)])
def test_a_store_without_a_table_takes_no_other_store_s(less: dict[str, bytes]) -> None:
    warnings: list[str] = []
    table = {"T@g": {"0": 7}}
    configs = [config("consumerOffset", offsetTable=table), less]
    for each in (configs, configs[::-1]):
        found = json.loads(merged_config(each, warnings)["consumerOffset.json"])
        assert found["offsetTable"] == table
    assert not warnings


@pytest.mark.parametrize(("other", "said"), [
    (config("x", a=2), ["config/x.json: is that of the first store; the stores differ"]),
    (config("x", a=1), []), ({}, []),
])  # fmt: skip
def test_a_file_without_a_known_table_is_the_first_store_s(other, said) -> None:
    warnings: list[str] = []
    found = merged_config([config("x", a=1), other], warnings)
    assert json.loads(found["x.json"]) == {"a": 1}
    assert warnings == said


def test_batch_topics_are_those_with_the_attribute() -> None:
    table = {"A": {"attributes": {"queue.type": "BatchCQ"}}, "B": {"attributes": {}}, "C": None}
    assert batch_topics_in(config("topics", topicConfigTable=table)) == ["A"]
    assert batch_topics_in({}) == []


RENAMED = Changes(renames=(("A", "New"),), dropped=("Gone",))


def test_a_new_name_stands_in_keys_and_in_the_topic_s_own_fields() -> None:
    table = {"A": {"topicName": "A", "perm": 6, "remark": "A"}, "Gone": {"topicName": "Gone"}}
    found = carried("topics", RENAMED, json.dumps({"topicConfigTable": table}).encode())
    assert found["topicConfigTable"] == {"New": {"topicName": "New", "perm": 6, "remark": "A"}}


@pytest.mark.parametrize("name", ["consumerOffset", "lmqConsumerOffset"])
def test_groups_keep_their_offsets_under_the_new_name(name: str) -> None:
    raw = b'{"offsetTable":{"A@g":{0:7,1:2},"Gone@g":{0:5},"A@b@c":{0:1},"A":{3:4}}}'
    assert carried(name, RENAMED, raw)["offsetTable"] == {
        "New@g": {"0": 7, "1": 2}, "New@b@c": {"0": 1}, "New": {"3": 4},
    }  # fmt: skip


def test_where_no_topic_changes_a_file_is_copied_as_it_is() -> None:
    raw = b'{"offsetTable":{"A@g":{0:7}} , "dataVersion":{}}'
    files = carried_config(source(Changes(), consumerOffset=raw), [])
    assert files["consumerOffset.json"] == raw


def test_a_file_that_is_no_json_is_named_and_left_out() -> None:
    warnings: list[str] = []
    files = carried_config(source(Changes(), topics=b"[]", delayOffset=b"{"), warnings)
    assert "topics.json" not in files
    assert [line.partition(": ")[0] for line in warnings] == [
        f"{STORE}/config/{name}.json" for name in ("topics", "delayOffset")
    ]


def test_a_delay_level_is_a_queue_of_the_schedule_topic_less_one() -> None:
    one = source(Changes(), delayOffset=b'{"offsetTable":{1:5,"18":0,"x":3,"2":"9"}}')
    assert delivered_up_to(one.job.plan) == {0: 5, 17: 0}


@pytest.mark.parametrize(("name", "table", "own", "stale"), [
    ("consumerOffset", "offsetTable", {"A@g": {"0": 2}},
     {"New@g": {"0": 5}, "New@h": {"0": 1}}),
    ("consumerOrderInfo", "table", {"A@g": {"0": {"o": [2], "cm": 0}}},
     {"New@g": {"0": {"o": [5], "cm": 0}}}),
    ("consumerFilter", "filterDataByTopic", {"A": {"topic": "A"}}, {"New": {"topic": "New"}}),
    ("messageRequestMode", "messageRequestModeMap", {"A": {"g": {"topic": "A"}}}, {"New": {}}),
    ("consumerOffset", "offsetTable", {"%RETRY%g+A@g": {"0": 2}}, {"%RETRY%g+New@g": {"0": 5}}),
])  # fmt: skip
@pytest.mark.parametrize("stale_first", [False, True])
def test_a_renamed_topic_keeps_its_own_entries(name, table, own, stale, stale_first) -> None:
    retries = tuple((f"%RETRY%g+{topic}", topic) for topic in ("A", "New"))
    changes = Changes(renames=(("A", "New"),), retries=retries)
    both = {**stale, **own} if stale_first else {**own, **stale}
    warnings: list[str] = []
    raw = json.dumps({table: both}).encode()
    found = carried_config(source(changes, **{name: raw}), warnings)
    wanted = json.loads(json.dumps(own).replace("A", "New"))
    assert json.loads(found[f"{name}.json"])[table] == wanted
    assert warnings == [
        f"{STORE}/config/{name}.json: {'2 entries' if len(stale) == 2 else '1 entry'} of topic "
        "'New', which the store has no more, left out: 'A' gets this name, and keeps its own"
    ]


def test_two_topics_change_their_names_with_all_their_entries() -> None:
    raw = b'{"offsetTable":{"A@g":{0:1},"B@g":{0:2}}}'
    changes = Changes(renames=(("A", "B"), ("B", "A")))
    assert carried("consumerOffset", changes, raw)["offsetTable"] == {
        "B@g": {"0": 1}, "A@g": {"0": 2},
    }  # fmt: skip


# --- A queue that several stores have: refused, kept apart, or made one.
TAKEN, LEFT_OUT = Tally(records=3, taken=3), Tally(records=3)


def source_meeting(
    queues: dict[tuple[str, int], Tally], counts: dict[str, int] | None = None,
    changes: Changes | None = None,
) -> Source:  # fmt: skip
    """A store with these queues. counts: writeQueueNums of its topics."""
    storage = storage_of(plain([Message("T")]))
    table = {name: {"writeQueueNums": count} for name, count in (counts or {}).items()}
    storage.files[f"{STORE}/config/topics.json"] = json.dumps({"topicConfigTable": table}).encode()
    at = store_at(STORE, "5.3.3", {}, storage)
    plan = make_plan(at, discover(at, CONVERT), CONVERT)
    job = Pipeline(Session(), plan, Staging(storage, "staging"), Cut(), Progress())
    known = {QueueKey(*key): each for key, each in queues.items()}
    return Source(job, changes or Changes(), MeasuredLog([], 0, 0, known, []))


@pytest.mark.parametrize(("one", "other", "meets"), [
    ({("A", 0): TAKEN}, {("A", 0): TAKEN}, True), ({("A", 0): TAKEN}, {("A", 1): TAKEN}, False),
    ({("A", 0): TAKEN}, {("A", 0): LEFT_OUT}, False),
    ({("Old", 0): TAKEN}, {("New", 0): TAKEN}, True),
    ({("SCHEDULE_TOPIC_XXXX", 2): TAKEN}, {("SCHEDULE_TOPIC_XXXX", 2): TAKEN}, False),
    ({("rmq_sys_wheel_timer", 0): TAKEN}, {("rmq_sys_wheel_timer", 0): TAKEN}, False),
])  # fmt: skip
def test_queues_meet_where_both_are_taken_under_one_name(one, other, meets) -> None:
    sources = [
        source_meeting(one, changes=Changes(renames=(("Old", "New"),))), source_meeting(other),
    ]  # fmt: skip
    if meets:
        with pytest.raises(StoreError, match="queue 0 of topic"):
            meet(sources, MEET_REFUSE)
    else:
        meet(sources, MEET_REFUSE)
    meet(sources, RENUMBER)
    assert [each.changes.shifts for each in sources] == [(), ()]


def test_kept_apart_a_later_store_s_ids_follow_all_before() -> None:
    sources = [
        source_meeting({("A", 0): TAKEN, ("B", 1): TAKEN}, {"A": 4}),
        source_meeting({("A", 5): TAKEN}, {"A": 2}),
        source_meeting({("A", 0): TAKEN, ("B", 0): TAKEN, ("C", 0): TAKEN}),
    ]
    meet(sources, APART)
    assert [dict(each.changes.shifts) for each in sources] == [{}, {"A": 4}, {"A": 10, "B": 2}]


def test_kept_apart_topics_go_by_their_new_names_and_waiting_ones_are_joined() -> None:
    waiting = {("SCHEDULE_TOPIC_XXXX", 2): TAKEN}
    sources = [
        source_meeting(
            {("Old", 0): TAKEN, **waiting}, {"Old": 3}, Changes(renames=(("Old", "New"),))
        ),
        source_meeting({("New", 0): TAKEN, **waiting}),
    ]
    meet(sources, APART)
    assert [dict(each.changes.shifts) for each in sources] == [{}, {"New": 3}]


# --- The user's changes: which are refused before anything is read.
@pytest.mark.parametrize(
    ("words", "renames"),
    [([], {}), (["A=B", "B=A"], {"A": "B", "B": "A"}), (["A=B=C"], {"A": "B=C"})],
)
def test_a_rename_is_two_names(words: list[str], renames: dict[str, str]) -> None:
    assert parse_renames(words) == renames


@pytest.mark.parametrize("words", [["A"], ["=B"], ["A="], ["A=B", "A=C"], ["A=B", "A=B"]])
def test_half_a_rename_or_two_of_one_topic_are_refused(words: list[str]) -> None:
    with pytest.raises(SettingError, match="--rename"):
        parse_renames(words)


def wanted(
    topics: Sequence[str] = (), dropped: Sequence[str] = (), host: str | None = None,
    renames: Mapping[str, str] | None = None, release: str = "5.3.3",
) -> Changes:  # fmt: skip
    return wanted_changes(topics, dropped, renames or {}, host, profile(release))


@pytest.mark.parametrize(("renames", "release", "why"), [
    ({"%RETRY%g": "A"}, "5.3.3", "only the topics of producers"),
    ({"A": "%DLQ%g"}, "5.3.3", "only the topics of producers"),
    ({"%LMQ%a": "A"}, "5.3.3", "only the topics of producers"),
    ({"A": "SCHEDULE_TOPIC_XXXX"}, "5.3.3", "only the topics of producers"),
    ({"A": "rmq_sys_x"}, "5.3.3", "only the topics of producers"),
    ({"A": "C", "B": "C"}, "5.3.3", "same name"), ({"A": "B=C"}, "5.3.3", "is allowed"),
    ({"A": "B" * 127}, "5.0.0", None), ({"A": "B" * 128}, "5.0.0", "at most 127"),
    ({"A": "B" * 128}, "5.1.0", None), ({"A": "B" * 255}, "5.1.0", None),
    ({"A": "B" * 256}, "5.1.0", "at most 255"), ({"A": "B", "B": "A"}, "5.3.3", None),
])  # fmt: skip
def test_a_new_name_is_one_that_a_broker_of_the_release_takes(renames, release, why) -> None:
    if why is None:
        assert wanted(renames=renames, release=release).renames == tuple(renames.items())
    else:
        with pytest.raises(SettingError, match=why):
            wanted(renames=renames, release=release)


def test_topics_are_taken_or_dropped_and_each_counts_once() -> None:
    assert wanted(["B", "A", "B"]).topics == ("B", "A")
    with pytest.raises(SettingError, match="--drop has nothing to add"):
        wanted(["A"], ["B"])


@pytest.mark.parametrize(("host", "raw"), [
    (None, b""), ("10.0.0.1:10911", b"\x0a\0\0\x01\0\0\x2a\x9f"),
    ("[::1]:1", bytes(15) + b"\x01\0\0\0\x01"),
])  # fmt: skip
def test_a_store_host_is_written_as_in_a_record(host: str | None, raw: bytes) -> None:
    assert wanted(host=host).store_host == raw


@pytest.mark.parametrize("host", ["", "broker:10911", "10.0.0.1", "10.0.0.1:65536", "10.0.0.1:-1"])
def test_a_host_s_name_is_no_store_host(host: str) -> None:
    with pytest.raises(SettingError, match="--store-host"):
        wanted(host=host)


@pytest.mark.parametrize(("changes", "why"), [
    (Changes(topics=("Orders",)), None),
    (Changes(topics=("Order",)), "no topic 'Order' in this store; it has Orders"),
    (Changes(dropped=("zzz",)), "it has Bills, Orders"),
    (Changes(renames=(("Orders", "Bills"),)), "a topic Bills: their messages would be one"),
    (Changes(renames=(("Orders", "Bills"), ("Bills", "Orders"))), None),
    (Changes(renames=(("Orders", "Bills"),), dropped=("Bills",)), None),
    (Changes(renames=(("Orders", "Bills"),), topics=("Orders",)), None),
])  # fmt: skip
def test_a_new_name_must_be_free_in_what_is_taken(changes: Changes, why: str | None) -> None:
    there = {"Orders", "Bills"}
    if why is None:
        refuse_unknown_topics(changes, there)
    else:
        with pytest.raises(SettingError, match=why):
            refuse_unknown_topics(changes, there)
