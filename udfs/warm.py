"""Loads the modules and compiled kernels that tasks need, before there is a task.

numba loads a kernel's machine code at the first call, so each kernel is called once with no rows.
`python -m reput.udfs.warm` only has them compiled.
"""

import numpy as np

from reput.store_format.derived.index_file import chain, fill_entries
from reput.store_format.dispatch.dispatch import unpacked
from reput.store_format.dispatch.runs import begin, group_by_queue, number_run
from reput.store_format.dispatch.scan import End, place_rules, scan, scan_rules
from reput.store_format.faults import Fault
from reput.store_format.layouts import INDEX_MESSAGE, QUEUE_ENTRY_BYTES, QUEUE_PUT
from reput.store_format.log.records import prefix_bytes, store_timestamp_at, topic_length_bytes
from reput.store_format.log.segments import FIND_FIRST, Stretch
from reput.store_format.release.profiles import RELEASES, profile
from reput.store_format.release.settings import Settings

_BYTES = 1 << 10


def load_kernels() -> None:
    """Call each kernel that a rebuild's tasks call, with no records."""
    release = profile(RELEASES[-1])
    rules = scan_rules(release, Settings(), ())

    def read(_: int, buffer: np.ndarray) -> None:
        buffer[:] = 1  # there is no record in such bytes

    for first in (0, FIND_FIRST):
        stretch = Stretch(0, _BYTES, 0, _BYTES, first)
        *_, end = scan(read, stretch, rules)
        assert isinstance(end, End)
        assert end.fault != Fault.BLANK
    prefix_bytes(0, rules.records)
    store_timestamp_at(0, rules.records)
    topic_length_bytes(0)
    group_by_queue(np.zeros(0, QUEUE_PUT), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    none, places = np.zeros(0, np.uint8), np.zeros(0, np.int64)
    begin(places, 0, 0, None, QUEUE_ENTRY_BYTES, place_rules(release))
    number_run(none, places, 0, 0, 0, place_rules(release), places)
    links = np.zeros(0, np.int32)
    puts = unpacked(links, np.zeros(0, INDEX_MESSAGE))
    chain(links, 1, 1, 0, links, links)
    fill_entries(puts, 1, places, links, places, 0, none)


if __name__ == "__main__":
    load_kernels()
