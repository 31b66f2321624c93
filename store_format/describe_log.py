"""A CommitLog segment described for a reader: records, its end, and what is damaged or stale.

Where the chain of records breaks, the description says why, looks for the next record that stands
in its own place, and goes on: what follows a break is marked, and doubted where it looks stale.
"""

import ipaddress
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from store_format.dispatch import Puts, dispatch
from store_format.faults import REASONS, Fault
from store_format.javatext import decode
from store_format.layouts import (
    BLANK,
    BLANK_BYTES,
    INDEX_PUT,
    IPV4_HOST,
    MAGIC_V2,
    QUEUE_PUT,
    RECORD_FIXED_BYTES,
    RECORD_HEAD,
    RECORD_HEAD_BYTES,
    RECORD_MIDDLE,
    SYS_TRANSACTION_MASK,
    TIMESTAMP_BYTES,
)
from store_format.oversize import read_oversize
from store_format.properties import properties_of
from store_format.queue_table import batch_topics, clear, new_table
from store_format.records import RECORD_ROW, find_record, first_bad_body, frame, walk
from store_format.scan import ScanRules

Bytes = npt.NDArray[np.uint8]
Read = Callable[[int, Bytes], None]
Item = dict[str, Any]

WINDOW_BYTES = 8 << 20
BODY_SHOWN_MAX = 1 << 20
TRANSACTIONS = {0: "none", 0x4: "prepared", 0x8: "commit", 0xC: "rollback"}
# How many records are dispatched at a time, and room for what even one of them may put.
_SLICE = 256
_ROOM = 1 << 16


class Shown(NamedTuple):
    """What a message carries of its sender's own, shown only where asked for."""

    bodies: bool = False
    properties: bool = False


def describe_segment(
    read: Read, start: int, end: int, first: int, rules: ScanRules, shown: Shown
) -> Iterator[Item]:
    """What stands in a segment [start, end), from physical offset `first` on, in order.

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
    def __init__(self, read: Read, start: int, end: int, rules: ScanRules, shown: Shown) -> None:
        self.read, self.start, self.end = read, start, end
        self.rules, self.shown = rules, shown
        self.window = np.empty(min(WINDOW_BYTES, end - start), np.uint8)
        self.rows = np.zeros(len(self.window) // RECORD_FIXED_BYTES + 1, RECORD_ROW)
        self.delays = np.array(rules.delays, np.int64)
        self.batches = batch_topics(list(rules.batch_topics))
        self.table = new_table(_ROOM, 4 * _ROOM)
        self.puts = Puts(
            np.zeros(_ROOM, QUEUE_PUT), np.zeros(_ROOM, INDEX_PUT), np.zeros(2, np.int64)
        )
        self.broken = False
        self.last_timestamp: int | None = None  # of the last live record
        self.next_offset: dict[tuple[str, int], int] = {}

    def run(self, first: int) -> Iterator[Item]:
        at = max(first, self.start)
        if at > self.start:
            at = self._next_record(at)[0]
        while at < self.end:
            at, fault = yield from self._chain(at)
            if fault == Fault.BLANK:
                at = yield from self._blank(at)
            elif fault != Fault.NONE:
                at = yield from self._break(at, fault)

    def _fill(self, at: int) -> Bytes:
        window = self.window[: self.end - at]
        self.read(at, window)
        return window

    def _chain(self, at: int) -> Generator[Item, None, tuple[int, Fault]]:
        """The records from `at` on; returns where the chain stops, and why."""
        records = self.rules.records
        while at < self.end:
            window, left = self._fill(at), self.end - at
            count, stood, code = walk(
                window, 0, len(window), left, left, at, records, self.rows
            )  # fmt: skip
            fault, rows = Fault(code), self.rows[:count]
            if fault == Fault.NEED_MORE and stood == 0:
                _, stood = frame(window, 0, len(window), left, records)
                fault, window, rows = read_oversize(
                    self.read, at, stood, records, self.rules.check_body_crc,
                    self.rules.dispatch.property_crc,
                )  # fmt: skip
                rows, stood = (rows, stood) if fault == Fault.NONE else (rows[:0], 0)
            elif self.rules.check_body_crc and not self.rules.dispatch.property_crc:
                good = first_bad_body(window, rows)
                if good < count:
                    fault, stood, rows = Fault.BODY_CRC, int(rows["at"][good]), rows[:good]
            told, refused = yield from self._records(window, rows)
            if refused != Fault.NONE:
                return at + int(rows["at"][told]), refused
            at += stood
            if fault not in (Fault.NONE, Fault.NEED_MORE):
                return at, fault
        return at, Fault.NONE

    def _records(self, window: Bytes, rows: Any) -> Generator[Item, None, tuple[int, Fault]]:
        """Describe checked rows; returns (rows described, the dispatch rules' fault)."""
        done = 0
        while done < len(rows):
            some = rows[done : done + _SLICE]
            count, code = dispatch(
                window, some, self.rules.dispatch, self.delays, self.batches, self.table, self.puts
            )
            used = self.puts.used.tolist()
            tags, keys = _by_place(self.puts.queue[: used[0]], self.puts.index[: used[1]])
            self.puts.used[:] = 0
            clear(self.table)
            for row in some[:count]:
                place = int(row["physicalOffset"])
                yield self._record(window, row, tags.get(place), keys.get(place, []))
            done += count
            if code not in (Fault.NONE, Fault.NEED_MORE):
                return done, Fault(code)
        return done, Fault.NONE

    def _record(self, window: Bytes, row: Any, tags_code: int | None, keys: list[int]) -> Item:
        at, place = int(row["at"]), int(row["physicalOffset"])
        topic_at, properties_at = int(row["topicAt"]), int(row["propertiesAt"])
        head = _fields(window, RECORD_HEAD, at)
        middle_at = int(row["bodyAt"]) - RECORD_MIDDLE.itemsize
        middle = _fields(window, RECORD_MIDDLE, middle_at)
        hosts = window[at + RECORD_HEAD_BYTES : middle_at].tobytes()
        born, store = _hosts(hosts, int(row["sysFlag"]), self.rules)
        topic = decode(window[topic_at : topic_at + int(row["topicLength"])].tobytes())
        item: Item = {
            "kind": "record",
            "at": place - self.start,
            "physicalOffset": place,
            "size": head["totalSize"],
            "version": 2 if head["magic"] == MAGIC_V2 else 1,
            "topic": topic,
            "queueId": head["queueId"],
            "queueOffset": head["queueOffset"],
            "transaction": TRANSACTIONS[head["sysFlag"] & SYS_TRANSACTION_MASK],
            "storeTimestamp": int(row["storeTimestamp"]),
            "tagsCode": tags_code,
            "keyHashes": keys,
            "bodyLength": middle["bodyLength"],
            "bodyCRC": head["bodyCRC"],
            "propertiesLength": int(row["propertiesLength"]),
            "flag": head["flag"],
            "sysFlag": head["sysFlag"],
            "bornTimestamp": head["bornTimestamp"],
            "bornHost": born,
            "storeHost": store,
            "reconsumeTimes": middle["reconsumeTimes"],
            "preparedTransactionOffset": middle["preparedTransactionOffset"],
        }
        self._judge(item)
        if self.shown.properties:
            raw = window[properties_at : properties_at + int(row["propertiesLength"])].tobytes()
            item |= _properties(raw, self.rules.dispatch.split_properties)
        if self.shown.bodies:
            body_at = place + int(row["bodyAt"]) - at
            item |= self._body(body_at, int(row["bodyLength"]))
        return item

    def _judge(self, item: Item) -> None:
        """Mark what stands behind a break, with the reasons to doubt that it is live."""
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
                return
        self.last_timestamp = item["storeTimestamp"]
        if queued:
            self.next_offset[queue] = item["queueOffset"] + 1

    def _body(self, at: int, length: int) -> Item:
        """The body as text where it is UTF-8, else in hex; only its start if it is long."""
        piece = np.empty(min(length, BODY_SHOWN_MAX), np.uint8)
        self.read(at, piece)
        cut = {"bodyShown": len(piece)} if len(piece) < length else {}
        try:
            return {"body": piece.tobytes().decode()} | cut
        except UnicodeDecodeError:
            return {"bodyHex": piece.tobytes().hex()} | cut

    def _blank(self, at: int) -> Generator[Item, None, int]:
        size = _fields(self._fill(at), BLANK, 0)["size"]
        behind = at + BLANK_BYTES
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
        """Say what stands at `at`, where no record is, and find the next one."""
        where = {"at": at - self.start, "physicalOffset": at}
        self.broken = True
        begin = at
        if fault == Fault.ZEROS:
            begin = self._zeros_end(at)
            yield {"kind": "zeros"} | where | {"bytes": begin - at}
            if begin == self.end:
                return begin
            # the last bytes of a run of zeros may be the first ones of a record's size
            begin = max(at + 1, begin - 3)
            where = {"at": begin - self.start, "physicalOffset": begin}
        next_at, rest_is_zero = self._next_record(begin if fault == Fault.ZEROS else at + 1)
        if fault == Fault.ZEROS:
            if next_at > begin:
                yield {"kind": "skipped"} | where | {"bytes": next_at - begin}
            return next_at
        name, reason = REASONS[fault]
        yield {"kind": "damage"} | where | {
            "fault": fault.name, "field": name, "value": self._value(at, name), "reason": reason
        }  # fmt: skip
        yield {"kind": "skipped"} | where | {"bytes": next_at - at, "restIsZero": rest_is_zero}
        return next_at

    def _value(self, at: int, name: str) -> int | None:
        """The value of a field at fault, where its place is known."""
        head = np.zeros(RECORD_HEAD_BYTES, np.uint8)
        self.read(at, head[: self.end - at])
        return _fields(head, RECORD_HEAD, 0).get(name)

    def _zeros_end(self, at: int) -> int:
        """Where the zeros that start at `at` end."""
        while at < self.end:
            window = self._fill(at)
            set_bytes = window.view(np.bool_)
            if set_bytes.any():
                return at + int(set_bytes.argmax())
            at += len(window)
        return at

    def _next_record(self, at: int) -> tuple[int, bool]:
        """The next record in its own place, else the segment's end; and if only zeros stood
        before it.
        """
        only_zeros = True
        while at < self.end:
            window = self._fill(at)
            if window.any():
                found = find_record(window, 0, len(window), at, self.rules.records)
                if found >= 0:
                    return at + int(found), only_zeros and not window[:found].any()
                only_zeros = False
            if at + len(window) >= self.end:
                break
            at += len(window) - RECORD_HEAD_BYTES + 1
        return self.end, only_zeros


def _fields(buf: Bytes, layout: np.dtype[Any], at: int) -> Item:
    names = layout.names or ()
    return dict(zip(names, np.frombuffer(buf, layout, 1, at)[0].item(), strict=True))


def _by_place(queue_puts: Any, index_puts: Any) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Of each record by its place: the tagsCode, and the key hashes in order."""
    tags: dict[int, int] = {}
    for place, code in queue_puts[["physicalOffset", "tagsCode"]].tolist():
        tags.setdefault(place, code)
    keys: dict[int, list[int]] = {}
    for place, key in index_puts[["physicalOffset", "keyHash"]].tolist():
        keys.setdefault(place, []).append(key)
    return tags, keys


def _hosts(raw: bytes, sys_flag: int, rules: ScanRules) -> tuple[str, str]:
    """BornHost and storeHost of `bornHost storeTimestamp storeHost`."""
    born_v6 = rules.records.ipv6_hosts and sys_flag & SYS_BORN_HOST_V6
    born = IPV6_HOST if born_v6 else IPV4_HOST
    return _host(raw[:born]), _host(raw[born + TIMESTAMP_BYTES :])


def _host(raw: bytes) -> str:
    address = ipaddress.ip_address(raw[:-4])
    port = int.from_bytes(raw[-4:], signed=True)
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"


def _properties(raw: bytes, split: bool) -> Item:
    """The properties that count, and as they stand those parts that do not."""
    good: dict[str, str] = {}
    bad: list[str] = []
    for text, pair in properties_of(raw, split):
        if pair is None:
            bad.append(decode(text))
        else:
            good[decode(pair[0])] = decode(pair[1])
    return {"properties": good} | ({"notProperties": bad} if bad else {})
