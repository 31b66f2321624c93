"""Message ids: the broker's and the client's taken apart, and UNIQ_KEY as the client makes it."""

import ipaddress
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple

from reput.store_format.faults import StoreError
from reput.store_format.layouts import IPV4_HOST, IPV6_HOST
from reput.store_format.message.message import encode_host, host_text

# ---
# Message ids taken apart: the broker's (MessageDecoder) and the client's (MessageClientIDSetter).
#
# Both have 16 bytes, or 28 with an IPv6 address, in hexadecimal digits. An id does not tell its
# kind.

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


# ---
# UNIQ_KEY as the client makes it (MessageClientIDSetter).

Clock = Callable[[], int]  # milliseconds since 1970


class UniqueIds:
    """Makes UNIQ_KEYs: address, process, class loader, time since the month began, a counter.

    The month is UTC's (a client takes that of its time zone). One maker's ids are unique as long as
    it makes at most 65,536 in a millisecond.
    """

    def __init__(self, clock: Clock, host: str, process_id: int, loader_hash: int) -> None:
        fixed = encode_host(host)[:-4] + (process_id & 0xFFFF).to_bytes(2, "big")
        self.fixed = fixed + (loader_hash & 0xFFFFFFFF).to_bytes(4, "big")
        self._prefix = self.fixed.hex().upper()
        self._clock = clock
        self._numbers = count()
        self._month_start = self._month_end = 0
        self._now, self._start = -1, ""  # an id's time and its text without the number

    def next(self) -> str:
        """A new id: 32 hexadecimal digits (56 with an IPv6 host)."""
        now = self._clock()
        if now != self._now:
            self._start = f"{self._prefix}{self._time_part(now) & 0xFFFFFFFF:08X}"
            self._now = now
        return f"{self._start}{next(self._numbers) & 0xFFFF:04X}"

    def take(self, many: int) -> int:
        """Reserve numbers for `many` ids made elsewhere; returns the first."""
        first = next(self._numbers)
        self._numbers = count(first + many)
        return first

    def time_part(self) -> int:
        """Milliseconds since the month began."""
        return self._time_part(self._clock())

    def _time_part(self, now: int) -> int:
        if not self._month_start <= now < self._month_end:
            self._set_month(now)
        return now - self._month_start

    def _set_month(self, now: int) -> None:
        first = datetime.fromtimestamp(now / 1000, UTC).replace(
            day=1, hour=0, minute=0, second=0, microsecond=0
        )
        year, month = divmod(first.year * 12 + first.month, 12)
        following = first.replace(year=year, month=month + 1)
        self._month_start = int(first.timestamp() * 1000)
        self._month_end = int(following.timestamp() * 1000)
