"""Which segment a file is by its own records, whatever its name.

Each record holds its physicalOffset. If a file's first two records agree on where the file begins,
and the file has another segment's name, it was renamed or swapped with another file.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reput.store_format.files.protocol import InputStorage
from reput.store_format.layouts import MAGIC_V1, MAGIC_V2, RECORD_FIXED_BYTES, RECORD_HEAD
from reput.store_format.log.segments import Finding, Segment
from reput.store_format.names import segment_name

_AGREED_BY = 2  # records that must agree


class Proven(NamedTuple):
    """Segments by the names that their records prove, in order, and what was found."""

    segments: list[Segment]
    findings: list[Finding]


def proven_names(
    storage: InputStorage, segments: Sequence[Segment], segment_bytes: int, assume: bool
) -> Proven:
    """Compare the segments' names with their records.

    assume: segments get the places that their records prove, and a segment whose place another one
    takes is left out. Otherwise all stay, and findings tell what --assume-names would do. Raises
    what opening and reading the files raises.
    """
    starts = {each.path: _begins_at(storage, each, segment_bytes) for each in segments}
    wanted = Counter(start for start in starts.values() if start is not None)
    moved: dict[str, int] = {}
    for each in segments:
        start = starts[each.path]
        if start is not None and start != each.start and wanted[start] == 1:
            moved[each.path] = start
    findings = [
        Finding(
            path,
            f"by its records it is segment {segment_name(start)}: "
            + ("it is read as that" if assume else "--assume-names reads it as that"),
        )
        for path, start in moved.items()
    ]
    if not assume:
        return Proven(list(segments), findings)
    by_start = {each.start: each for each in segments if each.path not in moved}
    for each in segments:
        if each.path in moved:
            start = moved[each.path]
            if start in by_start:
                taken = f"{each.path} proves to be {segment_name(start)}; left out"
                findings.append(Finding(by_start[start].path, taken))
            by_start[start] = each._replace(start=start)
    return Proven([by_start[start] for start in sorted(by_start)], findings)


def _begins_at(storage: InputStorage, segment: Segment, segment_bytes: int) -> int | None:
    """Where the file begins by its first records; None where they are no records, or disagree."""
    at, said = 0, set()
    for _ in range(_AGREED_BY):
        raw = np.zeros(RECORD_HEAD.itemsize, np.uint8)
        if at + len(raw) > segment.state.size:
            return None
        reader = storage.open(segment.path, segment.state)
        reader.read_into(at, raw)
        reader.close()
        head = np.frombuffer(raw, RECORD_HEAD)[0]
        size = int(head["totalSize"])
        if head["magic"] not in (MAGIC_V1, MAGIC_V2) or size < RECORD_FIXED_BYTES:
            return None
        said.add(int(head["physicalOffset"]) - at)
        at += size
    start = said.pop()
    return start if not said and start >= 0 and start % segment_bytes == 0 else None
