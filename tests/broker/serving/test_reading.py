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
from reput.store_format.message.message import Message
from reput.store_format.release.profiles import profile
from tests.broker.serving.served import FIXED, message, served
from tests.jobs.sockets.asked import Asked, said
from tests.jobs.sockets.asking import HAS_SUBSCRIPTION, SUSPEND, pull
from tests.logs.encoder import properties

MANY = 40


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Forty messages of one length with the key k; each third one has the key t too."""
    made = (Message("T", b"%02d" % n, keys="k t" if n % 3 == 0 else "k u",
                    unique_key=f"U{n:02d}") for n in range(MANY))  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), made, mappedFileSizeCommitLog=1 << 14)


def size(asked: Asked) -> int:
    return asked.broker.store.log.record_at(0).size


def test_what_is_not_served_is_not_found(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    place = 5 * size(asked)
    assert reading.whole_record(asked.broker, place) is not None
    monkeypatch.setattr(asked.broker.store, "limit", place)
    assert reading.whole_record(asked.broker, place) is None
    assert reading.whole_record(asked.broker, place - size(asked)) is not None


# --- A queue's ends, and its position at a time, as clients ask for them.
MANY_OFFSETS = 5
MAX, MIN = RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET
AT, EARLIEST = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, RequestCode.GET_EARLIEST_MSG_STORETIME


@pytest.fixture(scope="module")
def asked_offsets(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    topics: dict[str, Any] = {
        "T": {"readQueueNums": 2}, "Batch": {"attributes": {"queue.type": "BatchCQ"}}}  # fmt: skip
    made = (message(n) for n in range(MANY_OFFSETS))
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


def test_what_is_missing_is_told(asked_offsets: Asked) -> None:
    for code in (MAX, MIN, EARLIEST, AT):
        answer = asked_offsets.ask(code, 1, topic="T")
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "queueId" in str(answer.remark)
    assert asked_offsets.ask(AT, 1, topic="T", queueId=0).code == ResponseCode.SYSTEM_ERROR


# --- A pull of one queue: what is found from a position on, and the code that each result has.
MANY_PULL = 30  # 20 of them are in the queue's first file
INT_MAX = (1 << 31) - 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    made = (message(n, tag="AB"[n % 2]) for n in range(MANY_PULL))
    topics: dict[str, Any] = {"T": {"readQueueNums": 2, "topicSysFlag": 1}, "Closed": {"perm": 2},
                              "Batch": {"attributes": {"queue.type": "BatchCQ"}}}  # fmt: skip
    return served(tmp_path_factory.mktemp("store"), made, topics=topics)


def asked_by(store: Asked, position: int, **more: Any) -> Answer:
    topic, queue_id = more.pop("topic", "T"), more.pop("queueId", 0)
    fields = {**pull(topic, queue_id, position).fields, **more}
    return store.ask(RequestCode.PULL_MESSAGE, **fields)


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
    hold = asked_by(store, MANY_PULL, sysFlag=flags, suspendTimeoutMillis=700).hold
    assert hold is not None
    assert hold[:4] == ("T", 0, MANY_PULL, store.now + 700)
    assert asked_by(store, MANY_PULL, suspendTimeoutMillis=700).hold is None
    assert asked_by(store, MANY_PULL + 1, sysFlag=flags).hold is None
    assert asked_by(store, 0, sysFlag=flags).hold is None
    store.heartbeat(1, "heard", "T", version=5)
    codes = [asked_by(store, 0, consumerGroup="heard", sysFlag=0, **more).code for more in (
        {"subVersion": 5}, {"subVersion": 6}, {"topic": "Batch"})]  # fmt: skip
    assert codes == [ResponseCode.SUCCESS, ResponseCode.SUBSCRIPTION_NOT_LATEST,
                     ResponseCode.SUBSCRIPTION_NOT_EXIST]  # fmt: skip


# --- A queue's entries as its files have them, for an operator (queryConsumeQueue).
SIZE = FIXED + 1 + 9 + len("TAGS1A2")
A = 65  # String.hashCode of "A"


@pytest.fixture(scope="module")
def asked_queue(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """25 entries, 20 of them in the queue's first file."""
    return served(tmp_path_factory.mktemp("store"), (message(n, tag="A") for n in range(25)))


def entries(asked_queue: Asked, first: int, most: int, **more: Any) -> Answer:
    fields = {"topic": "T", "queueId": 0, "index": first, "count": most, **more}
    return asked_queue.ask(RequestCode.QUERY_CONSUME_QUEUE, 1, **fields)


def test_entries_are_those_of_one_file_and_no_others(asked_queue: Asked) -> None:
    answer = said(entries(asked_queue, 3, 2))
    assert (answer["minQueueIndex"], answer["maxQueueIndex"]) == (0, 25)
    assert answer["queueData"] == [{"eval": False, "physicOffset": n * SIZE, "physicSize": SIZE,
                                    "tagsCode": A} for n in (3, 4)]  # fmt: skip
    assert "filterData" not in answer
    for first, most, many in [
        (0, 1, 1), (24, 5, 1), (18, 50, 2), (20, 50, 5), (0, 0, 0), (0, -1, 0),
        (0, 1 << 40, 20)]:  # fmt: skip
        assert len(said(entries(asked_queue, first, most))["queueData"]) == many
    for first in [-1, 25, 1 << 62]:
        answer = entries(asked_queue, first, 1)
        assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b"")
        assert answer.remark == f"Index {first} of 0@T is not exist!"
    for topic, queue_id in [("None", 0), ("T", 1), ("T", -1)]:
        answer = entries(asked_queue, 0, 1, topic=topic, queueId=queue_id)
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")  # fmt: skip


def test_the_groups_subscription_is_told_where_it_is_online(asked_queue: Asked) -> None:
    assert said(entries(asked_queue, 0, 1, consumerGroup="g"))["filterData"] == "g@T is not online!"
    asked_queue.heartbeat(1, "g", "T")
    answer = said(entries(asked_queue, 0, 1, consumerGroup="g"))
    assert answer["subscriptionData"]["subString"] == "*"
    assert "filterData" not in answer


# --- Which entries and records a pull gets: by the hash codes of tags, or by an SQL92 expression.
PROFILE = profile("5.3.3")
A_SUBSCRIPTIONS, AB = 65, 65 * 31 + 66  # String.hashCode of "A", "AB"
MIN_INT = -(1 << 31)


def passes(wanted: reading.PullFilter, *codes: int) -> list[bool]:
    return [bool(each) for each in wanted.entries(np.array(codes, np.int64))]


def of_codes(*codes: int) -> reading.PullFilter:
    return reading.PullFilter(np.array(codes, np.int32))


def test_entries_pass_by_the_hash_codes_of_tags() -> None:
    """SubscriptionData's codes are Java ints; a tagsCode is one in 8 bytes."""
    wanted = reading.wanted_by(reading.subscription_of("T", "A || AB", None, 0), PROFILE)
    assert passes(wanted, A_SUBSCRIPTIONS, AB, A_SUBSCRIPTIONS + 1, 0, -A_SUBSCRIPTIONS) == [
        True, True, False, False, False]  # fmt: skip
    assert passes(of_codes(MIN_INT, -1), MIN_INT, -1, 1) == [True, True, False]
    assert passes(of_codes(), 0, A_SUBSCRIPTIONS) == [False, False]
    assert wanted.record is None
    # A ConsumeQueueExt address is below Integer.MIN_VALUE; the client filters too.
    assert passes(of_codes(A_SUBSCRIPTIONS), MIN_INT - 1, -(1 << 63), MIN_INT) == [
        True, True, False]  # fmt: skip
    for text in ["*", "", None]:
        own = reading.subscription_of("T", text, "TAG", 3)
        assert own == Subscription("T", "*", "TAG", 3)
        assert reading.wanted_by(own, PROFILE) is reading.EVERYTHING
        assert passes(reading.EVERYTHING, 0, A_SUBSCRIPTIONS, MIN_INT - 1) == [True] * 3
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
    assert passes(wanted, 0, A_SUBSCRIPTIONS) == [True, True]
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
