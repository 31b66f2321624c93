"""Reads items of many runs from the splits' entries files, with few reads."""

from typing import Any

import numpy as np
import numpy.typing as npt

from reput.udfs.staged_runs import StagedRuns
from reput.udfs.staging import ENTRIES

Int64s = npt.NDArray[np.int64]

_GAP_BYTES = 1 << 10  # up to so many unwanted bytes are read to save a read


def read_runs(files: StagedRuns, split: Int64s, at: Int64s, count: Int64s, size: int) -> Any:
    """The items of runs, one run after the other, as uint8 rows of `size` bytes.

    For each run: split; at: where its items begin in the split's file; count: of items, at least 1.
    Both the bytes read and the rows are held in memory.
    """
    order = np.lexsort((at, split))
    ends = at + count * size
    apart = np.ones(len(order), np.bool_)
    before, after = order[:-1], order[1:]
    apart[1:] = (split[before] != split[after]) | (at[after] - ends[before] > _GAP_BYTES)
    reads = np.flatnonzero(apart)
    lows = at[order[reads]]
    lengths = ends[order[np.append(reads[1:], len(order)) - 1]] - lows
    places = np.cumsum(lengths) - lengths
    buffer = np.empty(int(lengths.sum()), np.uint8)
    _read(files, split[order[reads]], lows, lengths, places, buffer)
    where = np.empty(len(order), np.int64)  # of each run's first item in the buffer
    read = np.cumsum(apart) - 1
    where[order] = places[read] + at[order] - lows[read]
    number = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    item_at = np.repeat(where, count) + number * size
    windows = np.lib.stride_tricks.sliding_window_view(buffer, size)
    return np.ascontiguousarray(windows[item_at])


def _read(
    files: StagedRuns, splits: Int64s, lows: Int64s, lengths: Int64s, places: Int64s,
    buffer: npt.NDArray[np.uint8],
) -> None:  # fmt: skip
    """Read ranges of the splits' entries files, sorted by split, each to its place."""
    opened, reader = -1, None
    for split, low, length, place in zip(
        splits.tolist(), lows.tolist(), lengths.tolist(), places.tolist(), strict=True
    ):
        if split != opened:
            if reader is not None:
                reader.close()
            path = files.staging.path(files.runs[split] + ENTRIES)
            opened, reader = split, files.staging.storage.open(path)
        assert reader is not None
        reader.read_into(low, buffer[place : place + length])
    if reader is not None:
        reader.close()
