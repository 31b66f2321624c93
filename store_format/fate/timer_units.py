"""The units of timerlog: which timers stand in the wheel, and since when."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import numpy.typing as npt

from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.layouts import TIMER_UNIT
from reput.store_format.names import parse_segment_name

TIMER_LOG = "timerlog"
_READ_UNITS = 1 << 16
_UNIT = TIMER_UNIT.itemsize

Units = npt.NDArray[np.void]
Places = npt.NDArray[np.int64]


def write_times(storage: InputStorage, store: str, wanted: Places) -> dict[int, int]:
    """When messages were put into the wheel (milliseconds), by their physical offsets.

    wanted: physical offsets. Those without a unit in timerlog are left out.
    """
    found: dict[int, int] = {}
    if len(wanted):
        for units in _units(storage, store):
            mine = units[np.isin(units["physicalOffset"], wanted)]
            offsets, times = mine["physicalOffset"].tolist(), mine["writeTime"].tolist()
            found |= dict(zip(offsets, times, strict=True))
    return found


def waiting_units(storage: InputStorage, store: str, read_time: int) -> Places:
    """The physical offsets, sorted, of messages in slots that are still to be read.

    read_time: lastReadTimeMs. 8 bytes a unit are held.
    """
    found = [np.zeros(0, np.int64)]
    for units in _units(storage, store):
        late = units["writeTime"] + units["delay"] >= read_time
        found.append(units["physicalOffset"][late].astype(np.int64))
    return np.unique(np.concatenate(found))


def timer_log_names(storage: InputStorage, store: str) -> list[tuple[str, int]]:
    """The files of timerlog, with their lengths in bytes; other names are left out."""
    found = []
    for name, state in listed(storage, f"{store}/{TIMER_LOG}"):
        try:
            parse_segment_name(name)
        except ValueError:
            continue
        if state is not None:
            found.append((name, state.size))
    return sorted(found)


def _units(storage: InputStorage, store: str) -> Iterator[Units]:
    """The units of all files, many at a time."""
    for name, length in timer_log_names(storage, store):
        with closing(storage.open(f"{store}/{TIMER_LOG}/{name}")) as reader:
            for start in range(0, length // _UNIT, _READ_UNITS):
                raw = np.zeros(min(_READ_UNITS, length // _UNIT - start) * _UNIT, np.uint8)
                reader.read_into(start * _UNIT, raw)
                units = raw.view(TIMER_UNIT)
                if not units["size"].any():
                    break  # the zeros after the last unit
                yield units[units["size"] == _UNIT]
