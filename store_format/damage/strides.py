"""Kernels for the ordinary damaged range, of which there may be a million: one damaged record.

Its magic number or its physicalOffset is wrong, its lengths add up, and a sound record follows it.
Rarer damage is decided in Python (see tolerant), by the same rules.
"""

import numpy as np
import numpy.typing as npt

from reput.store_format.damage.queue_ends import NEVER, QueueEndArrays, follow
from reput.store_format.dispatch.dispatch import Dispatching, dispatch
from reput.store_format.dispatch.queue_table import find_queue
from reput.store_format.faults import Fault
from reput.store_format.kernels.bytes import get_i32, get_i64
from reput.store_format.kernels.java_text import hash_code
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import (
    RECORD_AT,
    RECORD_FIXED_BYTES,
    SYS_TRANSACTION_COMMIT,
    SYS_TRANSACTION_MASK,
)
from reput.store_format.log.records import Bytes, RecordRules, Rows, frame, read_record

_NONE, _NEED_MORE = int(Fault.NONE), int(Fault.NEED_MORE)
_BAD_MAGIC, _PLACE = int(Fault.BAD_MAGIC), int(Fault.PLACE)


@kernel
def stride(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    buf: Bytes,
    length: int,
    file_end: int,
    base: int,
    rules: RecordRules,
    rows: Rows,
    faults: npt.NDArray[np.uint8],
    values: npt.NDArray[np.int64],
) -> int:
    """Walk from the record at buf's start over records and ordinary ranges; returns how many.

    buf[:length] stands at physical offset `base`, the segment goes on to `file_end`. Fills rows,
    faults (of the range between a row and the row before it, NONE where they touch) and values
    (the field at fault in that range).
    """
    at, count, skipped, value = 0, 0, _NONE, 0
    while count < len(rows):
        fault, size = frame(buf, at, length, file_end, rules)
        if (fault != _NONE and fault != _BAD_MAGIC) or size < RECORD_FIXED_BYTES:
            break
        if at + size > length:
            break
        parts = read_record(buf, at, size, base + at, 0, rules, rows[count])
        if fault == _NONE and parts == _NONE:
            faults[count], values[count] = skipped, value
            skipped = _NONE
            count += 1
        elif count == 0 or skipped != _NONE or (parts != _NONE and parts != _PLACE):
            break
        elif fault == _BAD_MAGIC:
            skipped, value = _BAD_MAGIC, get_i32(buf, at + RECORD_AT.magic)
        else:
            skipped, value = _PLACE, get_i64(buf, at + RECORD_AT.physicalOffset)
        at += size
    return count


@kernel
def dispatch_fresh(
    buf: Bytes,
    rows: Rows,
    faults: npt.NDArray[np.uint8],
    suspect: bool,
    last: int,
    followed: QueueEndArrays,
    dispatching: Dispatching,
) -> tuple[int, int]:
    """Dispatch rows up to a row after a range that may be stale; (how many, why not more).

    suspect: the first row follows a range too; last: the last live storeTimestamp. The reason is
    NONE at a row that may be stale: it is older than `last`, or its queue is not known or already
    has its queueOffset.
    """
    canon, confirmed, doubted, seen = followed
    batch_names, batch_ends = dispatching.batches
    slots, queues, names, names_used = dispatching.table
    queue_puts, _, _, used = dispatching.puts
    for i in range(len(rows)):
        row = rows[i]
        if suspect or faults[i] != _NONE:
            if row.storeTimestamp < last:
                return i, _NONE
            transaction = row.sysFlag & SYS_TRANSACTION_MASK
            if transaction == 0 or transaction == SYS_TRANSACTION_COMMIT:
                if names_used[0] == len(queues) or names_used[1] + row.topicLength > len(names):
                    return i, _NEED_MORE
                end = row.topicAt + row.topicLength
                number = find_queue(
                    slots, queues, names, names_used, buf, row.topicAt, end,
                    hash_code(buf, row.topicAt, end, np.int32(0)), row.queueId,
                    batch_names, batch_ends,
                )  # fmt: skip
                while seen[0] < used[0]:
                    put = queue_puts[seen[0]]
                    if put.queue >= len(canon):
                        return i, _NONE
                    follow(confirmed, doubted, canon[put.queue], put.queueOffset, put.batchSize)
                    seen[0] += 1
                if number >= len(canon):
                    return i, _NONE
                known = confirmed[canon[number]]
                if known == NEVER or row.queueOffset <= known:
                    return i, _NONE
        done, fault = dispatch(buf, rows[i : i + 1], dispatching)
        if done == 0:
            return i, fault
        suspect, last = False, row.storeTimestamp
    return len(rows), _NONE
