"""What a store's broker does by itself when it starts after a crash."""

from contextlib import closing

import numpy as np

from reput.jobs.opening.plan import Plan
from reput.store_format.derived.checkpoint import Checkpoint, decode, vouched_for
from reput.store_format.files.protocol import ANY_TIME, InputStorage
from reput.store_format.layouts import CHECKPOINT as CHECKPOINT_LAYOUT
from reput.store_format.layouts import IPV6_HOST, RECORD_HEAD, TIMESTAMP_BYTES
from reput.store_format.log.rules import RecordRules, head_bytes, store_timestamp_at
from reput.store_format.log.segments import Segment
from reput.store_format.names import CHECKPOINT

_HEAD_BYTES = RECORD_HEAD.itemsize + IPV6_HOST + TIMESTAMP_BYTES


def read_checkpoint(storage: InputStorage, store: str) -> Checkpoint | None:
    """A store's checkpoint; None if the file is missing or too short."""
    try:
        raw = storage.read_bytes(f"{store}/{CHECKPOINT}")
    except FileNotFoundError:
        return None
    return decode(raw) if len(raw) >= CHECKPOINT_LAYOUT.itemsize else None


def dispatched_again_from(plan: Plan) -> int:
    """The physical offset from which the broker's recovery dispatches again.

    It is the start of the last segment whose first record the checkpoint vouches for, else of the
    log (CommitLog.recoverAbnormally, isMappedFileMatchedRecover). 5.5.0 uses the checkpoint's
    physical offset up to which queues were flushed, if it has one.
    """
    checkpoint = read_checkpoint(plan.storage, plan.store)
    if checkpoint is not None:
        by_place = plan.profile.checkpoint_logics_offset and checkpoint.logics_physical_offset > 0
        for number in range(len(plan.segments) - 1, 0, -1):
            segment = plan.segments[number]
            timestamp = 0 if number in plan.odd else _first_timestamp(plan, segment)
            if by_place:
                vouched = segment.start <= checkpoint.logics_physical_offset
            else:
                vouched = timestamp <= vouched_for(checkpoint)
            if timestamp > 0 and vouched:
                return segment.start
    return plan.segments[0].start


def stored_at(storage: InputStorage, segment: Segment, at: int, rules: RecordRules) -> int:
    """The storeTimestamp of the record at a physical offset of a segment, without any check."""
    raw = np.zeros(_HEAD_BYTES, np.uint8)
    with closing(storage.open(segment.path, segment.state._replace(mtime=ANY_TIME))) as file:
        file.read_into(at - segment.start, raw[: segment.end - at])
    head = raw[: RECORD_HEAD.itemsize].view(RECORD_HEAD)[0]
    start = store_timestamp_at(int(head["sysFlag"]), rules)
    return int(raw[start : start + TIMESTAMP_BYTES].view(">i8")[0])


def _first_timestamp(plan: Plan, segment: Segment) -> int:
    at = segment.start + head_bytes(segment.end, plan.record_rules)
    return stored_at(plan.storage, segment, at, plan.record_rules)
