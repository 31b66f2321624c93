"""A small log's bytes, and the RECORD_ROWs of its records, as a walk reads them."""

from typing import Any

import numpy as np

from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.log.records import RECORD_ROW, Bytes, walk
from reput.store_format.log.walk import Read
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import Settings
from tests.logs.encoder import Message, build_log
from tests.logs.fields import BATCH_TOPIC

SCAN_RULES = scan_rules(profile("5.3.3"), Settings(), (BATCH_TOPIC,))
RULES = SCAN_RULES.records


def reader(raw: Bytes, base: int = 0) -> Read:
    """Reads a segment that begins at the physical offset `base`."""

    def read(at: int, buffer: Bytes) -> None:
        buffer[:] = raw[at - base : at - base + len(buffer)]

    return read


def walked(*messages: Message, segment: int = 1 << 14, base: int = 0) -> tuple[Bytes, Any]:
    """(the only segment, a row of each record). The bytes may be written to."""
    raw = np.frombuffer(bytearray(build_log(messages, segment, base)[base]), np.uint8)
    rows = np.zeros(len(messages), RECORD_ROW)
    sequence = np.full(4, -1, np.int64)
    count, *_ = walk(raw, 0, segment, segment, segment, base, RULES, rows, sequence)
    assert count == len(messages)
    return raw, rows
