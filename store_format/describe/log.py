"""A CommitLog segment described for `dump`: its records with their fields, its end, and what is
damaged or stale.

If the chain of records breaks, the description tells why, and goes on at the next record that
stands in its own place. Records after a break are marked, and doubted if they look stale.
"""

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np

from reput.store_format import layouts
from reput.store_format.dispatch.dispatch import Dispatching, Puts, dispatch, unpacked
from reput.store_format.dispatch.queue_table import batch_topics, clear, new_table
from reput.store_format.dispatch.scan import ScanRules, by_era, older_dispatching
from reput.store_format.faults import HEAD_FIELDS, REASONS, Fault
from reput.store_format.kernels.java_text import decode
from reput.store_format.log.properties import new_spans
from reput.store_format.log.records import Bytes, born_host_bytes
from reput.store_format.log.walk import Read, Walk
from reput.store_format.message.message import host_text

# ---
# One checked record described for a reader: its fields, and on demand body and properties.

Item = dict[str, Any]

TRANSACTIONS = {0: "none", 0x4: "prepared", 0x8: "commit", 0xC: "rollback"}
_NAME_END, _PAIR_END = bytes([layouts.PROPERTY_NAME_END]), bytes([layouts.PROPERTY_END])


def fields_at(buf: Bytes, layout: np.dtype[Any], at: int) -> Item:
    """The fields of a layout at buf[at:], by name, as Python values."""
    names = layout.names or ()
    return dict(zip(names, np.frombuffer(buf, layout, 1, at)[0].item(), strict=True))


def describe_record(buf: Bytes, row: Any, start: int, rules: ScanRules) -> Item:
    """The fields of the record of `row` (one RECORD_ROW) in buf.

    start: the segment's first physical offset; `at` is the record's place in the file. Timestamps
    in milliseconds; hosts as address:port.
    """
    at, place = int(row["at"]), int(row["physicalOffset"])
    topic_at = int(row["topicAt"])
    middle_at = int(row["bodyAt"]) - layouts.RECORD_MIDDLE.itemsize
    head, middle = (
        fields_at(buf, layouts.RECORD_HEAD, at),
        fields_at(buf, layouts.RECORD_MIDDLE, middle_at),
    )
    hosts = buf[at + layouts.RECORD_HEAD_BYTES : middle_at].tobytes()
    born = born_host_bytes(head["sysFlag"], rules.records)
    return {
        "kind": "record",
        "at": place - start,
        "physicalOffset": place,
        "size": head["totalSize"],
        "version": 2 if head["magic"] == layouts.MAGIC_V2 else 1,
        "topic": decode(buf[topic_at : topic_at + int(row["topicLength"])].tobytes()),
        "queueId": head["queueId"],
        "queueOffset": head["queueOffset"],
        "transaction": TRANSACTIONS[head["sysFlag"] & layouts.SYS_TRANSACTION_MASK],
        "storeTimestamp": int(row["storeTimestamp"]),
        "bornTimestamp": head["bornTimestamp"],
        "bodyLength": middle["bodyLength"],
        "bodyCRC": head["bodyCRC"],
        "propertiesLength": int(row["propertiesLength"]),
        "flag": head["flag"],
        "sysFlag": head["sysFlag"],
        "bornHost": host_text(hosts[:born]),
        "storeHost": host_text(hosts[born + layouts.TIMESTAMP_BYTES :]),
        "reconsumeTimes": middle["reconsumeTimes"],
        "preparedTransactionOffset": middle["preparedTransactionOffset"],
    }


def describe_body(piece: bytes, length: int) -> Item:
    """A body of `length` bytes that starts with `piece`: as text if it is UTF-8, else in hex."""
    cut: Item = {"bodyShown": len(piece)} if len(piece) < length else {}
    try:
        return {"body": piece.decode()} | cut
    except UnicodeDecodeError:
        return {"bodyHex": piece.hex()} | cut


def describe_properties(buf: Bytes, row: Any, split: bool) -> Item:
    """The properties that count, and the parts that do not. Of duplicates the last counts.

    split: as releases up to 4.9.0 read them (Profile.split_properties).
    """
    at = int(row["propertiesAt"])
    raw = buf[at : at + int(row["propertiesLength"])].tobytes()
    good: dict[str, str] = {}
    bad: list[str] = []
    for part in raw.split(_PAIR_END):
        text = part.rstrip(_NAME_END) if split else part
        name, middle, value = text.partition(_NAME_END)
        if middle and (_NAME_END not in value if split else name and value):
            good[decode(name)] = decode(value)
        elif part:
            bad.append(decode(part))
    return {"properties": good} | ({"notProperties": bad} if bad else {})


WINDOW_BYTES = 8 << 20
BODY_SHOWN_MAX = 1 << 20
# How many records are dispatched at a time, and room for the puts of even one record.
_SLICE = 256
_ROOM = 1 << 16


class ShownContent(NamedTuple):
    """Which of the sender's own content is shown."""

    bodies: bool = False
    properties: bool = False


def describe_segment(
    read: Read, start: int, end: int, first: int, rules: ScanRules, shown: ShownContent
) -> Iterator[Item]:
    """The items of a segment [start, end), from physical offset `first` on, in order.

    read(physical offset, buffer) fills the buffer. If `first` is not the segment's start, the
    description begins at the first record there or after it. Items, by "kind":

    - record: its fields, tagsCode (None: it goes to no queue) and the keyHashes it is indexed by;
      afterBreak and doubts (a list of reasons why it is stale) where a break is before it;
    - damage: fault, field, value and reason; skipped: bytes up to the next record;
    - blank: the segment's end (restIsZero: nothing stale behind it); zeros: nothing was written.

    Memory does not depend on the segment's length, only on its number of queues.
    """
    return _Segment(read, start, end, rules, shown).run(first)


class _Segment:
    def __init__(
        self, read: Read, start: int, end: int, rules: ScanRules, shown: ShownContent
    ) -> None:
        self.read, self.start, self.end = read, start, end
        self.rules, self.shown = rules, shown
        buffer = np.empty(min(WINDOW_BYTES, end - start), np.uint8)
        self.walk = Walk(read, end, rules.records, rules.checks, buffer)
        self.table = new_table(_ROOM, 4 * _ROOM)
        self.puts = Puts(
            np.zeros(_ROOM, layouts.QUEUE_PUT),
            np.zeros(_ROOM, np.int32),
            np.zeros(_ROOM, layouts.INDEX_MESSAGE),
            np.zeros(3, np.int64),
        )
        self.dispatching = Dispatching(
            rules.dispatch, np.array(rules.delays, np.int64),
            batch_topics(list(rules.batch_topics)), self.table, self.puts,
            new_spans(),
        )  # fmt: skip
        self.older = older_dispatching(rules, self.dispatching)
        self.broken = False
        self.last_timestamp: int | None = None  # of the last live record
        self.next_offset: dict[tuple[str, int], int] = {}

    def run(self, first: int) -> Iterator[Item]:
        at = max(first, self.start)
        if at > self.start:
            at = next(self.walk.places(at, self.end), self.end)
        while at < self.end:
            at, fault = yield from self._chain(at)
            if fault == Fault.BLANK:
                at = yield from self._blank(at)
            elif fault != Fault.NONE:
                at = yield from self._break(at, fault)

    def _chain(self, at: int) -> Generator[Item, None, tuple[int, Fault]]:
        """The records from `at` on. Returns where the chain stops, and why."""
        for step in self.walk.steps(at, self.end):
            shown, refused = yield from self._records(step.window, step.rows)
            if refused != Fault.NONE:
                return step.start(shown), refused
            at = step.next
            if step.fault != Fault.NONE:
                return at, step.fault
        return at, Fault.NONE

    def _records(self, window: Bytes, rows: Any) -> Generator[Item, None, tuple[int, Fault]]:
        """Describe checked rows. Returns (number of described rows, the dispatch rules' fault)."""
        done = 0
        while done < len(rows):
            some = rows[done : done + _SLICE]
            stop, dispatching = next(by_era(some, self.older, self.dispatching))
            some = some[:stop]
            count, code = dispatch(window, some, dispatching)
            used = self.puts.used.tolist()
            index_puts = unpacked(self.puts.hashes[: used[1]], self.puts.messages[: used[2]])
            tags, keys = _by_place(self.puts.queue[: used[0]], index_puts)
            self.puts.used[:] = 0
            clear(self.table)
            for row in some[:count]:
                place = int(row["physicalOffset"])
                item = describe_record(window, row, self.start, self.rules)
                item |= {"tagsCode": tags.get(place), "keyHashes": keys.get(place, [])}
                item |= self._head(place)
                yield self._judge(item) | self._sent(window, row)
            done += count
            if code not in (Fault.NONE, Fault.NEED_MORE):
                return done, Fault(code)
        return done, Fault.NONE

    def _head(self, place: int) -> Item:
        """Index and term of the DLedger entry of the record at `place`."""
        if not self.walk.head:
            return {}
        raw = np.empty(layouts.DLEDGER_HEAD.itemsize, np.uint8)
        self.read(place - self.walk.head, raw)
        head = fields_at(raw, layouts.DLEDGER_HEAD, 0)
        return {"index": head["index"], "term": head["term"]}

    def _judge(self, item: Item) -> Item:
        """The item; after a break, marked and with reasons to doubt that the record is live."""
        queue = item["topic"], item["queueId"]
        queued = item["transaction"] in ("none", "commit")
        if self.broken:
            doubts = []
            if self.last_timestamp is not None and item["storeTimestamp"] < self.last_timestamp:
                doubts.append("storeTimestamp is before the last live record's")
            if queued and item["queueOffset"] < self.next_offset.get(queue, 0):
                doubts.append("queueOffset is below its queue's next")
            item |= {"afterBreak": True, "doubts": doubts}
            if doubts:
                return item
        self.last_timestamp = item["storeTimestamp"]
        if queued:
            self.next_offset[queue] = item["queueOffset"] + 1
        return item

    def _sent(self, window: Bytes, row: Any) -> Item:
        """The sender's properties and body, if they are to be shown."""
        item: Item = {}
        if self.shown.properties:
            item |= describe_properties(window, row, self.rules.dispatch.split_properties)
        if self.shown.bodies:
            piece = np.empty(min(int(row["bodyLength"]), BODY_SHOWN_MAX), np.uint8)
            self.read(int(row["physicalOffset"]) + int(row["bodyAt"] - row["at"]), piece)
            item |= describe_body(piece.tobytes(), int(row["bodyLength"]))
        return item

    def _blank(self, at: int) -> Generator[Item, None, int]:
        layout = layouts.DLEDGER_BLANK_LAYOUT if self.walk.head else layouts.BLANK
        size = fields_at(self.walk.load(at, layouts.BLANK_BYTES), layout, 0)["size"]
        behind = at + layouts.BLANK_BYTES
        rest_is_zero = self._zeros_end(behind) == self.end
        where = {"at": at - self.start, "physicalOffset": at}
        yield {"kind": "blank"} | where | {"size": size, "restIsZero": rest_is_zero}
        if size != self.end - at:
            reason = "a BLANK's size is not the rest of the segment"
            yield {"kind": "damage"} | where | {
                "fault": "BLANK", "field": "size", "value": size, "reason": reason
            }  # fmt: skip
        return self.end

    def _break(self, at: int, fault: Fault) -> Generator[Item, None, int]:
        """Describe the break at `at`, and return where the next record is."""
        where = {"at": at - self.start, "physicalOffset": at}
        self.broken = True
        search_from = at + 1
        if fault == Fault.ZEROS:
            zeros_end = self._zeros_end(at)
            if zeros_end == self.end:
                yield {"kind": "zeros"} | where | {"bytes": zeros_end - at}
                return zeros_end
            # the last of the zeros may be the first bytes of a record's size
            search_from = max(at + 1, zeros_end - 3)
        name, reason = REASONS[fault]
        yield {"kind": "damage"} | where | {
            "fault": fault.name, "field": name, "value": self._value(at, fault), "reason": reason
        }  # fmt: skip
        next_at = next(self.walk.places(search_from, self.end), self.end)
        yield {"kind": "skipped"} | where | {"bytes": next_at - at}
        return next_at

    def _value(self, at: int, fault: Fault) -> int | None:
        """The value of the field at fault, if its place is known."""
        of_head = fault in HEAD_FIELDS
        place = at if of_head else min(at + self.walk.head, self.end)
        raw = np.zeros(layouts.RECORD_HEAD_BYTES, np.uint8)
        self.read(place, raw[: self.end - place])
        layout = layouts.DLEDGER_HEAD if of_head else layouts.RECORD_HEAD
        return fields_at(raw, layout, 0).get(REASONS[fault][0])

    def _zeros_end(self, at: int) -> int:
        for start, window in self.walk.windows(at, self.end):
            set_bytes = window.view(np.bool_)
            if set_bytes.any():
                return start + int(set_bytes.argmax())
        return max(at, self.end)


def _by_place(queue_puts: Any, index_puts: Any) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Two mappings from a record's physical offset: to its tagsCode, and to its key hashes."""
    tags: dict[int, int] = {}
    for place, code in queue_puts[["physicalOffset", "tagsCode"]].tolist():
        tags.setdefault(place, code)
    keys: dict[int, list[int]] = {}
    for place, key in index_puts[["physicalOffset", "keyHash"]].tolist():
        keys.setdefault(place, []).append(key)
    return tags, keys
