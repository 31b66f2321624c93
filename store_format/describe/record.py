"""One checked record described for a reader: its fields, and on demand body and properties."""

from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.kernels.java_text import decode
from reput.store_format.layouts import (
    MAGIC_V2,
    PROPERTY_END,
    PROPERTY_NAME_END,
    RECORD_HEAD,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE,
    SYS_TRANSACTION_MASK,
    TIMESTAMP_BYTES,
)
from reput.store_format.log.records import born_host_bytes
from reput.store_format.message.message import host_text

Bytes = npt.NDArray[np.uint8]
Item = dict[str, Any]

TRANSACTIONS = {0: "none", 0x4: "prepared", 0x8: "commit", 0xC: "rollback"}
_NAME_END, _PAIR_END = bytes([PROPERTY_NAME_END]), bytes([PROPERTY_END])


def fields_at(buf: Bytes, layout: np.dtype[Any], at: int) -> Item:
    """The fields of a layout at buf[at:], by name, as Python values."""
    names = layout.names or ()
    return dict(zip(names, np.frombuffer(buf, layout, 1, at)[0].item(), strict=True))


def describe_record(buf: Bytes, row: Any, start: int, rules: ScanRules) -> Item:
    """The fields of the record of `row` (one RECORD_ROW) in buf.

    start: the segment's first physical offset; `at` is the record's place in the file. Timestamps
    in milliseconds; hosts as address:port.
    """
    at, place = int(row["at"]), int(row["physicalOffset"])
    topic_at = int(row["topicAt"])
    middle_at = int(row["bodyAt"]) - RECORD_MIDDLE.itemsize
    head, middle = fields_at(buf, RECORD_HEAD, at), fields_at(buf, RECORD_MIDDLE, middle_at)
    hosts = buf[at + RECORD_HEAD_BYTES : middle_at].tobytes()
    born = born_host_bytes(head["sysFlag"], rules.records)
    return {
        "kind": "record",
        "at": place - start,
        "physicalOffset": place,
        "size": head["totalSize"],
        "version": 2 if head["magic"] == MAGIC_V2 else 1,
        "topic": decode(buf[topic_at : topic_at + int(row["topicLength"])].tobytes()),
        "queueId": head["queueId"],
        "queueOffset": head["queueOffset"],
        "transaction": TRANSACTIONS[head["sysFlag"] & SYS_TRANSACTION_MASK],
        "storeTimestamp": int(row["storeTimestamp"]),
        "bornTimestamp": head["bornTimestamp"],
        "bodyLength": middle["bodyLength"],
        "bodyCRC": head["bodyCRC"],
        "propertiesLength": int(row["propertiesLength"]),
        "flag": head["flag"],
        "sysFlag": head["sysFlag"],
        "bornHost": host_text(hosts[:born]),
        "storeHost": host_text(hosts[born + TIMESTAMP_BYTES :]),
        "reconsumeTimes": middle["reconsumeTimes"],
        "preparedTransactionOffset": middle["preparedTransactionOffset"],
    }


def describe_body(piece: bytes, length: int) -> Item:
    """A body of `length` bytes that starts with `piece`: as text if it is UTF-8, else in hex."""
    cut: Item = {"bodyShown": len(piece)} if len(piece) < length else {}
    try:
        return {"body": piece.decode()} | cut
    except UnicodeDecodeError:
        return {"bodyHex": piece.hex()} | cut


def describe_properties(buf: Bytes, row: Any, split: bool) -> Item:
    """The properties that count, and the parts that do not. Of duplicates the last counts.

    split: as releases up to 4.9.0 read them (Profile.split_properties).
    """
    at = int(row["propertiesAt"])
    raw = buf[at : at + int(row["propertiesLength"])].tobytes()
    good: dict[str, str] = {}
    bad: list[str] = []
    for part in raw.split(_PAIR_END):
        text = part.rstrip(_NAME_END) if split else part
        name, middle, value = text.partition(_NAME_END)
        if middle and (_NAME_END not in value if split else name and value):
            good[decode(name)] = decode(value)
        elif part:
            bad.append(decode(part))
    return {"properties": good} | ({"notProperties": bad} if bad else {})
