"""What was popped and not acknowledged, in a new store: by new names, queues and positions."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.converting.report import ConvertSummary
from reput.store_format.faults import StoreError
from reput.store_format.rocksdb.database import TableWriter, make_database, table_options
from tests import converted
from tests.in_process import Session, as_text
from tests.logs.encoder import Message, build_log, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.query.popped import POPPED, REVIVE, ack, point

TIMER = "rmq_sys_wheel_timer"
TIME = POPPED - 1000


def orders(store: int = 0, many: int = 8) -> list[Message]:
    return [
        Message("Orders", 1, n, b"%d%d" % (store, n), store_timestamp=TIME + 10 * n + store)
        for n in range(many)
    ]


def waits(n: int, tag: str, body: dict[str, Any]) -> Message:
    """A check point, or an acknowledgement, that waits for the timer."""
    text = properties(
        ("REAL_TOPIC", REVIVE), ("TAGS", tag), ("TIMER_OUT_MS", str(POPPED)), ("REAL_QID", "0")
    )
    return Message(TIMER, 0, n, json.dumps(body).encode(), text, store_timestamp=POPPED)


def popped(**more: Any) -> list[Message]:
    """Of Orders 2, 3, 4 and 6 are popped, and 3 is acknowledged."""
    made = point(2, topic="Orders", **{"n": 4, "d": [0, 1, 2, 4], "sp": True, **more})
    return [waits(0, "ck", made), waits(1, "ack", ack(2, 3, t="Orders"))]


def made_of(
    stores: list[list[Message]], config: Any = (), **options: Any
) -> tuple[ConvertSummary, MemoryStorage]:
    storage = converted.stores_of(stores, config)
    return converted.joined(storage, len(stores), **options), storage


def points(storage: MemoryStorage) -> list[tuple[int, dict[str, Any]]]:
    """(position, body) of each check point in the new log; each whole, and where it says."""
    found = []
    for place, record in converted.records(converted.log_of(storage)):
        if b"TAGS\x01ck" in record:
            assert converted.at_place(record, place) == record
            found.append((converted.position(record), json.loads(converted.body(record))))
    return found


def checked(start: int, steps: list[int], **more: Any) -> dict[str, Any]:
    """The check point that is wanted."""
    return {**point(start, len(steps), topic="Orders", sp=True, d=steps), **more}


@pytest.mark.parametrize(
    "options", [{"topics": ["Orders"]}, {"drop": ["B"]}, {"topics": ["Orders"], "to": "5.5.0"}]
)
def test_what_is_in_flight_of_a_chosen_topic_comes_again(options: dict[str, Any]) -> None:
    release = options.pop("to", None)
    log = [*orders(), Message("B", store_timestamp=TIME), *popped()]
    summary, made = made_of([log], to_rocketmq=release, **options)
    assert points(made) == [(0, checked(2, [0, 2, 4]))]
    assert summary.in_flight == ["3 messages of pop, by 1 new check point"]
    last = converted.records(converted.log_of(made))[-1][1]
    due = POPPED + 60_000 - 1000  # PopMessageProcessor.buildCkMsg
    assert b"TIMER_DELIVER_MS\x01%d\x02" % due in last
    assert b"TIMER_OUT_MS\x01%d\x02" % (due - 1000) in last
    assert b"REAL_TOPIC\x01" + REVIVE.encode() in last
    assert b"UNIQ_KEY\x01Orders@1@2@g@%d@b@ck\x02" % POPPED in last
    (queue,) = (raw for path, raw in converted.derived_of(made).items() if f"/{TIMER}/" in path)
    assert struct.unpack_from(">q", queue)[0] == converted.records(converted.log_of(made))[-1][0]


def test_what_is_in_flight_of_a_dropped_topic_is_left_out_and_counted() -> None:
    summary, made = made_of([[*orders(), Message("B"), *popped()]], drop=["Orders"])
    assert points(made) == []
    assert summary.in_flight == ["3 messages of pop, left out with their topics"]
    summary, made = made_of([[*orders(), *popped()]])  # without a change all is as it was
    assert converted.records_of(made) == converted.encoded([*orders(), *popped()])
    assert summary.in_flight == []
    with pytest.raises(StoreError, match=r"3 messages in flight \(pop\): not for RocketMQ 4.9.7"):
        made_of([[*orders(), *popped()]], topics=["Orders"], to_rocketmq="4.9.7")


@pytest.mark.parametrize("selects", [False, True])
def test_a_renamed_topic_s_check_points_have_its_new_name(selects: bool) -> None:
    other = [Message("B", store_timestamp=TIME)]
    more = {"topics": ["Orders"]} if selects else {}
    _, made = made_of([[*orders(), *other, *popped()]], rename={"Orders": "New"}, **more)
    new = (0 if selects else 2, checked(2, [0, 2, 4], t="New"))
    assert points(made)[-1] == new
    # a broker passes over check points of a topic that it has no more (PopReviveService)
    assert [place for place, _ in points(made)] == ([0] if selects else [0, 2])


def test_queues_of_a_later_store_have_check_points_with_other_ids_or_positions() -> None:
    stores = [[*orders(0), *popped()], [*orders(1), *popped(bn="other")]]
    table = {"Orders": {"topicName": "Orders", "readQueueNums": 4, "writeQueueNums": 4}}
    _, made = made_of(stores, [{"topics": {"topicConfigTable": table}}] * 2, meet="apart")
    assert points(made) == [
        (0, checked(2, [0, 2, 4])),
        (1, checked(2, [0, 1, 2, 4], q=5)),  # what acknowledges names the other broker
    ]  # fmt: skip
    info = {"o": [2, 1], "cm": 1, "popTime": 5, "i": 6}  # of an ordered pop
    held = [{"consumerOrderInfo": {"table": {"Orders@g": {"1": info}}}}, {}]
    stores = [[*orders(0), *popped()], [*orders(1), *popped()]]
    _, made = made_of(stores, held, meet="renumber")
    assert points(made) == [(0, checked(4, [0, 4, 8])), (1, checked(5, [0, 4, 8]))]
    table = converted.config(made, "consumerOrderInfo", "table")
    assert table == {"Orders@g": {"1": {**info, "o": [4, 2]}}}


def test_a_message_that_two_stores_share_is_in_flight_where_neither_has_it_acknowledged() -> None:
    shared = [*orders(), *popped()]
    acked = waits(2, "ack", ack(2, 4, t="Orders"))
    for stores in ([shared, [*shared, acked]], [[*shared, acked], shared]):
        _, made = made_of(stores)
        assert points(made) == [(0, checked(2, [0, 4]))]


def test_check_points_fill_segments_of_any_size() -> None:
    many = [
        waits(n, "ck", point(n % 8, topic="Orders", group=f"g{n}", it=60_000 + 1000 * n))
        for n in range(40)
    ]
    _, made = made_of([[*orders(), *many]], topics=["Orders"])
    found = points(made)
    assert [at for at, _ in found] == list(range(40))
    assert [each["c"] for _, each in found] == [f"g{n}" for n in range(40)]
    assert len(converted.log_of(made)) > 3


@pytest.mark.parametrize("named", [True, False])
def test_rows_of_kv_store_become_check_points(tmp_path: Path, named: bool) -> None:
    """As of a broker that uses it no more (PopConsumerService.transferToFsStore)."""
    store, made = tmp_path / "store", tmp_path / "made"
    topics = {REVIVE: {"perm": 6}, "C": {"perm": 7, "readQueueNums": 1}, "Orders": {"perm": 6}}
    own = {"b": {"perm": 7, "readQueueNums": 1}} if named else {}
    for path, raw in (
        (f"commitlog/{0:020d}", build_log(orders(), converted.SEGMENT)[0]),
        ("config/topics.json", json.dumps({"topicConfigTable": {**topics, **own}}).encode()),
    ):
        (store / path).parent.mkdir(parents=True)
        (store / path).write_bytes(raw)
    record = {"popTime": POPPED, "groupId": "g", "topicId": "Orders", "queueId": 1,
              "retryFlag": 0, "invisibleTime": 60_000, "offset": 5}  # fmt: skip
    table = TableWriter(f"{store}/t.sst", table_options(False, False))
    table.put([b"key"], [json.dumps(record).encode()])
    table.finish()
    make_database(
        f"{store}/kvStore", {"popState": (table_options(False, False), [f"{store}/t.sst"])}
    )
    words: Any = {"rocketmq": "5.3.3", "settings": as_text(converted.PLAIN)}
    if not named:
        with pytest.raises(StoreError, match=r"1 message in flight .*popConsumerKVServiceEnable"):
            convert(Session(), str(store), str(made), **words)
        return
    summary = convert(Session(), str(store), str(made), **words)
    log = {0: (made / "commitlog" / f"{0:020d}").read_bytes()}
    (found,) = (
        json.loads(converted.body(r)) for _, r in converted.records(log) if b"TAGS\x01ck" in r
    )
    assert found == point(5, topic="Orders")
    assert summary.in_flight == ["1 message of pop, by 1 new check point"]
