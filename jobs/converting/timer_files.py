"""The timer's files in a new store: timerlog with new physical offsets, the wheel unchanged.

The units stay at their places, so the slots of the wheel and timercheck still point to them
(TimerMessageStore.recover).
"""

import re

import numpy as np

from reput.jobs.converting.convert_summary import ConvertSummary
from reput.jobs.opening.plan import Plan
from reput.store_format.fate.known import TIMER_LOG, timer_log_names
from reput.store_format.files.protocol import Storage, listed
from reput.store_format.layouts import TIMER_UNIT
from reput.store_format.names import CONFIG
from reput.udfs.convert.write import PlacedRecords

_UNIT = TIMER_UNIT.itemsize
_UNITS_A_PIECE = 1 << 14
_PIECE_BYTES = 1 << 20
_WHEEL = re.compile(r"timerwheel(\.[0-9]+)?")
_CHECK = "timercheck"


def carry_timer(
    plan: Plan, storage: Storage, target: str, records: PlacedRecords, summary: ConvertSummary
) -> None:
    """Write timerlog, timerwheel and config/timercheck, if the old store has them."""
    names = timer_log_names(plan.storage, plan.store)
    if names:
        storage.make_folders(f"{target}/{TIMER_LOG}")
    for name, length in names:
        path = f"{TIMER_LOG}/{name}"
        _write_units(plan, storage, path, target, length, records)
        summary.copied.append(path)
    for name, state in listed(plan.storage, plan.store):
        if state is not None and _WHEEL.fullmatch(name):
            _copy(plan, storage, name, target, state.size)
            summary.copied.append(name)
    for name, state in listed(plan.storage, f"{plan.store}/{CONFIG}"):
        if state is not None and name == _CHECK:
            _copy(plan, storage, f"{CONFIG}/{name}", target, state.size)
            summary.copied.append(f"{CONFIG}/{name}")


def _write_units(
    plan: Plan, storage: Storage, path: str, target: str, length: int, records: PlacedRecords
) -> None:
    reader = plan.storage.open(f"{plan.store}/{path}")
    output = storage.create(f"{target}/{path}")
    for start in range(0, length, _UNITS_A_PIECE * _UNIT):
        raw = np.zeros(min(_UNITS_A_PIECE * _UNIT, length - start), np.uint8)
        reader.read_into(start, raw)
        units = raw[: len(raw) // _UNIT * _UNIT].view(TIMER_UNIT)
        mine = np.flatnonzero(units["size"] == _UNIT)
        places, sizes = records.found(units["physicalOffset"][mine].astype(np.int64))
        units["physicalOffset"][mine] = places
        units["messageSize"][mine[sizes > 0]] = sizes[sizes > 0]
        output.write(raw)
    output.finish(length)
    reader.close()


def _copy(plan: Plan, storage: Storage, path: str, target: str, length: int) -> None:
    reader = plan.storage.open(f"{plan.store}/{path}")
    output = storage.create(f"{target}/{path}")
    for at in range(0, length, _PIECE_BYTES):
        piece = np.empty(min(_PIECE_BYTES, length - at), np.uint8)
        reader.read_into(at, piece)
        output.write(piece)
    output.finish(length)
    reader.close()
