"""What a filter says of properties, record by record and all at once."""

from typing import Any

import numpy as np

from reput.store_format.faults import Fault
from reput.store_format.filter.filters import Filter
from reput.store_format.filter.rows import Match
from reput.store_format.log.records import RECORD_ROW
from reput.store_format.log.walk import Step
from reput.store_format.message.message import parse_properties


def step_of(raw: list[bytes]) -> Step:
    """A window with nothing but these properties, one after the other."""
    rows = np.zeros(len(raw), RECORD_ROW)
    rows["propertiesLength"] = [len(one) for one in raw]
    rows["propertiesAt"] = np.cumsum(rows["propertiesLength"]) - rows["propertiesLength"]
    window = np.frombuffer(b"".join(raw), np.uint8)
    return Step(0, window, rows, None, len(window), Fault.NONE)


def says(wanted: Filter, raw: list[bytes], split: bool = False) -> list[bool]:
    """What a filter says of these properties; all that it says at once must be the same."""
    record: Any = None
    slow = [wanted.matches(record, parse_properties(one, split), bytes) for one in raw]
    fast = wanted.judge(step_of(raw), split).tolist()
    assert [v == Match.ASK or bool(v) == s for v, s in zip(fast, slow, strict=True)].count(0) == 0
    return slow
