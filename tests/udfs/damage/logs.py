"""Damaged logs in memory, as the tasks that look into damage are given them."""

from reput.store_format.files.protocol import FileState
from reput.store_format.log.segments import Segment
from tests.damaged import Damaged
from tests.memory_storage import MemoryStorage


def stored(log: Damaged) -> tuple[MemoryStorage, tuple[Segment, ...]]:
    files = {f"log/{start}": bytes(raw) for start, raw in log.segments.items()}
    segments = (Segment(path, int(path[4:]), FileState(len(raw), 0, 0))
                for path, raw in files.items())  # fmt: skip
    return MemoryStorage(files), tuple(segments)
