"""The positions that records have in queues, as a dispatch gives them, and where in a record's
properties such a number stands: INNER_BASE for a batch queue, a part of INNER_MULTI_QUEUE_OFFSET
for a further queue (LMQ).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reput.store_format.dispatch.dispatch import Dispatching, Puts, dispatch
from reput.store_format.dispatch.queue_table import BATCH_TOPIC, QueueTable, batch_topics
from reput.store_format.dispatch.scan import ScanRules
from reput.store_format.faults import Fault
from reput.store_format.kernels.bytes import find_byte
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import INDEX_MESSAGE, QUEUE_PUT
from reput.store_format.log.properties import (
    INNER_BASE,
    INNER_NUM,
    MULTI_DISPATCH,
    MULTI_OFFSETS,
    ValueSpans,
    find_properties,
    new_spans,
)
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.log.rules import reaches_queue

Numbers = npt.NDArray[np.int64]

_ROOM = 1 << 17  # puts; one message has at most half as many as its properties have bytes
_COMMA, _SLASH, _ZERO = 0x2C, 0x2F, 0x30
_reaches_queue = inlined(reaches_queue)


class Positions(NamedTuple):
    """The positions of some records.

    firsts, stops: for each record where its puts begin and end; of a record's puts the first is
    that of its own queue. puts: QUEUE_PUT rows. texts: for each put where its queueOffset stands
    in the window's properties, int64 of shape (puts, 2); -1 where only the record's head has it.
    """

    firsts: Numbers
    stops: Numbers
    puts: Any
    texts: ValueSpans

    def of(self, rows: Any) -> "Positions":
        """Those of some rows: a slice, or an array of indices. The puts of all rows stay."""
        if not len(self.firsts):
            return self
        return self._replace(firsts=self.firsts[rows], stops=self.stops[rows])

    def taken(self, rows: Any) -> "Positions":
        """Those of some rows, of which a mask tells, without the puts and texts of the others."""
        mask = np.repeat(rows, self.stops - self.firsts)
        counts = (self.stops - self.firsts)[rows]
        stops = np.cumsum(counts)
        return Positions(stops - counts, stops, self.puts[mask], self.texts[mask])


NO_POSITIONS = Positions(
    np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, QUEUE_PUT), new_spans(0)
)


class PositionReader:
    """Reads the positions of records; a put's queue is its number in `table`."""

    def __init__(self, rules: ScanRules, table: QueueTable) -> None:
        self._rules = rules.dispatch._replace(index=False, property_crc=False)
        self.batches = batch_topics(list(rules.batch_topics))
        puts = Puts(
            np.zeros(_ROOM, QUEUE_PUT), np.zeros(_ROOM, np.int32), np.zeros(1, INDEX_MESSAGE),
            np.zeros(3, np.int64),
        )  # fmt: skip
        self._dispatching = Dispatching(
            self._rules, np.array(rules.delays, np.int64), self.batches, table, puts, new_spans()
        )

    def of(self, window: Bytes, rows: Rows, queues: Numbers) -> Positions:
        """The positions of the first rows: of fewer where the table is full before.

        queues: the number of each row's own queue.
        """
        table, puts = self._dispatching.table, self._dispatching.puts
        puts.used[:] = done = 0
        while done < len(rows):
            count, fault = dispatch(window, rows[done:], self._dispatching)
            done += count
            if done == len(rows) or fault == Fault.NEED_MORE:
                break
            # nobody can read its numbers: if it is taken, the new log is refused
            if _reaches_queue(rows[done]["sysFlag"]):
                own = puts.queue[puts.used[0]]
                own["physicalOffset"], own["queue"] = rows[done]["physicalOffset"], queues[done]
                own["queueOffset"], own["batchSize"] = rows[done]["queueOffset"], 1
                puts.used[0] += 1
            done += 1
        found = puts.queue[: int(puts.used[0])].copy()
        places = rows["physicalOffset"][:done]
        firsts = np.searchsorted(found["physicalOffset"], places, "left")
        stops = np.searchsorted(found["physicalOffset"], places, "right")
        texts = np.full((len(found), 2), -1)
        _find_texts(
            window, rows[:done], firsts, stops, found, table.rows, self._rules.split_properties,
            self._rules.skips_slash, self._dispatching.spans, texts,
        )  # fmt: skip
        return Positions(firsts, stops, found, texts)


@kernel
def _find_texts(  # noqa: PLR0913 (a kernel takes its arrays one by one)
    buf: Bytes, rows: Rows, firsts: Numbers, stops: Numbers, puts: Any, queues: Any,
    split_properties: bool, skips_slash: bool, spans: ValueSpans, texts: ValueSpans,
) -> None:  # fmt: skip
    for i in range(len(rows)):
        if firsts[i] == stops[i]:
            continue
        end = rows[i].propertiesAt + rows[i].propertiesLength
        find_properties(buf, rows[i].propertiesAt, end, split_properties, spans)
        number = firsts[i]
        batch = queues[puts[number].queue].flags & BATCH_TOPIC
        if batch and spans[INNER_BASE, 0] >= 0 and spans[INNER_NUM, 0] >= 0:
            texts[number, 0], texts[number, 1] = spans[INNER_BASE]
        number += 1
        at, offset_at = spans[MULTI_DISPATCH, 0], spans[MULTI_OFFSETS, 0]
        while number < stops[i]:
            stop = find_byte(buf, at, spans[MULTI_DISPATCH, 1], _COMMA)
            offset_stop = find_byte(buf, offset_at, spans[MULTI_OFFSETS, 1], _COMMA)
            if not (skips_slash and find_byte(buf, at, stop, _SLASH) < stop):
                if puts[number].queueOffset >= 0:
                    texts[number, 0], texts[number, 1] = offset_at, offset_stop
                number += 1
            at, offset_at = stop + 1, offset_stop + 1


@kernel
def grow(rows: Rows, positions: Any, digits: int, most: int, too_long: int, sizes: Numbers) -> None:
    """Add to the sizes of rows that are taken what they grow by where each number in properties
    has so many digits; too_long: what a size becomes where the properties then have over `most`
    bytes.
    """
    for i in range(len(rows)):
        if sizes[i] <= 0:
            continue
        for number in range(positions.firsts[i], positions.stops[i]):
            at, end = positions.texts[number]
            if at >= 0:
                sizes[i] += digits - (end - at)
        if rows[i].propertiesLength + sizes[i] - rows[i].size > most:
            sizes[i] = too_long


@kernel
def put_digits(out: Bytes, at: int, value: int, digits: int) -> int:
    """Put a number with leading zeros, which Long.parseLong passes over; returns where it ends."""
    for place in range(at + digits - 1, at - 1, -1):
        out[place] = _ZERO + value % 10
        value //= 10
    return at + digits
