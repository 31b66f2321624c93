"""Message ids taken apart: the broker's (MessageDecoder) and the client's (MessageClientIDSetter).

Both have 16 bytes, or 28 with an IPv6 address, in hexadecimal digits. An id does not tell its kind.
"""

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from reput.store_format.faults import StoreError
from reput.store_format.layouts import IPV4_HOST, IPV6_HOST
from reput.store_format.message.message import host_text

_OFFSET_BYTES = 8
_LENGTHS = (IPV4_HOST + _OFFSET_BYTES, IPV6_HOST + _OFFSET_BYTES)
_AFTER_ADDRESS = 12  # process 2, class loader 4, milliseconds 4, counter 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CALENDAR = 146_097 * 86_400_000  # milliseconds: after 400 years the calendar begins again


class BadMessageId(StoreError):
    """A text that is no message id."""


class OffsetId(NamedTuple):
    """A broker's id: where the message is."""

    store_host: bytes  # as in the record
    physical_offset: int

    def __str__(self) -> str:
        return f"broker {host_text(self.store_host)}, physical offset {self.physical_offset}"


class ClientId(NamedTuple):
    """A client's id (UNIQ_KEY): who made it, and when."""

    address: str
    process: int  # the lowest 16 bits of its id
    loader_hash: int
    milliseconds: int  # since the month began in the client's time zone
    counter: int

    def __str__(self) -> str:
        return (
            f"client {self.address}, process {self.process}, class loader {self.loader_hash:08X}, "
            f"{self.milliseconds} ms after its month began, counter {self.counter}"
        )

    def made_at(self, store_timestamp: int) -> int:
        """When the id was made, milliseconds since 1970, if the client's month began with UTC's.

        store_timestamp: the message's, from which year and month are taken: the id has neither.
        """
        # a damaged time may be of any year, and datetime ends with year 9999
        whole, rest = divmod(store_timestamp, _CALENDAR)
        stored = _EPOCH + timedelta(milliseconds=rest)
        this = stored.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        before = (this - timedelta(days=1)).replace(day=1)
        times = [
            whole * _CALENDAR + (month - _EPOCH) // timedelta(milliseconds=1) + self.milliseconds
            for month in (this, before)
        ]
        return min(times, key=lambda time: abs(time - store_timestamp))


def parse_message_id(text: str) -> tuple[OffsetId, ClientId]:
    """The parts of an id, read as a broker's and as a client's. Raises BadMessageId."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) not in _LENGTHS or not text.isalnum():
        raise BadMessageId(f"{text[:60]!r} is no message id: 32 or 56 hexadecimal digits")
    place = int.from_bytes(raw[-_OFFSET_BYTES:], "big", signed=True)
    address, rest = raw[:-_AFTER_ADDRESS], raw[-_AFTER_ADDRESS:]
    client = ClientId(
        str(ipaddress.ip_address(address)),
        int.from_bytes(rest[:2], "big"),
        int.from_bytes(rest[2:6], "big"),
        int.from_bytes(rest[6:10], "big"),
        int.from_bytes(rest[10:], "big"),
    )
    return OffsetId(raw[:-_OFFSET_BYTES], place), client
