"""The config/ of a new store: entries of several stores, and of topics with new names."""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from reput.jobs.converting import carried
from reput.store_format.faults import StoreError
from reput.store_format.release.profiles import profile
from reput.store_format.release.setting_table import SettingError
from reput.store_format.rewrite.changes import Changes
from reput.store_format.rewrite.selection import Tally
from tests.converted import source_of
from tests.in_process import STORE


def config(name: str, **whole: Any) -> dict[str, bytes]:
    return {f"{name}.json": json.dumps(whole).encode()}


def merged(*configs: dict[str, bytes], name: str = "x", said: Sequence[str] = ()) -> Any:
    warnings: list[str] = []
    found = carried.merged_config(list(configs), warnings)
    assert warnings == list(said)
    return json.loads(found[f"{name}.json"])


def carry(name: str, changes: Changes, raw: bytes) -> Any:
    warnings: list[str] = []
    files = carried.carried_config(source_of({}, changes, **{name: raw}), warnings)
    assert not warnings
    return json.loads(files[f"{name}.json"])


def test_entries_of_several_stores_are_joined() -> None:
    for name, table, ours, theirs, joined in [
        ("topics", "topicConfigTable", {"readQueueNums": 4, "writeQueueNums": 8, "perm": 6},
         {"readQueueNums": 5, "writeQueueNums": 2, "perm": 4},
         {"readQueueNums": 5, "writeQueueNums": 8, "perm": 6}),
        ("consumerOffset", "offsetTable", {"0": 7, "1": 3}, {"0": 5, "1": 9, "2": 1},
         {"0": 5, "1": 3, "2": 1}),
        ("subscriptionGroup", "subscriptionGroupTable", {"retryMaxTimes": 1}, {"retryMaxTimes": 2},
         {"retryMaxTimes": 1}),
    ]:  # fmt: skip
        each = ({"A": ours, "O": ours}, {"A": theirs, "P": theirs})
        found = merged(*(config(name, **{table: entries}) for entries in each), name=name)
        assert found[table] == {"A": joined, "O": ours, "P": theirs}
    for tables, levels in [  # of which a store tells nothing, that level is at its start
        ([{"1": 9}, {"1": 4}], {"1": 4}),
        ([{"1": 9, "2": 7}, {"2": 8, "3": 6}], {"1": 0, "2": 7, "3": 0}),
        ([{"1": 9}, None], {"1": 0}), ([None, {"1": 9}], {"1": 0}),
        ([{"1": 9}, {"1": 4}, {}], {"1": 0}),
    ]:  # fmt: skip
        given = [{} if t is None else config("delayOffset", offsetTable=t) for t in tables]
        assert merged(*given, name="delayOffset")["offsetTable"] == levels
    table = {"T@g": {"0": 7}}
    first = config("consumerOffset", offsetTable=table)
    for less in ({}, config("consumerOffset"), config("consumerOffset", x=1)):
        for both in ([first, less], [less, first]):  # nothing is taken from another store
            assert merged(*both, name="consumerOffset")["offsetTable"] == table


def test_a_file_without_a_known_table_is_the_first_store_s() -> None:
    differ = "config/x.json: is that of the first store; the stores differ"
    for other, said in [(config("x", a=2), [differ]), (config("x", a=1), []), ({}, [])]:
        assert merged(config("x", a=1), other, said=said) == {"a": 1}
    table = {"A": {"attributes": {"queue.type": "BatchCQ"}}, "B": {"attributes": {}}, "C": None}
    assert carried.batch_topics_in(config("topics", topicConfigTable=table)) == ["A"]
    assert carried.batch_topics_in({}) == []


RENAMED = Changes(renames=(("A", "New"),), dropped=("Gone",))


def test_a_new_name_stands_in_keys_and_in_the_topic_s_own_fields() -> None:
    table = {"A": {"topicName": "A", "perm": 6, "remark": "A"}, "Gone": {"topicName": "Gone"}}
    found = carry("topics", RENAMED, json.dumps({"topicConfigTable": table}).encode())
    assert found["topicConfigTable"] == {"New": {"topicName": "New", "perm": 6, "remark": "A"}}
    raw = b'{"offsetTable":{"A@g":{0:7,1:2},"Gone@g":{0:5},"A@b@c":{0:1},"A":{3:4}}}'
    for name in ("consumerOffset", "lmqConsumerOffset"):
        assert carry(name, RENAMED, raw)["offsetTable"] == {
            "New@g": {"0": 7, "1": 2}, "New@b@c": {"0": 1}, "New": {"3": 4},
        }  # fmt: skip
    raw = b'{"offsetTable":{"A@g":{0:1},"B@g":{0:2}}}'
    swapped = Changes(renames=(("A", "B"), ("B", "A")))
    found = carry("consumerOffset", swapped, raw)["offsetTable"]
    assert found == {"B@g": {"0": 1}, "A@g": {"0": 2}}


def test_a_file_is_copied_as_it_is_or_named_and_left_out_where_it_is_no_json() -> None:
    raw = b'{"offsetTable":{"A@g":{0:7}} , "dataVersion":{}}'
    files = carried.carried_config(source_of({}, consumerOffset=raw), [])
    assert files["consumerOffset.json"] == raw
    warnings: list[str] = []
    files = carried.carried_config(source_of({}, topics=b"[]", delayOffset=b"{"), warnings)
    assert "topics.json" not in files
    assert [line.partition(": ")[0] for line in warnings] == [
        f"{STORE}/config/{name}.json" for name in ("topics", "delayOffset")
    ]
    one = source_of({}, delayOffset=b'{"offsetTable":{1:5,"18":0,"x":3,"2":"9"}}')
    assert carried.delivered_up_to(one.job.plan) == {0: 5, 17: 0}  # a level is a queue, less one


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
    found = carried.carried_config(source_of({}, changes, **{name: raw}), warnings)
    wanted = json.loads(json.dumps(own).replace("A", "New"))
    assert json.loads(found[f"{name}.json"])[table] == wanted
    assert warnings == [
        f"{STORE}/config/{name}.json: {'2 entries' if len(stale) == 2 else '1 entry'} of topic "
        "'New', which the store has no more, left out: 'A' gets this name, and keeps its own"
    ]


# --- A queue that several stores have: refused, kept apart, or made one.
TAKEN, LEFT_OUT = Tally(records=3, taken=3), Tally(records=3)


@pytest.mark.parametrize(("one", "other", "meets"), [
    ({("A", 0): TAKEN}, {("A", 0): TAKEN}, True), ({("A", 0): TAKEN}, {("A", 1): TAKEN}, False),
    ({("A", 0): TAKEN}, {("A", 0): LEFT_OUT}, False),
    ({("Old", 0): TAKEN}, {("New", 0): TAKEN}, True),
    ({("SCHEDULE_TOPIC_XXXX", 2): TAKEN}, {("SCHEDULE_TOPIC_XXXX", 2): TAKEN}, False),
    ({("rmq_sys_wheel_timer", 0): TAKEN}, {("rmq_sys_wheel_timer", 0): TAKEN}, False),
])  # fmt: skip
def test_queues_meet_where_both_are_taken_under_one_name(one, other, meets) -> None:
    sources = [source_of(one, Changes(renames=(("Old", "New"),))), source_of(other)]
    with pytest.raises(StoreError, match="queue 0 of topic") if meets else nullcontext():
        carried.meet(sources, carried.MEET_REFUSE)
    carried.meet(sources, carried.RENUMBER)
    assert [each.changes.shifts for each in sources] == [(), ()]


def test_kept_apart_a_later_store_s_ids_follow_all_before_under_the_new_name() -> None:
    def topics(**counts: int) -> bytes:
        table = {name: {"writeQueueNums": count} for name, count in counts.items()}
        return json.dumps({"topicConfigTable": table}).encode()

    sources = [
        source_of({("A", 0): TAKEN, ("B", 1): TAKEN}, topics=topics(A=4)),
        source_of({("A", 5): TAKEN}, topics=topics(A=2)),
        source_of({("A", 0): TAKEN, ("B", 0): TAKEN, ("C", 0): TAKEN}),
    ]
    carried.meet(sources, carried.APART)
    assert [dict(each.changes.shifts) for each in sources] == [{}, {"A": 4}, {"A": 10, "B": 2}]
    waiting = {("SCHEDULE_TOPIC_XXXX", 2): TAKEN}
    changes = Changes(renames=(("Old", "New"),))
    sources = [
        source_of({("Old", 0): TAKEN, **waiting}, changes, topics=topics(Old=3)),
        source_of({("New", 0): TAKEN, **waiting}),
    ]
    carried.meet(sources, carried.APART)
    assert [dict(each.changes.shifts) for each in sources] == [{}, {"New": 3}]


# --- The user's changes: which are refused before anything is read.
def test_a_rename_is_two_names_and_one_of_each_topic() -> None:
    for words, renames in [
        ([], {}), (["A=B", "B=A"], {"A": "B", "B": "A"}), (["A=B=C"], {"A": "B=C"}),
    ]:  # fmt: skip
        assert carried.parse_renames(words) == renames
    for words in (["A"], ["=B"], ["A="], ["A=B", "A=C"], ["A=B", "A=B"]):
        with pytest.raises(SettingError, match="--rename"):
            carried.parse_renames(words)


def wanted(
    topics: Sequence[str] = (), dropped: Sequence[str] = (), host: str | None = None,
    renames: Mapping[str, str] | None = None, release: str = "5.3.3",
) -> Changes:  # fmt: skip
    return carried.wanted_changes(topics, dropped, renames or {}, host, profile(release))


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


def test_topics_are_taken_or_dropped_and_a_store_host_is_an_address() -> None:
    assert wanted(["B", "A", "B"]).topics == ("B", "A")
    with pytest.raises(SettingError, match="--drop has nothing to add"):
        wanted(["A"], ["B"])
    for host, raw in [
        (None, b""), ("10.0.0.1:10911", b"\x0a\0\0\x01\0\0\x2a\x9f"),
        ("[::1]:1", bytes(15) + b"\x01\0\0\0\x01"),
    ]:  # fmt: skip
        assert wanted(host=host).store_host == raw
    for host in ("", "broker:10911", "10.0.0.1", "10.0.0.1:65536", "10.0.0.1:-1"):
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
    with pytest.raises(SettingError, match=why) if why else nullcontext():
        carried.refuse_unknown_topics(changes, {"Orders", "Bills"})
