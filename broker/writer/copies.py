"""Appends records of a log once more: messages of another store, of a deleted topic for example,
and those that a broker's services put again.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from reput.broker.writer.writer import AppendResult, CommitLogWriter
from reput.store_format.faults import Fault
from reput.store_format.kernels.jit import allocating
from reput.store_format.layouts import (
    CRC_PROPERTY_BYTES,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    SYS_TRANSACTION_MASK,
)
from reput.store_format.log.reader import LogReader, record_of
from reput.store_format.log.record import Record, read_body
from reput.store_format.log.records import Bytes, RecordRules, Rows
from reput.store_format.log.walk import Checks, Read, Step, Walk
from reput.store_format.message.message import Message, encode_properties, parse_properties

# ---
# Appends a record of a log once more, in another place, as a broker's services do it.
#
# What belongs to the message stays: body, flags, bornTimestamp, hosts, reconsumeTimes. queueOffset,
# physical offset and storeTimestamp are new.

# Bits of a sysFlag that the encoder sets by itself, from the transaction type and the hosts.
_OWN_BITS = SYS_TRANSACTION_MASK | SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6
_CRC = "__CRC32#"


def properties_of(writer: CommitLogWriter, record: Record) -> dict[str, str]:
    """A record's properties as its broker reads them, without a CRC that the append makes anew."""
    properties = parse_properties(record.properties, writer.profile.split_properties)
    if writer.encoder.adds_crc:
        properties.pop(_CRC, None)
    return properties


def text_of(writer: CommitLogWriter, properties: Mapping[str, str]) -> bytes:
    """The text of properties that a broker has read (messageProperties2String). Raises Refused."""
    rules = writer.profile
    return encode_properties(properties, rules.property_map_capacity, rules.property_text_ends)


def put_again(
    writer: CommitLogWriter, record: Record, topic: str, queue_id: int, properties: bytes,
    transaction: int, prepared_offset: int = 0,
) -> AppendResult:  # fmt: skip
    """Append the record's message to a topic and queue, without waiting for the disk.

    record: with its body. properties: their text, written unchanged. transaction:
    SYS_TRANSACTION_*. Raises Refused, WriterFailed.
    """
    assert record.body is not None, "a record is put again with its body"
    message = Message(
        topic=topic,
        body=record.body,
        queue_id=queue_id,
        properties=properties,
        flag=record.flag,
        transaction=transaction,
        sys_flag=record.sys_flag & ~_OWN_BITS,
        prepared_offset=prepared_offset,
        wait=False,
        born_timestamp=record.born_timestamp,
        reconsume_times=record.reconsume_times,
    )
    return writer.put(writer.encoder.draft(message, record.born_host, record.store_host))


_WINDOW_BYTES = 8 << 20
_CRC_NAME = b"__CRC32#\x01"


class CopyChoice(NamedTuple):
    """Which messages to copy: those of one topic ('': all), stored in [since, until), in ms."""

    topic: str = ""
    since: int = -(1 << 63)
    until: int = (1 << 63) - 1


class SourceSegment(NamedTuple):
    """One segment of the log that is copied from; `read` takes physical offsets."""

    start: int
    end: int
    read: Read


class Copied(NamedTuple):
    """How many messages were read and copied, and the source's first fault, if it has one."""

    seen: int
    copied: int
    fault: Fault
    stopped_at: int


def copy_messages(
    writer: CommitLogWriter, segments: list[SourceSegment], rules: RecordRules,
    wanted: CopyChoice, skip: int = 0, done: Callable[[int], None] | None = None,
) -> Copied:  # fmt: skip
    """Append the wanted messages, in the log's order, each to its topic and queue.

    Body, properties, flags, hosts and bornTimestamp are kept; queueOffset, physical offset and
    storeTimestamp are new. Stops at the source's first fault, and returns it. skip: how many of the
    first wanted messages to leave out. done: called with 1 after each append.
    """
    seen = copied = 0
    fault, at = Fault.NONE, segments[0].start if segments else 0
    raw = np.frombuffer(wanted.topic.encode() or b"\0", np.uint8)
    for segment in segments:
        at = segment.start
        buffer = np.empty(min(_WINDOW_BYTES, segment.end - segment.start), np.uint8)
        walk = Walk(segment.read, segment.end, rules, Checks(body=True), buffer)
        for step in walk.steps(at, segment.end):
            seen += len(step.rows)
            mask = _wanted(step.window, step.rows, raw, wanted.since, wanted.until)
            for number in np.flatnonzero(mask).tolist():
                if skip > 0:
                    skip -= 1
                    continue
                record = record_of(step, number, rules)
                body = _body(segment, step, number, record)
                append_stored(writer, record._replace(body=body))
                copied += 1
                if done is not None:
                    done(1)
            at, fault = step.next, step.fault
        if fault != Fault.BLANK:
            break
    writer.wait_durable(writer.end())
    return Copied(seen, copied, fault, at)


def _body(segment: SourceSegment, step: Step, number: int, record: Record) -> bytes:
    """A record's body, read from the segment if the walk has left it out."""
    row = step.rows[number]
    if row["bodyElided"]:
        return read_body(segment.read, record)
    at = int(row["bodyAt"])
    return step.window[at : at + record.body_length].tobytes()


@allocating
def _wanted(buf: Bytes, rows: Rows, topic: Bytes, since: int, until: int) -> npt.NDArray[np.bool_]:
    """Which rows were stored in [since, until) and have the topic; a NUL stands for all topics."""
    mask = np.zeros(len(rows), np.bool_)
    for i in range(len(rows)):
        row = rows[i]
        if not since <= row.storeTimestamp < until:
            continue
        same = row.topicLength == len(topic)
        if same:
            for k in range(len(topic)):
                if buf[row.topicAt + k] != topic[k]:
                    same = False
                    break
        mask[i] = same or topic[0] == 0
    return mask


def append_stored(writer: CommitLogWriter, record: Record) -> None:
    """Append a message that was read from a log. Raises Refused, WriterFailed."""
    properties = record.properties
    if properties[-CRC_PROPERTY_BYTES:].startswith(_CRC_NAME):
        properties = properties[:-CRC_PROPERTY_BYTES]  # the CRC covers the old offsets
    put = put_again(
        writer, record, record.topic, record.queue_id, properties, record.transaction,
        record.prepared_offset,
    )  # fmt: skip
    if writer.placed is not None:
        writer.placed(record.topic, record.queue_id, record.queue_offset, put.queue_offset)


# ---
# Reads a record back with its body, to be put again.


def stored_at(log: LogReader, place: int) -> Record:
    """The record at a physical offset with its body. Raises NoRecord, NotInLog."""
    record = log.record_at(place)
    return record._replace(body=log.body(record))
