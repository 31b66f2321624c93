"""Requests that only a group's consumer can answer: the consumer is asked, and its answer goes to
the caller (AdminBrokerProcessor.callConsumer, Broker2Client).

Only the header fields that belong to the request are passed on, not the caller's signature.
"""

import json
import re
from collections.abc import Iterable, Iterator

from reput.broker.serving.broker import (
    Answer,
    Broker,
    Caller,
    Question,
    answers,
    found,
    refused,
    text,
)
from reput.broker.serving.reading import whole_record
from reput.broker.serving.records import BodyPiece
from reput.broker.wire.codes import Entries, RequestCode, ResponseCode, fastjson
from reput.broker.wire.remoting import Command
from reput.store_format.message.ids import BadMessageId, parse_message_id

_WAIT, _STATUS_WAIT = 10_000, 5_000  # milliseconds
_RUNNING_FIELDS = ("consumerGroup", "clientId", "jstackEnable")
_CONSUME_FIELDS = ("consumerGroup", "clientId", "msgId", "topic")
# an entry of a map whose keys are MessageQueues, which fastjson writes as JSON objects
_OF_QUEUE = re.compile(r"(\{[^{}]*\}):(-?\d{1,19})(?=[,}])")


@answers(RequestCode.GET_CONSUMER_RUNNING_INFO)
def running_info(broker: Broker, request: Command, caller: Caller) -> Answer:
    """What a consumer is doing: its queues, rates, threads' stacks (ConsumerRunningInfo)."""
    return _call(broker, request, _RUNNING_FIELDS)


@answers(RequestCode.CONSUME_MESSAGE_DIRECTLY)
def consume_directly(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Have a consumer consume one message now; answers with the result."""
    try:
        place = parse_message_id(text(request, "msgId"))[0].physical_offset
    except BadMessageId as error:
        return refused(ResponseCode.SYSTEM_ERROR, str(error))
    record = whole_record(broker, place)
    if record is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {place}")
    return _call(broker, request, _CONSUME_FIELDS, (record,), brokerName=broker.name)


def _call(
    broker: Broker, request: Command, fields: Iterable[str], pieces: tuple[BodyPiece, ...] = (),
    **more: str,
) -> Answer:  # fmt: skip
    group, client = text(request, "consumerGroup"), text(request, "clientId")
    connection = _connection_of(broker, group, client)
    if connection is None:
        return refused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client}> not online")

    def then(said: Command | None) -> Answer:
        if said is None:
            return refused(
                ResponseCode.CONSUME_MSG_TIMEOUT,
                f"consumer <{group}> <{client}> Timeout: no answer in {_WAIT} ms, or it is gone",
            )
        if said.body is None:
            return refused(
                ResponseCode.SYSTEM_ERROR, f"consumer <{group}> <{client}>: its answer is too long"
            )
        return Answer(said.code, said.remark, said.fields, said.body)

    passed = {name: request.fields[name] for name in fields if name in request.fields}
    command = Command(request.code, fields={**passed, **more}, version=broker.version)
    return found()._replace(question=Question(connection, command, pieces, _WAIT, then))


def _connection_of(broker: Broker, group: str, client: str) -> int | None:
    """A client's connection (ConsumerManager.findChannel)."""
    there = broker.consumers.groups.get(group)
    clients = {} if there is None else there.clients
    return next((number for number, each in clients.items() if each.id == client), None)


@answers(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
def status(broker: Broker, request: Command, caller: Caller) -> Answer:
    """How far a group's clients have come by their own account (GetConsumerStatusBody). Each client
    is asked in turn, or only the one that the request names; without an answer it is left out.
    """
    topic, group = text(request, "topic"), text(request, "group")
    only = request.fields.get("clientAddr", "").strip()
    there = broker.consumers.groups.get(group)
    if there is None:
        return refused(
            ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group}]"
        )
    left = iter([(n, each.id) for n, each in there.clients.items() if only in ("", each.id)])
    fields = {"topic": topic, "group": group}
    command = Command(
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields=fields, version=broker.version
    )
    return _ask_next(command, left, {})


def _ask_next(
    command: Command, left: Iterator[tuple[int, str]], tables: dict[str, Entries]
) -> Answer:
    """Ask the next client in `left`, or answer with what all clients have said."""
    connection, client = next(left, (None, ""))
    if connection is None:
        return found(fastjson({"consumerTable": tables, "messageQueueTable": {}}))

    def then(said: Command | None) -> Answer:
        if said is not None and said.code == ResponseCode.SUCCESS and said.body:
            tables[client] = queue_offsets(said.body)
        return _ask_next(command, left, tables)

    return found()._replace(question=Question(connection, command, (), _STATUS_WAIT, then))


def queue_offsets(body: bytes) -> Entries:
    """The (MessageQueue, offset) pairs of a client's body; anything else in it is left out."""
    pairs = []
    for key, offset in _OF_QUEUE.findall(body.decode("utf-8", "replace")):
        try:
            pairs.append((json.loads(key), int(offset)))
        except ValueError:
            continue
    return Entries(pairs)
