"""Index files as witnesses: a record or its entry is damaged where hash or second disagree."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from reput.store_format.damage.queue_ends import Losses
from reput.store_format.damage.queue_findings import Renumbering
from reput.store_format.faults import Fault
from reput.store_format.layouts import INDEX_MESSAGE
from reput.store_format.release.settings import settings_from
from reput.udfs.damage.witnesses import CompareIndex, SearchQueues, joined
from reput.udfs.rebuild.index import IndexFiles
from reput.udfs.staging import HASHES, MESSAGES, RUN, Staging
from tests.logs.index_bytes import pack_index
from tests.memory_storage import MemoryStorage
from tests.store_format.damage.staged import SIZE, staged
from tests.udfs.tables import rows_of

BEGIN, SLOTS, ROOM = 1_700_000_000_000, 3, 40
KEYS, STORED = int(Fault.KEYS), int(Fault.STORED)
SETTINGS = settings_from({"maxHashSlotNum": str(SLOTS), "maxIndexNum": str(ROOM)})
Entry = tuple[int, int, int, int]
# the log: place, seconds after BEGIN, hashes of its keys; message n has 10 n and 10 n + 1
LOG = [(100 * n, n, [10 * n, 10 * n + 1]) for n in range(1, 17)]
RIGHT = [(10 * n, 100 * n, n, 0) for n in range(1, 17)]


def found(
    *files: list[Entry], cut: int = 0, room: int = ROOM, number: int = 0, count: int | None = None
) -> list[tuple[int, int]]:
    """(place, fault) of what the newest file, or file `number` before it, contradicts."""
    storage = MemoryStorage()
    for at, entries in enumerate(files):
        counted = len(entries) + 1 if count is None else count
        raw = pack_index((BEGIN, BEGIN, 0, 0, 0, counted), [0] * SLOTS, entries, room)
        storage.files[f"store/index/2026112107533980{at}"] = raw
    staging, ends, firsts = MemoryStorage(), list[int](), list[int]()
    runs = (LOG[:cut], LOG[cut:]) if cut else (LOG,)
    for at, log in enumerate(runs):
        hashes = [h if i else ~h for *_, keys in log for i, h in enumerate(keys)]
        staging.files[f"s/{at}{HASHES}"] = np.array(hashes, np.int32).tobytes()
        # an index file's first message was stored at its header's beginTimestamp
        places = [(place, BEGIN if place == 100 else BEGIN + 1000 * seconds + 999)
                  for place, seconds, _ in log]  # fmt: skip
        staging.files[f"s/{at}{MESSAGES}"] = np.array(places, INDEX_MESSAGE).tobytes()
        ends.append(len(hashes) + (ends[-1] if ends else 0))
        firsts.append(log[0][0])
    names = tuple(map(str, range(len(runs))))
    puts = IndexFiles(Staging(staging, "s"), names, tuple(ends), SLOTS, ROOM, 1, 0, 1)
    task: Any = CompareIndex(storage, "store", SETTINGS, puts, tuple(firsts))
    return [(row["place"], row["fault"]) for row in rows_of(task, number)]


def with_entry(number: int, entry: Entry) -> list[Entry]:
    return [*RIGHT[: number - 1], entry, *RIGHT[number:]]


@pytest.mark.parametrize(("number", "entry", "contradicted"), [
    (3, (31, 300, 3, 0), []),  # its other key
    (3, (32, 300, 3, 0), [(300, KEYS)]), (3, (30, 300, 4, 0), [(300, STORED)]),
    (3, (32, 300, 4, 0), [(300, KEYS)]),
    (1, (10, 100, 7, 0), []),  # the first one's second counts from the file before
    (1, (12, 100, 1, 0), [(100, KEYS)]),
    (3, (32, 301, 3, 0), []),  # no record is there
    (16, (1, 1 << 60, 3, 0), []), (16, (1, -1, 3, 0), []),
])  # fmt: skip
@pytest.mark.parametrize("cut", [0, 3, 8])
def test_an_entry_contradicts_a_record_without_its_hash_or_second(
    cut: int, number: int, entry: Entry, contradicted: list[tuple[int, int]]
) -> None:
    assert found(with_entry(number, entry), cut=cut) == contradicted


@pytest.mark.parametrize(("wrong", "witness"), [(10, True), (11, False)])
def test_a_file_that_disagrees_with_many_of_its_entries_is_no_witness(wrong, witness) -> None:
    """8, and one more for every 8 entries, of which there are 16."""
    entries = [(5, *entry[1:]) for entry in RIGHT[:wrong]] + RIGHT[wrong:]
    places = [(100 * n, KEYS) for n in range(1, wrong + 1)]
    assert found(entries) == (places if witness else [])


@pytest.mark.parametrize("count", [-1, 0, 1, 3, 4, ROOM, 1 << 30])
def test_no_more_entries_are_read_than_are_counted_or_there(count: int) -> None:
    asked = found(with_entry(3, (32, 300, 3, 0)), count=count)
    assert asked == ([(300, KEYS)] if count > 3 else [])


# --- The findings of tasks become one: the first are listed.
@pytest.mark.parametrize(("most", "unlisted"), [(1, 1), (2, 0)])
def test_records_with_another_queue_offset_are_listed_and_counted_too(most, unlisted) -> None:
    """Those that follow contradict the first one, which counts as the one before them."""
    runs = [[(9, at), *((5 + n, at + SIZE * (1 + n)) for n in range(4))] for at in (5000, 1000)]
    files, rows = staged(*runs)
    made = [{**row, "queue_id": number} for number, row in enumerate(rows)]
    given = pa.Table.from_pylist(made, RUN).to_batches()
    (row,) = [row for batch in SearchQueues(files, Losses((), True), most)(iter(given))
              for row in batch.to_pylist()]  # fmt: skip
    wanted = [Renumbering("T", n, 4, 1, at, 9, True) for n, at in ((1, 1000), (0, 5000))]
    assert joined([row]).of(Renumbering) == wanted[:most]
    assert (row["gaps_unlisted"], row["positions_unlisted"]) == (unlisted, 0)
