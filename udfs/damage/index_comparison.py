"""The store's own IndexFiles as witnesses: they were written from the sound records.

An entry holds a record's physical offset, the hash of its topic with one of its keys, and the
second at which it was stored. If the record now has no such key or another time, then either the
record or the entry is damaged.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reput.store_format.damage.contradictions import mark_contradictions
from reput.store_format.derived.index_reader import BadIndex, IndexFileReader, IndexReader
from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import INDEX_ENTRY, INDEX_ENTRY_BYTES
from reput.store_format.release.settings import Settings
from reput.udfs.rebuild.index import IndexFiles, Puts
from reput.udfs.staging import ids_of, in_batches, schema

_ENTRIES_A_READ = 1 << 16
_MOST_UNLIKE, _ENTRIES_AN_UNLIKE = 8, 8  # in a file: 8, and one more for every 8 entries
_MOST_LISTED = 1000  # of a file

# One row for each record that an index file contradicts: its physical offset, and the Fault.
CONTRADICTED = schema(place=pa.int64(), fault=pa.int32())

Entries = npt.NDArray[Any]  # INDEX_ENTRY


@dataclass(frozen=True)
class CompareIndex:
    """Compares the log's puts with the index files in `id` (0: the newest); CONTRADICTED rows."""

    storage: InputStorage  # that the store is on
    store: str
    settings: Settings
    puts: IndexFiles
    firsts: tuple[int, ...]  # for each run of `puts` the place of its first record

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = IndexReader(self.storage, self.store, self.settings)
        for number in ids_of(batches):
            yield from in_batches(self._ask(files, number), CONTRADICTED)

    def _ask(self, files: IndexReader, number: int) -> Iterator[dict[str, int]]:
        try:
            file = files.open(number)
        except BadIndex:
            return  # its size is not that of the settings: it is no witness
        with file:
            found, looked = self._compare(file)
        # A file that disagrees more often belongs to another log, or was written by other settings.
        if len(found) <= _MOST_UNLIKE + looked // _ENTRIES_AN_UNLIKE:
            for place in sorted(found)[:_MOST_LISTED]:
                yield {"place": place, "fault": found[place]}

    def _compare(self, file: IndexFileReader) -> tuple[dict[int, int], int]:
        """({place: Fault}, how many entries point to a record of the log that has keys)."""
        found: dict[int, int] = {}
        looked, number, mine = 0, 1, None
        for entries in _blocks(file):
            first, number = number, number + len(entries)
            order = np.argsort(entries["physicalOffset"], kind="stable")
            entries, numbers = entries[order], np.arange(first, number)[order]
            places = entries["physicalOffset"].astype(np.int64)
            mine = mine or _Pieces(self._puts_from(int(places[0])))
            while mine.puts is not None:
                low, high = mine.bounds()
                some = slice(*np.searchsorted(places, [low, high + 1]))
                if some.start < some.stop:
                    faults = np.zeros(some.stop - some.start, np.uint8)
                    looked += mark_contradictions(
                        mine.puts, entries[some], numbers[some], file.header.begin_timestamp, faults
                    )
                    at = np.flatnonzero(faults)
                    found.update(zip(places[some][at].tolist(), faults[at].tolist(), strict=True))
                if high >= places[-1]:
                    break
                mine.go_on()
        return found, looked

    def _puts_from(self, place: int) -> Iterator[Puts]:
        """The log's puts, from the run that holds `place` on; a bounded number at a time."""
        run = max(int(np.searchsorted(self.firsts, place, side="right")) - 1, 0)
        return self.puts.puts(self.puts.ends[run - 1] if run else 0, self.puts.total)


class _Pieces:
    """Pieces of the log's puts. All puts of a record are in one piece."""

    def __init__(self, puts: Iterator[Puts]) -> None:
        self._more = puts
        self._rest: Puts | None = None
        self.puts: Puts | None = None
        self.go_on()

    def go_on(self) -> None:
        """Go to the next piece; after the last one, `puts` is None."""
        puts, more = self._rest, next(self._more, None)
        if more is None:
            self.puts, self._rest = puts, None
            return
        puts = more if puts is None else np.concatenate([puts, more])
        last = int(np.searchsorted(puts["physicalOffset"], puts["physicalOffset"][-1]))
        self.puts, self._rest = puts[:last], puts[last:]
        if not last:
            self.go_on()

    def bounds(self) -> tuple[int, int]:
        assert self.puts is not None
        places = self.puts["physicalOffset"]
        return int(places[0]), int(places[-1])


def _blocks(file: IndexFileReader) -> Iterator[Entries]:
    """The entries of a file, a bounded number at a time."""
    count = max(min(file.header.entries, file.most - 1), 0)
    for first in range(1, count + 1, _ENTRIES_A_READ):
        raw = np.empty(min(_ENTRIES_A_READ, count + 1 - first) * INDEX_ENTRY_BYTES, np.uint8)
        file.read_entries(first, raw)
        yield raw.view(INDEX_ENTRY).astype(INDEX_ENTRY.newbyteorder("="))
