"""Messages by key, and one by its place: whole records, and only those that are served."""

from typing import Any

import numpy as np
import pytest

from reput.broker.serving import attendance, reading
from reput.broker.serving.attendance import compiled, is_tags
from reput.broker.serving.broker import Answer
from reput.broker.serving.clients import Subscription
from reput.broker.wire.codes import RequestCode, ResponseCode
from reput.store_format.filter.filters import WrongTags
from reput.store_format.filter.sql import WrongExpression
from reput.store_format.log.record import Record
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked, said
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, SUSPEND, pull
from tests.logs.encoder import properties

SIZE = FIXED + 1 + 9 + len("TAGS1A2")
MANY = 30  # 20 of them are in the queue's first file
INT_MAX = (1 << 31) - 1
A, B, AB = 65, 66, 65 * 31 + 66  # String.hashCode of "A", "B", "AB"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = (message(n, tag="AB"[n % 2]) for n in range(MANY))
    topics: dict[str, Any] = {"T": {"readQueueNums": 2, "topicSysFlag": 1}, "Closed": {"perm": 2},
                              "Batch": {"attributes": {"queue.type": "BatchCQ"}}}  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


def asked_by(store: Asked, position: int, **more: Any) -> Answer:
    topic, queue_id = more.pop("topic", "T"), more.pop("queueId", 0)
    fields = {**pull(topic, queue_id, position).fields, **more}
    return store.ask(RequestCode.PULL_MESSAGE, **fields)


def test_what_is_not_served_or_not_said_is_no_message(store, monkeypatch) -> None:
    place = 5 * SIZE
    assert reading.whole_record(store.broker, place) is not None
    for code in (RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET,
                 RequestCode.GET_EARLIEST_MSG_STORETIME,
                 RequestCode.SEARCH_OFFSET_BY_TIMESTAMP):  # fmt: skip
        answer = store.ask(code, 1, topic="T")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "queueId" in str(answer.remark)
    at_no_time = store.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 1, topic="T", queueId=0)
    assert at_no_time.code == ResponseCode.SYSTEM_ERROR
    monkeypatch.setattr(store.broker.store, "limit", place)
    assert reading.whole_record(store.broker, place) is None
    assert reading.whole_record(store.broker, place - SIZE) is not None


@pytest.mark.parametrize(("release", "code"), [
    ("5.3.1", ResponseCode.SYSTEM_ERROR), ("5.3.2", ResponseCode.INVALID_PARAMETER)])  # fmt: skip
def test_a_queue_that_a_topic_does_not_have_is_refused(store, release, code, monkeypatch) -> None:
    monkeypatch.setattr(store.broker.store.opened, "profile", profile(release))
    for queue_id in (-1, 2, INT_MAX):
        assert asked_by(store, 0, queueId=queue_id).code == code


def test_a_pull_is_refused_or_waits_at_the_end(store: Asked) -> None:
    for more, code in [
        ({"topic": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"topic": "Closed"}, ResponseCode.NO_PERMISSION),
        ({"consumerGroup": "no group"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        ({"subscription": "||"}, ResponseCode.SUBSCRIPTION_PARSE_FAILED),
        ({"sysFlag": 0}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"queueOffset": "x"}, ResponseCode.SYSTEM_ERROR),
        # an expression that is none filters nothing, as in a broker
        ({"subscription": "a >", "expressionType": "SQL92"}, ResponseCode.SUCCESS),
    ]:
        assert asked_by(store, 0, **more).code == code
    flags = HAS_SUBSCRIPTION | SUSPEND
    hold = asked_by(store, MANY, sysFlag=flags, suspendTimeoutMillis=700).hold
    assert hold is not None
    assert hold[:4] == ("T", 0, MANY, store.now + 700)
    assert asked_by(store, MANY, suspendTimeoutMillis=700).hold is None
    assert asked_by(store, MANY + 1, sysFlag=flags).hold is None
    assert asked_by(store, 0, sysFlag=flags).hold is None
    store.heartbeat(1, "heard", "T", version=5)
    codes = [asked_by(store, 0, consumerGroup="heard", sysFlag=0, **more).code for more in (
        {"subVersion": 5}, {"subVersion": 6}, {"topic": "Batch"})]  # fmt: skip
    assert codes == [ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_NOT_LATEST,
                     ResponseCode.SUBSCRIPTION_NOT_EXIST]  # fmt: skip


# --- A queue's entries as its files have them, for an operator (queryConsumeQueue).
def entries(store: Asked, first: int, most: int, **more: Any) -> Answer:
    fields = {"topic": "T", "queueId": 0, "index": first, "count": most, **more}
    return store.ask(RequestCode.QUERY_CONSUME_QUEUE, 1, **fields)


def test_entries_are_those_of_one_file_and_no_others(store: Asked) -> None:
    answer = said(entries(store, 3, 2))
    assert (answer["minQueueIndex"], answer["maxQueueIndex"]) == (0, MANY)
    assert answer["queueData"] == [{"eval": False, "physicOffset": n * SIZE, "physicSize": SIZE,
                                    "tagsCode": code} for n, code in ((3, B), (4, A))]  # fmt: skip
    assert "filterData" not in answer
    for first, most, many in [
        (0, 1, 1), (29, 5, 1), (18, 50, 2), (20, 50, 10), (0, 0, 0), (0, -1, 0),
        (0, 1 << 40, 20)]:  # fmt: skip
        assert len(said(entries(store, first, most))["queueData"]) == many
    for first in [-1, MANY, 1 << 62]:
        answer = entries(store, first, 1)
        assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
        assert answer.remark == f"Index {first} of 0@T is not exist!"
    for topic, queue_id in [("None", 0), ("T", 1), ("T", -1)]:
        answer = entries(store, 0, 1, topic=topic, queueId=queue_id)
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")  # fmt: skip


def test_the_groups_subscription_is_told_where_it_is_online(store: Asked) -> None:
    assert said(entries(store, 0, 1, consumerGroup="g"))["filterData"] == "g@T is not online!"
    store.heartbeat(1, "g", "T")
    answer = said(entries(store, 0, 1, consumerGroup="g"))
    assert answer["subscriptionData"]["subString"] == "*"
    assert "filterData" not in answer


# --- Which entries and records a pull gets: by the hash codes of tags, or by an SQL92 expression.
PROFILE = profile("5.3.3")
MIN_INT = -(1 << 31)


def passes(wanted: reading.PullFilter, *codes: int) -> list[bool]:
    return [bool(each) for each in wanted.entries(np.array(codes, np.int64))]


def of_codes(*codes: int) -> reading.PullFilter:
    return reading.PullFilter(np.array(codes, np.int32))


def test_entries_pass_by_the_hash_codes_of_tags() -> None:
    """SubscriptionData's codes are Java ints; a tagsCode is one in 8 bytes."""
    wanted = reading.wanted_by(reading.subscription_of("T", "A || AB", None, 0), PROFILE)
    assert passes(wanted, A, AB, A + 1, 0, -A) == [True, True, False, False, False]
    assert passes(of_codes(MIN_INT, -1), MIN_INT, -1, 1) == [True, True, False]
    assert passes(of_codes(), 0, A) == [False, False]
    assert wanted.record is None
    # A ConsumeQueueExt address is below Integer.MIN_VALUE; the client filters too.
    assert passes(of_codes(A), MIN_INT - 1, -(1 << 63), MIN_INT) == [True, True, False]
    for text in ["*", "", None]:
        own = reading.subscription_of("T", text, "TAG", 3)
        assert own == Subscription("T", "*", "TAG", 3)
        assert reading.wanted_by(own, PROFILE) is reading.EVERYTHING
        assert passes(reading.EVERYTHING, 0, A, MIN_INT - 1) == [True] * 3
    # ExpressionType.isTagType.
    assert [is_tags(kind) for kind in (None, "", "TAG", "SQL92", "tag")] == [
        True, True, True, False, False]  # fmt: skip
    with pytest.raises(WrongTags):
        reading.subscription_of("T", "||", None, 0)
    for empty in ("", None):
        with pytest.raises(WrongTags):
            reading.subscription_of("T", empty, "SQL92", 0)


def test_sql_looks_at_records_by_their_properties(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = reading.wanted_by(reading.subscription_of("T", "a > 5", "SQL92", 0), PROFILE)
    assert wanted.record is not None
    assert passes(wanted, 0, A) == [True, True]
    record: Any = Record
    texts = [properties(("a", "6")), properties(("a", "5")), properties(("b", "6")),
             properties(("a", "5.0")), b""]  # fmt: skip
    records = [record(b"T", *[0] * 16, text) for text in texts]
    assert [wanted.record(each) for each in records] == [True, False, False, False, False]
    short, long = (reading.wanted_by(Subscription("T", f"a = '{'x' * many}'", "SQL92"),
                                     PROFILE) for many in (1, 9000))  # fmt: skip
    assert short.looked_at > 10 * long.looked_at >= 10
    monkeypatch.setattr(attendance, "_SQL_MOST", 5)
    assert compiled("a > 7", PROFILE)
    with pytest.raises(WrongExpression, match="6 characters"):
        compiled("a > 77", PROFILE)
