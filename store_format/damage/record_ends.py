"""Has the record right before damage lost its own end? Its lengths and its body do not tell.

A page that was never written, or was overwritten, seldom ends where a record does: the last
properties of the record before it are gone then, and with them a `__CRC32#`.
"""

from typing import Any

from reput.store_format.faults import Fault
from reput.store_format.layouts import CRC_PROPERTY_BYTES
from reput.store_format.log.properties import CRC_PROPERTY_NAME
from reput.store_format.log.records import Bytes, Rows

_SEPARATORS = b"\x01\x02"
_CONTROL = bytes(range(0x20))


def lost_its_end(window: Bytes, rows: Rows, ends_log: bool) -> Fault:
    """The fault of the last record, after which damage begins; NONE where the record is whole.

    ends_log: only zeros follow, as after every log's end. A torn record ends in zeros itself.
    PROPERTY_CRC: the record before has a `__CRC32#`, and the last record has none.
    TEXT: the properties hold a control character, or bytes that are no UTF-8.
    """
    text = _properties(window, rows[-1])
    if ends_log:
        return Fault.TEXT if text.endswith(b"\0") else Fault.NONE
    if len(rows) > 1 and not _is_sealed(text) and _is_sealed(_properties(window, rows[-2])):
        return Fault.PROPERTY_CRC
    try:
        text.decode()
    except UnicodeDecodeError:
        return Fault.TEXT
    plain = text.translate(None, _SEPARATORS)
    return Fault.TEXT if len(plain.translate(None, _CONTROL)) < len(plain) else Fault.NONE


def _properties(window: Bytes, row: Any) -> bytes:
    at = int(row["propertiesAt"])
    return window[at : at + int(row["propertiesLength"])].tobytes()


def _is_sealed(properties: bytes) -> bool:
    return CRC_PROPERTY_NAME in properties[-CRC_PROPERTY_BYTES:]
