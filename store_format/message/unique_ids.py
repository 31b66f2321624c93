"""UNIQ_KEY as the client makes it (MessageClientIDSetter)."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from reput.store_format.message.message import encode_host

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
