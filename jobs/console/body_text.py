"""Bodies on their way to whoever asked: decompressed, and inner batches apart."""

import zlib
from typing import Any

from reput.jobs.console.store_questions import remark
from reput.jobs.opening.open_store import BODY_MOST
from reput.store_format.message.bodies import (
    BodyError,
    InnerMessage,
    decompressed,
    inner_messages,
    is_batch,
)
from reput.store_format.message.property_text import parse_properties
from reput.store_format.query.stored_message import StoredMessage


def body_of(message: StoredMessage, decompress: bool) -> bytes:
    """The body, decompressed if that is wanted. Where it cannot be it is given as it stands, and
    why is said on standard error, as is that its CRC is wrong.
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
    """The messages in the decompressed body of an inner batch; none where it is no batch, and
    those before the damage where it is damaged, which is said on standard error.
    """
    found: list[InnerMessage] = []
    if is_batch(message.record.sys_flag):
        try:
            found.extend(inner_messages(body))
        except BodyError as error:
            remark(f"physical offset {message.physical_offset}: {error}")
    return found


def inner_row(message: StoredMessage, number: int, inner: InnerMessage) -> dict[str, Any]:
    """All but the body of an inner message, of which there are `number` before it. Whatever else
    it has is the record's (MessageDecoder.decodeMessage).
    """
    return {
        "queueOffset": message.queue_offset + number,
        "flag": inner.flag,
        "properties": parse_properties(inner.properties),  # batches are younger than the old split
    }
