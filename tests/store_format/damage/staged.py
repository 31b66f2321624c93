"""A queue's runs in staging, as scans leave them: RUN rows, and what they refer to."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from reput.store_format.damage.queue_ends import (
    NO_QUEUE_DAMAGE,
    Losses,
    LossReader,
    QueueDamage,
    Run,
    SegmentLoss,
    lost_places,
)
from reput.store_format.dispatch.scan import place_rules
from reput.store_format.layouts import BATCH_QUEUE_ENTRY, QUEUE_ENTRY
from reput.store_format.release.profiles import profile
from reput.udfs.rebuild.runs import StagedRuns
from reput.udfs.staging import ENTRIES, Staging
from tests.memory_storage import MemoryStorage

SIZE = 100  # bytes of each record


def staged(
    *runs: Sequence[tuple[int, int]], damage: QueueDamage = NO_QUEUE_DAMAGE, topic: str = "T",
    batch: int = 0,
) -> tuple[StagedRuns, list[Run]]:  # fmt: skip
    """Runs of (queueOffset, physicalOffset) of each record. batch: messages in each record, of a
    batch queue.
    """
    content = bytearray()
    rows: list[Run] = []
    for run in runs:
        entries = np.zeros(len(run), BATCH_QUEUE_ENTRY if batch else QUEUE_ENTRY)
        offsets = [offset for offset, _ in run]
        entries["physicalOffset"], entries["size"] = [place for _, place in run], SIZE
        if batch:
            entries["baseOffset"], entries["batchSize"] = offsets, batch
        row: dict[str, Any] = {"topic": topic, "queue_id": 0, "batch": bool(batch), "split": 0,
            "part": len(rows), "entries_at": len(content), "count": len(run), "offsets_at": -1,
            "first": offsets[0], "greatest": max(offsets), "times_at": -1, "decided": 0,
            "decided_from": 0}  # fmt: skip
        content += entries.tobytes()
        if offsets != list(range(offsets[0], offsets[0] + len(run))) and not batch:
            row["offsets_at"] = len(content)
            content += np.array(offsets, np.int64).tobytes()
        rows.append(row)
    storage = MemoryStorage({f"staging/a{ENTRIES}": bytes(content)})
    rules = place_rules(profile("5.3.3"))
    return StagedRuns(Staging(storage, "staging"), {0: "a"}, rules, 100, 46, damage=damage), rows


def lost(*ranges: tuple[int, int], from_start: bool = True, start: int = 0) -> LossReader:
    """What a log of one segment lost: (offset, bytes) of each range."""
    total = sum(length for _, length in ranges)
    segments = (SegmentLoss(start, 1 << 40, "", ranges, total),) if ranges else ()
    nothing: Iterable[np.ndarray] = ()
    return LossReader(Losses(segments, from_start), lambda loss: lost_places(loss, nothing))
