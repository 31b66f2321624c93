"""How far a broker has come with its services, by the small files in which it notes that."""

import numpy as np

from reput.store_format.discover.config import config_table, consumer_offsets
from reput.store_format.fate.delays import Read
from reput.store_format.fate.timer_units import Places, waiting_units
from reput.store_format.files.protocol import InputStorage, read_head
from reput.store_format.layouts import TIMER_CHECK
from reput.store_format.message.message import HALF_TOPIC
from reput.store_format.names import ABORT, CONFIG
from reput.store_format.notes import Notes

_CHECKER = "CID_RMQ_SYS_TRANS"  # MixAll.CID_SYS_RMQ_TRANS, the group that checks


def read_progress(storage: InputStorage, store: str, notes: Notes) -> Read:
    """How far the broker has delivered. What cannot be read is noted, and counts as missing."""
    table = config_table(storage, store, "delayOffset.json", "offsetTable", notes)
    levels = None
    if table is not None:
        levels = {
            int(level): offset
            for level, offset in table.items()
            if level.isdecimal() and isinstance(offset, int)
        }
    check = read_head(storage, f"{store}/{CONFIG}/timercheck", TIMER_CHECK.itemsize)
    position, read = None, 0
    if check is not None and len(check) == TIMER_CHECK.itemsize:
        fields = np.frombuffer(check, TIMER_CHECK)[0]
        position, read = int(fields["lastTimerQueueOffset"]), int(fields["lastReadTimeMs"])
    stopped = read_head(storage, f"{store}/{ABORT}", 0) is None
    return Read(levels, position, read, stopped, _InWheel(storage, store, read))


class _InWheel:
    """Whether a message waits in the timer wheel; timerlog is read at the first call."""

    def __init__(self, storage: InputStorage, store: str, read_time: int) -> None:
        self._storage, self._store, self._read_time = storage, store, read_time
        self._places: Places | None = None

    def __call__(self, place: int) -> bool:
        if self._places is None:
            self._places = waiting_units(self._storage, self._store, self._read_time)
        at = int(np.searchsorted(self._places, place))
        return at < len(self._places) and int(self._places[at]) == place


def half_position(storage: InputStorage, store: str, notes: Notes) -> int:
    """The queue offset up to which the broker has checked half messages; 0 where none is named."""
    return consumer_offsets(storage, store, notes).get((_CHECKER, HALF_TOPIC), {}).get(0, 0)
