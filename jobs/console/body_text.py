"""Decompresses bodies for output, and takes inner batches apart."""

import zlib
from typing import Any

from reput.jobs.console.voice import remark
from reput.jobs.opening.questions import BODY_MOST
from reput.store_format.message.bodies import (
    BodyError,
    InnerMessage,
    decompressed,
    inner_messages,
    is_batch,
)
from reput.store_format.message.message import parse_properties
from reput.store_format.query.reader import StoredMessage


def body_of(message: StoredMessage, decompress: bool) -> bytes:
    """The body, decompressed if `decompress`, or as stored if it cannot be decompressed.
    A line on standard error tells the reason, or that the body's CRC is wrong.
    """
    body, record = message.body(), message.record
    if body and zlib.crc32(body) & 0x7FFFFFFF != record.body_crc:
        remark(f"physical offset {record.physical_offset}: bodyCRC does not match the body")
    if not decompress:
        return body
    try:
        return decompressed(body, message.record.sys_flag, BODY_MOST)
    except BodyError as error:
        remark(f"physical offset {message.physical_offset}: {error}; it is shown as it stands")
        return body


def inner_of(message: StoredMessage, body: bytes) -> list[InnerMessage]:
    """The messages in an inner batch's decompressed body; empty if the message is no batch.
    Of a damaged body the messages before the damage, with a line on standard error.
    """
    found: list[InnerMessage] = []
    if is_batch(message.record.sys_flag):
        try:
            found.extend(inner_messages(body))
        except BodyError as error:
            remark(f"physical offset {message.physical_offset}: {error}")
    return found


def inner_row(message: StoredMessage, number: int, inner: InnerMessage) -> dict[str, Any]:
    """The fields of an inner message except its body. number: its place in the batch, from 0.
    Its other fields are those of the record (MessageDecoder.decodeMessage).
    """
    return {
        "queueOffset": message.queue_offset + number,
        "flag": inner.flag,
        "properties": parse_properties(inner.properties),  # batches came after the old split
    }
