"""The config/ of a new store: entries of several stores, and of topics with new names."""

import json
from typing import Any

import pytest

from reput.jobs.converting.carried import (
    batch_topics_in,
    carried_config,
    delivered_up_to,
    merged_config,
)
from reput.jobs.converting.new_log import MeasuredLog
from reput.jobs.converting.ordered import Source
from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import CONVERT
from reput.store_format.discover.store import discover, store_at
from reput.store_format.notes import Progress
from reput.store_format.rewrite.changes import Changes
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


@pytest.mark.parametrize(
    ("name", "table", "ours", "theirs", "joined"),
    [
        ("topics", "topicConfigTable", {"readQueueNums": 4, "writeQueueNums": 8, "perm": 6},
         {"readQueueNums": 5, "writeQueueNums": 2, "perm": 4},
         {"readQueueNums": 5, "writeQueueNums": 8, "perm": 6}),
        ("consumerOffset", "offsetTable", {"0": 7, "1": 3}, {"0": 5, "1": 9, "2": 1},
         {"0": 5, "1": 3, "2": 1}),
        ("subscriptionGroup", "subscriptionGroupTable", {"retryMaxTimes": 1}, {"retryMaxTimes": 2},
         {"retryMaxTimes": 1}),
    ],
)  # fmt: skip
def test_an_entry_of_two_stores(name: str, table: str, ours: Any, theirs: Any, joined: Any) -> None:
    warnings: list[str] = []
    configs = [config(name, **{table: each})
               for each in ({"A": ours, "O": ours}, {"A": theirs, "P": theirs})]  # fmt: skip
    found = merged_config(configs, warnings)
    assert json.loads(found[f"{name}.json"])[table] == {"A": joined, "O": ours, "P": theirs}
    assert not warnings


@pytest.mark.parametrize(
    ("tables", "joined"),
    [
        ([{"1": 9}, {"1": 4}], {"1": 4}),
        ([{"1": 9, "2": 7}, {"2": 8, "3": 6}], {"1": 0, "2": 7, "3": 0}),
        ([{"1": 9}, None], {"1": 0}),
        ([None, {"1": 9}], {"1": 0}),
        ([{"1": 9}, {"1": 4}, {}], {"1": 0}),
    ],
)
def test_a_delay_level_of_which_a_store_tells_nothing_is_at_its_start(
    tables: list[dict[str, int] | None], joined: dict[str, int]
) -> None:
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


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (config("x", a=2), ["config/x.json: is that of the first store; the stores differ"]),
        (config("x", a=1), []),
        ({}, []),
    ],
)
def test_a_file_without_a_known_table_is_the_first_store_s(
    other: dict[str, bytes], said: list[str]
) -> None:
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


@pytest.mark.parametrize(
    ("name", "table", "own", "stale"),
    [
        ("consumerOffset", "offsetTable", {"A@g": {"0": 2}},
         {"New@g": {"0": 5}, "New@h": {"0": 1}}),
        ("consumerOrderInfo", "table", {"A@g": {"0": {"o": [2], "cm": 0}}},
         {"New@g": {"0": {"o": [5], "cm": 0}}}),
        ("consumerFilter", "filterDataByTopic", {"A": {"topic": "A"}}, {"New": {"topic": "New"}}),
        ("messageRequestMode", "messageRequestModeMap", {"A": {"g": {"topic": "A"}}}, {"New": {}}),
        ("consumerOffset", "offsetTable", {"%RETRY%g+A@g": {"0": 2}}, {"%RETRY%g+New@g": {"0": 5}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stale_first", [False, True])
def test_a_renamed_topic_keeps_its_own_entries(
    name: str, table: str, own: dict[str, Any], stale: dict[str, Any], stale_first: bool
) -> None:
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
