"""What a producer sends and reads, as values and bytes: what a message keeps when it is sent again,
requests to store messages, the route to a topic, what an answer means, and how a queue is read.

SendMessageRequestHeaderV2, TopicRouteData, MessageDecoder; as DefaultMQProducerImpl does, but for
one thing: what a message has of its former life is dropped (`kept_properties`).
"""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from reput.broker.wire.codes import Language, RequestCode, ordinal
from reput.broker.wire.remoting import BadFrame, Command, Serialization
from reput.store_format.faults import Fault
from reput.store_format.java import quoted_keys
from reput.store_format.layouts import SYS_COMPRESSED, SYS_COMPRESSION_MASK
from reput.store_format.log.record import Record, read_one
from reput.store_format.log.rules import RecordRules
from reput.store_format.message.bodies import InnerMessage, encode_inner
from reput.store_format.message.message import NAME_END, VALUE_END
from reput.store_format.message.multi_dispatch import NAMED
from reput.store_format.names import RETRY_PREFIX

# ---
# What a message keeps when it is sent again.

UNIQUE_KEY, RETRY_TOPIC, DLQ_ORIGIN = "UNIQ_KEY", "RETRY_TOPIC", "DLQ_ORIGIN_TOPIC"
SENT_BY = "REPUT_SEND"  # which send made a copy for its source's own topic
# Why a property goes -> names (MessageConst). All others stay, as UNIQ_KEY, KEYS and TAGS do.
DROPPED = {
    # it waited, and a broker would let it wait again (HookUtils.handleScheduleMessage)
    "delay": "DELAY REAL_TOPIC REAL_QID TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS "
    "TIMER_DELAY_LEVEL TIMER_OUT_MS TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES "
    "TIMER_ROLL_LABEL TIMER_DEL_UNIQKEY",
    # it failed: the next retry would go to RETRY_TOPIC, count on, and name the first try's id
    # (AbstractSendMessageProcessor.consumerSendMsgBack, which also sets WAIT=false)
    "retry": "RETRY_TOPIC ORIGIN_MESSAGE_ID RECONSUME_TIME MAX_RECONSUME_TIMES DLQ_ORIGIN_TOPIC "
    "DLQ_ORIGIN_MESSAGE_ID WAIT",
    # with TRAN_MSG it would be a half message, for whose end nobody asks (SendMessageProcessor)
    "transaction": "TRAN_MSG PGROUP TRAN_PREPARED_QUEUE_OFFSET __transactionId__ "
    "TRANS_OFFSET TRANSACTION_CHECK_TIMES CHECK_IMMUNITY_TIME_IN_SECONDS",
    # a consumer's notes (PullAPIWrapper, PopMessageProcessor), sent along with what failed
    "consumer": "MIN_OFFSET MAX_OFFSET CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME "
    "ORIGIN_GROUP",
    # the broker that takes it says its own (buildMsgContext, putMessage, MultiDispatchUtils)
    "broker": "MSG_REGION TRACE_ON CLUSTER INNER_NUM INNER_BASE INNER_MULTI_QUEUE_OFFSET __CRC32# "
    "DUP_INFO",
    "us": SENT_BY,
}
_DROPPED = frozenset(" ".join(DROPPED.values()).split())
_TRANSIENT = "__RMQ.TRANSIENT."  # never stored (MessageConst.PROPERTY_TRANSIENT_PREFIX)


def origin_of(properties: Mapping[str, str]) -> str | None:
    """The topic that a dead letter or a retry was sent to at first."""
    return properties.get(DLQ_ORIGIN) or properties.get(RETRY_TOPIC)


def kept_properties(properties: Mapping[str, str], topic: str, unique: str) -> dict[str, str]:
    """The properties of a message that is sent again to `topic`. unique: its UNIQ_KEY if it has
    none. What is sent to a group's own %RETRY% topic keeps the topic that its listener is shown.
    """
    kept = {
        name: value for name, value in properties.items()
        if name not in _DROPPED and not name.startswith(_TRANSIENT)
    }  # fmt: skip
    kept.setdefault(UNIQUE_KEY, unique)
    origin = origin_of(properties)
    if origin and topic.startswith(RETRY_PREFIX):
        kept[RETRY_TOPIC] = origin
    return kept


class Outgoing(NamedTuple):
    """A message to send. place: where its source has it, which only grows; source: for reports."""

    place: tuple[int, int]
    topic: str
    queue_id: int  # of its source
    properties: dict[str, str]
    body: bytes  # as it stands: compressed, if sys_flag says so
    flag: int
    sys_flag: int
    source: dict[str, Any] = {}
    refused: str = ""  # why it cannot be sent

    @property
    def unique(self) -> str:
        return self.properties[UNIQUE_KEY]

    @property
    def size(self) -> int:
        return len(self.body) + len(self.text) + _BESIDE

    @property
    def text(self) -> str:
        """MessageDecoder.messageProperties2String."""
        return VALUE_END.join(f"{n}{NAME_END}{v}" for n, v in self.properties.items())

    @property
    def fits_batch(self) -> bool:
        """Whether it may share a request: a batch has one sysFlag, no retry topic, a topic of 127
        characters at most (sendBatchMessage), a short's length of properties, and no LMQ.
        """
        simple = not (self.sys_flag or self.refused or NAMED in self.properties)
        short = len(self.topic) <= _SHORT and len(self.text) < _TEXT_MOST
        return simple and short and not self.topic.startswith(RETRY_PREFIX)


_BESIDE, _SHORT = 200, 127  # a record's other fields, generously; Byte.MAX_VALUE
_TEXT_MOST = 10_000  # characters: in UTF-8 within Short.MAX_VALUE


def kept_flags(sys_flag: int) -> int:
    """The bits of a sysFlag that say how the body is compressed. Others are the broker's own."""
    return sys_flag & (SYS_COMPRESSED | SYS_COMPRESSION_MASK) if sys_flag & SYS_COMPRESSED else 0


# ---
# Requests.

GROUP = "reput"  # of producers
_READER = "TOOLS_CONSUMER"  # MixAll.TOOLS_CONSUMER_GROUP, which each broker knows
ANY_TOPIC = "TBW102"  # TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC
_VERSION = ordinal("4.9.7")  # reads standard JSON; no broker expects more of it
_PULL_FLAGS = 4  # PullSysFlag: with a subscription; no commit, no wait
_MOST_READ = 32


def request(code: int, fields: Mapping[str, object] = {}, body: bytes = b"") -> Command:
    texts = {name: str(value) for name, value in fields.items()}
    return Command(code, fields=texts, body=body, version=_VERSION, language=Language.OTHER,
                   serialization=Serialization.JSON)  # fmt: skip


def send_request(messages: list[Outgoing], queue_id: int, now: int) -> Command:
    """SEND_MESSAGE_V2, or SEND_BATCH_MESSAGE for several. now: milliseconds, bornTimestamp."""
    first, batch = messages[0], len(messages) > 1
    fields: dict[str, object] = {
        "a": GROUP, "b": first.topic, "c": ANY_TOPIC, "d": 4, "e": queue_id,
        "f": first.sys_flag, "g": now, "h": 0 if batch else first.flag,
        "i": "" if batch else first.text, "j": 0, "k": "false", "m": str(batch).lower(),
    }  # fmt: skip
    if not batch:
        return request(RequestCode.SEND_MESSAGE_V2, fields, first.body)
    inner = (InnerMessage(m.flag, m.body, m.text.encode("utf-8", "replace")) for m in messages)
    return request(RequestCode.SEND_BATCH_MESSAGE, fields, encode_inner(inner))


def route_request(topic: str) -> Command:
    fields = {"topic": topic, "acceptStandardJsonOnly": "true"}
    return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)


def end_request(topic: str, queue_id: int) -> Command:
    return request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue_id})


def pull_request(topic: str, queue_id: int, offset: int) -> Command:
    fields = {
        "consumerGroup": _READER, "topic": topic, "queueId": queue_id, "queueOffset": offset,
        "maxMsgNums": _MOST_READ, "sysFlag": _PULL_FLAGS, "commitOffset": 0,
        "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    return request(RequestCode.PULL_MESSAGE, fields)


# ---
# Answers.

# The message is stored, if on fewer disks than the broker is set to (SendStatus).
STORED = {0: "", 10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT"}
# Not stored, but may be soon: SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, FLOW_CONTROL, GO_AWAY.
BUSY = frozenset({2, 14, 215, 1500})
READABLE = frozenset({0, 19, 20, 21})  # FOUND, and what a pull says where nothing is


class TargetBroker(NamedTuple):
    """A master that takes messages of a topic in queues 0 to `queues` - 1."""

    name: str
    address: tuple[str, int]
    queues: int


_WRITABLE, _MASTER, _QUEUES_MOST, _PORT_MOST = 2, "0", 1 << 16, 1 << 16


def parse_route(body: bytes) -> list[TargetBroker]:
    """The brokers of a TopicRouteData that can be written to, by name. Raises BadFrame."""
    found = []
    try:
        route = json.loads(quoted_keys(body))
        addresses = {each["brokerName"]: each["brokerAddrs"] for each in route["brokerDatas"]}
        for queues in route["queueDatas"]:
            name, many = str(queues["brokerName"]), int(queues["writeQueueNums"])
            master = addresses.get(queues["brokerName"], {}).get(_MASTER)
            if not int(queues["perm"]) & _WRITABLE or not 0 < many <= _QUEUES_MOST or not master:
                continue
            host, _, port = master.rpartition(":")
            if not host or not 0 < int(port) < _PORT_MOST:
                raise BadFrame(f"the route names a broker at {master[:80]!r}")
            found.append(TargetBroker(name, (host.strip("[]"), int(port)), many))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, BadFrame):
            raise
        raise BadFrame(f"the route cannot be read ({type(error).__name__})") from None
    return sorted(found)


def number_of(answer: Command, name: str) -> int:
    """A whole number of an answer's header; -1 where there is none."""
    text = answer.fields.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else -1


_DIGITS = 19  # fewer are within 64 bits
_HEAD = struct.Struct(">i24xq")


def pulled(body: bytes, rules: RecordRules) -> Iterator[Record]:
    """The records in a pull's answer, as they stand in the log. Raises BadFrame."""
    at = 0
    while at < len(body):
        if len(body) - at < _HEAD.size:
            raise BadFrame("the pulled messages end within one")
        size, place = _HEAD.unpack_from(body, at)

        def read(offset: int, buffer: Any, at: int = at - place) -> None:
            there = np.frombuffer(body, np.uint8)[at + offset : at + offset + len(buffer)]
            buffer[: len(there)] = there
            buffer[len(there) :] = 0

        if not 0 < size <= len(body) - at:
            raise BadFrame(f"a pulled message of {size} bytes: {len(body) - at} are there")
        fault, record = read_one(read, place, place + size, rules, size)
        if fault != Fault.NONE or record is None:
            raise BadFrame("a pulled message is not whole")
        yield record
        at += size
