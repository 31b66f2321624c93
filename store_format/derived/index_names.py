"""Names of index files: whose time they tell, and the order in which a broker made the files.

IndexService.retryGetAndCreateIndexFile names a file by the wall clock in the time zone of its JVM
(UtilAll.timeMillisToHumanString), and IndexService.load orders files by these names. So after a
broker has moved to the west, or summer time has ended, the names say another order than that in
which the files were made, and a file that is to be the last one must have a name that sorts last.
Headers say the true order, as each file begins where the one before it ended.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from reput.store_format.derived.index_header import Named
from reput.store_format.names import LAST_INDEX_TIME, index_name, is_index_name, parse_index_name

# Time zones differ from UTC by whole quarters of an hour, by 12 hours to the west, 14 to the east.
_QUARTER = 15 * 60_000
_WEST, _EAST = -12 * 3_600_000, 14 * 3_600_000
_PROMPT = 5_000  # a running broker opens a file that soon before or after its first message
_DAY = 86_400_000


def names_in_order(names: Sequence[str]) -> list[str]:
    """Names that ascend as the files do. names: of all files, in the order of the log.

    The last name stays, and each that is below the name after it. Others are of an older zone: they
    lose as many quarters of an hour as it takes.
    """
    wanted, taken = list(names), set(names)
    for n in reversed(range(len(names) - 1)):
        limit, local = parse_index_name(wanted[n + 1]), parse_index_name(names[n])
        if local < limit:
            continue
        local -= ((local - limit) // _QUARTER + 1) * _QUARTER
        while (name := index_name(local)) in taken and local > 0:
            local -= 1
        wanted[n] = name
        taken.add(name)
    return wanted


INDEX_NAMES = "index names"
BY_PROCESS = "the time zone of this process (--timezone NAME where the broker's is another)"


class NameZone(NamedTuple):
    """The time zone of a store's broker, in which its next index file is named."""

    said: str  # "America/New_York", "UTC-05:00"
    by: str  # what says so
    offset: Callable[[int], int]  # of a time in ms since 1970: how far local time is ahead of UTC

    @property
    def is_a_guess(self) -> bool:
        """Whether neither the user nor the store says the zone."""
        return self.by == BY_PROCESS

    def as_discovered(self) -> dict[str, dict[str, str]]:
        """The zone as one of the things that were discovered of a store, for a report."""
        return {INDEX_NAMES: {"value": self.said, "by": self.by}}

    def as_settings(self) -> dict[str, str]:
        """The settings by which a new store's index files are named in this zone."""
        return {} if self.is_a_guess else {"user.timezone": self.said}

    def local(self, timestamp: int) -> int:
        """A time as the milliseconds that a name tells (`names.index_name`), see there."""
        return timestamp + self.offset(min(max(timestamp, _DAY), LAST_INDEX_TIME - _DAY))


def name_zone(files: Sequence[Named], given: tzinfo | None, own: NameZone) -> NameZone:
    """The zone for new names in a store that has these index files, in the order of the log.

    given: what the user says (`Settings.time_zone`). Else the store's last name that shows a zone
    counts, as names of two zones are those of two eras; and else `own`, the zone of this process.
    """
    if given is not None:
        return NameZone(str(given), "as given", lambda at: _offset_in(given, at))
    shown = _last_shown(files)
    if shown is None:
        return own
    at, offset = shown
    # where this process's zone agrees, summer time begins and ends as it does here
    by_rule = own.offset if own.offset(at) == offset else lambda _: offset
    return NameZone(offset_text(offset), "as the store's index files show", by_rule)


def _last_shown(files: Sequence[Named]) -> tuple[int, int] | None:
    """(its first message's time, how far its name is ahead of UTC) of the last file that shows it.

    A file shows its zone if a running broker made it, for a message that had just come; the name of
    a file that a recovery filled, or that waited for its first key, tells any time after or before.
    """
    for name, head in reversed(files):
        if not head.entries or not is_index_name(name):
            continue
        ahead = parse_index_name(name) - head.begin_timestamp
        offset = (ahead + _QUARTER // 2) // _QUARTER * _QUARTER
        if abs(ahead - offset) <= _PROMPT and _WEST <= offset <= _EAST:
            return head.begin_timestamp, offset
    return None


def _offset_in(zone: tzinfo, at: int) -> int:
    ahead = datetime.fromtimestamp(at / 1000, UTC).astimezone(zone).utcoffset() or timedelta()
    return ahead // timedelta(milliseconds=1)


def offset_text(offset: int) -> str:
    """How far a zone is ahead of UTC, in milliseconds, as people write it: UTC-05:00."""
    hours, minutes = divmod(abs(offset) // 60_000, 60)
    return f"UTC{'-' if offset < 0 else '+'}{hours:02d}:{minutes:02d}"
