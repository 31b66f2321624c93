"""A consumer by socket: pulls, pops and acknowledges as the Java client does, without a JVM."""

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from reput.broker.serving.broker import Answer
from reput.broker.wire.codes import RequestCode
from reput.broker.wire.remoting import Command
from reput.store_format.names import LMQ_PREFIX
from tests.jobs.sockets.asking import Peer, pull, request
from tests.jobs.sockets.popping import Popped, ack_of, fields, messages

BROKER = "judge"
_FOUND = 0
_HEAD = struct.Struct(">iiiiiqqiq8sq8siqi")  # of hosts with IPv4
_INNER = struct.Struct(">iiiii")
_INNER_BATCH = 1 << 7  # MessageSysFlag.INNER_BATCH_FLAG
_SEND_BACK = RequestCode.CONSUMER_SEND_MSG_BACK


class Got(NamedTuple):
    """A message, as a client reads it."""

    key: str
    queue: int
    position: int
    place: int  # its physical offset
    properties: dict[str, str]


def decoded(body: bytes) -> Iterator[Got]:
    """The messages of a pull's or pop's answer (MessageDecoder), those of a batch one by one."""
    at = 0
    while at < len(body):
        total, _, _, queue, _, position, place, flag, *_, size = _HEAD.unpack_from(body, at)
        start = at + _HEAD.size
        end = start + size
        properties = _properties(body, end + 1 + body[end])
        if flag & _INNER_BATCH:
            for number, each in enumerate(_unwrapped(body[start:end])):
                yield Got(each.get("KEYS", ""), queue, position + number, place, each)
        else:
            yield Got(properties.get("KEYS", ""), queue, position, place, properties)
        at += total


def _unwrapped(batch: bytes) -> Iterator[dict[str, str]]:
    at = 0
    while at < len(batch):
        total, _, _, _, size = _INNER.unpack_from(batch, at)
        yield _properties(batch, at + _INNER.size + size)
        at += total


def _properties(raw: bytes, at: int) -> dict[str, str]:
    (length,) = struct.unpack_from(">h", raw, at)
    pairs = raw[at + 2 : at + 2 + length].decode().split("\2")
    return {name: value for name, _, value in (pair.partition("\1") for pair in pairs) if name}


class Consumer:
    """One group that reads one topic, from where the broker says that it stopped."""

    def __init__(self, peer: Peer, group: str, topic: str, queues: int) -> None:
        self.peer, self.group, self.topic = peer, group, topic
        self.at = {queue: self._saved(queue) for queue in range(queues)}

    def _saved(self, queue: int) -> int:
        """A group that has none begins with the first message (CONSUME_FROM_FIRST_OFFSET)."""
        answer = self._ask(RequestCode.QUERY_CONSUMER_OFFSET, queueId=queue)
        return 0 if answer.code else int(answer.fields["offset"])

    def _ask(self, code: RequestCode, **more: Any) -> Command:
        return self.peer.ask(request(code, consumerGroup=self.group, topic=self.topic, **more))

    def read(self, limit: int | None = None) -> list[Got]:
        """What is new, of each queue at most `limit` messages."""
        return [each for queue in self.at for each in self._read(queue, limit)]

    def _read(self, queue: int, limit: int | None) -> Iterator[Got]:
        left = limit
        while left is None or left > 0:
            at, most = self.at[queue], 32 if left is None else left
            wanted = pull(self.topic, queue, at, most, consumerGroup=self.group)
            answer = self.peer.ask(wanted)
            after = int(answer.fields.get("nextBeginOffset", at))
            found = list(decoded(answer.body or b"")) if answer.code == _FOUND else []
            if self.topic.startswith(LMQ_PREFIX):  # the message has the position in its own topic
                found = [each._replace(position=int(each.properties["INNER_MULTI_QUEUE_OFFSET"]))
                         for each in found]  # fmt: skip
            found = [each for each in found if each.position >= at][:left]
            yield from found
            if left is not None:
                after = found[-1].position + 1 if found else after
                left -= len(found)
            self.at[queue] = after
            if after <= at:
                return

    def save(self) -> None:
        for queue, at in self.at.items():
            self._ask(RequestCode.UPDATE_CONSUMER_OFFSET, queueId=queue, commitOffset=at)

    def send_back(self, each: Got, level: int, most: int) -> None:
        """It could not be consumed: again after a delay of that level, or never after `most`."""
        answer = self.peer.ask(
            request(
                _SEND_BACK, offset=each.place, group=self.group, delayLevel=level,
                originTopic=self.topic, maxReconsumeTimes=most,
                originMsgId=each.properties.get("UNIQ_KEY", ""),
            )
        )  # fmt: skip
        assert answer.code == _FOUND, answer.remark


class PopConsumer:
    """One group that pops a topic; in order, where it is told how many queues it has."""

    def __init__(self, peer: Peer, group: str, topic: str, ordered: int = 0) -> None:
        self.peer, self.group, self.topic, self.ordered = peer, group, topic, ordered

    def pop(
        self, invisible: int = 600_000, most: int = 32, queue: int = 0
    ) -> list[tuple[Got, Popped]]:
        wanted: dict[str, object] = {"invisibleTime": invisible, "maxMsgNums": most}
        if self.ordered:
            wanted |= {"order": "true", "queueId": queue}
        answer = self.peer.ask(
            request(RequestCode.POP_MESSAGE, **fields(self.group, self.topic, **wanted))
        )
        body = answer.body or b""
        popped = messages(Answer(answer.code, None, answer.fields, b"", (memoryview(body),)),
                          BROKER)  # fmt: skip
        return list(zip(decoded(body), popped, strict=True)) if popped else []

    def ack(self, each: Popped) -> None:
        topic = self.topic
        if each.retry != "0":
            topic = f"%RETRY%{self.group}{'_' if each.retry == '1' else '+'}{self.topic}"
        answer = self.peer.ask(request(RequestCode.ACK_MESSAGE, **ack_of(self.group, each, topic)))
        assert answer.code == _FOUND, answer.remark

    def read(self) -> list[Got]:
        """What is given now, and acknowledged at once."""
        found = []
        for queue in range(self.ordered or 1):
            while popped := self.pop(queue=queue):
                for got, each in popped:
                    self.ack(each)
                    found.append(got)
        return found
