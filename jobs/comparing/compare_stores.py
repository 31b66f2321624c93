"""A comparison: bytes of the logs, then records where bytes differ, then config/."""

import tempfile
import time
from collections.abc import Sequence
from typing import BinaryIO

from reput.jobs.comparing.compare_report import CompareReport, Comparison, Epochs
from reput.jobs.comparing.configs import compare_configs
from reput.jobs.comparing.messages import find_messages
from reput.jobs.comparing.parting import Parting, part
from reput.jobs.comparing.place import record_there
from reput.jobs.comparing.side import Side, open_side
from reput.jobs.engines.engine import Engine
from reput.jobs.opening.plan import check_unchanged
from reput.jobs.outputs.output import inputs_of
from reput.jobs.outputs.publish import Temporary, temporary_folder
from reput.store_format.discover.store import StoreAt
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.protocol import Storage
from reput.store_format.log.groups import BadEpochs, Epoch, consistent_point, read_epochs
from reput.store_format.notes import Progress
from reput.udfs.staging import Staging, pieces_of


def compare_stores(
    engine: Engine, stores: Sequence[StoreAt], progress: Progress, staging: str | None,
    storage: Storage | None, lines: BinaryIO | None,
) -> CompareReport:  # fmt: skip
    """Compare each store with the first. staging: folder for fingerprints, None: a temporary one.
    lines: gets each message that only one store of a pair has, as a JSON line.

    Raises StoreError, SettingError, UnknownRelease, StoreChanged, OSError, EngineFailed.
    """
    started = time.monotonic()
    sides = [open_side(at) for at in stores]
    partings = part(engine, sides, progress)
    inputs = [each for at in stores for each in inputs_of(at.storage, at.path, at.settings)]
    folder = staging or tempfile.gettempdir()
    with temporary_folder(
        storage or storage_for(folder), folder, Temporary.COMPARE, inputs
    ) as room:
        pairs = [
            _compare(engine, room, (sides[0], side), parting, progress, lines)
            for side, parting in zip(sides[1:], partings, strict=True)
        ]
    for side in sides:
        check_unchanged(side.plan)
    return CompareReport(sides, pairs, time.monotonic() - started)


def _compare(
    engine: Engine, room: Staging, sides: tuple[Side, Side], parting: Parting, progress: Progress,
    lines: BinaryIO | None,
) -> Comparison:  # fmt: skip
    found = find_messages(engine, room, sides, parting.spans, progress, lines is not None)
    if lines is not None:
        for side in found:
            for name in side.lines:
                lines.writelines(pieces_of(room, name))
    first = parting.first
    there = None if first is None else (record_there(sides[0], first),
                                        record_there(sides[1], first))  # fmt: skip
    return Comparison(
        *sides, parting, there, found, compare_configs(*sides), _compare_epochs(*sides)
    )


def _compare_epochs(ours: Side, theirs: Side) -> Epochs:
    found = Epochs()
    both: list[tuple[Epoch, ...] | None] = []
    for side in (ours, theirs):
        try:
            both.append(read_epochs(side.plan.storage, side.path))
        except BadEpochs as error:
            found.notes.append(str(error))
            both.append(None)
    found.ours, found.theirs = both
    if found.ours is not None and found.theirs is not None:
        found.point = consistent_point(found.ours, ours.end, found.theirs, theirs.end)
    return found
