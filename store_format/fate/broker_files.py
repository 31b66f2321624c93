"""How far a broker has gone, by the small files in which it keeps that."""

import numpy as np

from reput.store_format.fate.delays import Read
from reput.store_format.layouts import TIMER_CHECK
from reput.store_format.message.message import HALF_TOPIC
from reput.store_format.names import ABORT, CONFIG
from reput.store_format.query.config import config_table, consumer_offsets
from reput.store_format.query.told import Told
from reput.store_format.storage.protocol import Storage

_CHECKER = "CID_RMQ_SYS_TRANS"  # MixAll.CID_SYS_RMQ_TRANS, the group that checks


def read_progress(storage: Storage, store: str, told: Told) -> Read:
    """How far it has delivered. What cannot be read is told, and counts as missing."""
    table = config_table(storage, store, "delayOffset.json", "offsetTable", told)
    levels = None
    if table is not None:
        levels = {
            int(level): offset
            for level, offset in table.items()
            if level.isdecimal() and isinstance(offset, int)
        }
    check = _head(storage, f"{store}/{CONFIG}/timercheck", TIMER_CHECK.itemsize)
    position, read = None, 0
    if check is not None and len(check) == TIMER_CHECK.itemsize:
        fields = np.frombuffer(check, TIMER_CHECK)[0]
        position, read = int(fields["lastTimerQueueOffset"]), int(fields["lastReadTimeMs"])
    return Read(levels, position, read, _head(storage, f"{store}/{ABORT}", 0) is None)


def half_position(storage: Storage, store: str, told: Told) -> int:
    """The queue offset up to which the broker has checked half messages; 0 where it is not told."""
    return consumer_offsets(storage, store, told).get((_CHECKER, HALF_TOPIC), {}).get(0, 0)


def _head(storage: Storage, path: str, most: int) -> bytes | None:
    """A file's first bytes; None where there is no such file."""
    try:
        reader = storage.open(path)
        length = reader.state.size
    except (FileNotFoundError, NotADirectoryError):
        return None
    raw = np.empty(min(length, most), np.uint8)
    try:
        reader.read_into(0, raw)
    finally:
        reader.close()
    return raw.tobytes()
