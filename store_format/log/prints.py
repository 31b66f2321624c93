"""Fingerprints of records, to compare two logs that have the same record at different places.

A record has two, of 128 bits each. `message` covers what a producer sent: a message that was sent
again has the same one. `record` also covers what a broker added: queueId, queueOffset,
storeTimestamp, sysFlag. Neither covers physicalOffset. Two messages have one fingerprint only by
chance, or because somebody made two such messages on purpose.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from reput.store_format.kernels.bytes import get_i64
from reput.store_format.kernels.jit import inlined, kernel
from reput.store_format.layouts import RECORD_AT
from reput.store_format.log.columns import host_at
from reput.store_format.log.properties import KEYS, UNIQ_KEY, ValueSpans, find_properties
from reput.store_format.log.records import Bytes, RecordRules, Rows

PRINT = np.dtype(
    [
        ("message", "<i8", 2),
        ("record", "<i8", 2),
        ("place", "<i8"),  # physicalOffset
        ("bad", "<i8"),  # 1: the body does not match its CRC
    ]
)
assert PRINT.itemsize == 48

Prints = npt.NDArray[Any]

# Odd numbers of 64 bits without a pattern (fractions of the golden ratio, of square roots).
_FACTORS = (0x9E3779B97F4A7C15 - (1 << 64), 0x6A09E667F3BCC909)
_SEEDS = (0x3C6EF372FE94F82B, 0x510E527FADE682D1)
_LENGTH_MARK = 0x5BE0CD19137E2179
_F0, _F1 = _FACTORS
_S0, _S1 = _SEEDS


@inlined
def _mixed(hashed: int, value: int, factor: int) -> int:
    hashed = (hashed ^ value) * factor
    return hashed ^ (hashed >> 32)


@inlined
def _text(hashed: int, buf: Bytes, at: int, end: int, factor: int) -> int:
    """Mix in buf[at:end], and how long it is."""
    hashed = _mixed(hashed, _LENGTH_MARK + end - at, factor)
    while at + 8 <= end:
        hashed = _mixed(hashed, get_i64(buf, at), factor)
        at += 8
    while at < end:
        hashed = _mixed(hashed, np.int64(buf[at]), factor)  # type: ignore[arg-type]
        at += 1
    return hashed


@inlined
def _message(
    seed: int, factor: int, window: Bytes, row: Any, rules: RecordRules, spans: ValueSpans
) -> int:
    hashed = _text(seed, window, row.topicAt, row.topicAt + row.topicLength, factor)
    hashed = _mixed(hashed, row.bodyCRC, factor)
    hashed = _mixed(hashed, row.bodyLength, factor)
    if spans[UNIQ_KEY, 0] >= 0:
        return _text(hashed, window, spans[UNIQ_KEY, 0], spans[UNIQ_KEY, 1], factor)
    at, stop = host_at(row, False, rules)
    hashed = _text(hashed, window, at, stop, factor)
    hashed = _mixed(hashed, get_i64(window, row.at + RECORD_AT.bornTimestamp), factor)
    if spans[KEYS, 0] >= 0:
        hashed = _text(hashed, window, spans[KEYS, 0], spans[KEYS, 1], factor)
    return hashed


@inlined
def _record(hashed: int, factor: int, row: Any) -> int:
    hashed = _mixed(hashed, row.queueId, factor)
    hashed = _mixed(hashed, row.queueOffset, factor)
    hashed = _mixed(hashed, row.storeTimestamp, factor)
    return _mixed(hashed, row.sysFlag, factor)


@kernel
def make_prints(
    window: Bytes, rows: Rows, rules: RecordRules, split_properties: bool, spans: ValueSpans,
    out: Prints,
) -> None:  # fmt: skip
    """Fill out (PRINT) for each row; `bad` becomes 0.

    A message is known by its UNIQ_KEY, or where it has none by bornHost, bornTimestamp and KEYS;
    and by topic, bodyCRC and the body's length. spans: as `find_properties` wants them.
    """
    for i in range(len(rows)):
        row = rows[i]
        at = row.propertiesAt
        find_properties(window, at, at + row.propertiesLength, split_properties, spans)
        one = _message(_S0, _F0, window, row, rules, spans)
        two = _message(_S1, _F1, window, row, rules, spans)
        out[i].message[0], out[i].message[1] = one, two
        out[i].record[0] = _record(one, _F0, row)
        out[i].record[1] = _record(two, _F1, row)
        out[i].place = row.physicalOffset
        out[i].bad = 0


def among(some: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each of `some` is one of `others`; both are fingerprints, int64 of shape (n, 2)."""
    order = np.argsort(others[:, 0], kind="stable")
    place = np.searchsorted(others[order, 0], some[:, 0])
    found = np.zeros(len(some), np.bool_)
    left = np.flatnonzero(place < len(others))
    while len(left):  # once, unless several of `others` share a first half
        same = others[order[place[left]]] == some[left]
        found[left] = same.all(axis=1)
        place[left] += 1
        left = left[same[:, 0] & ~same[:, 1] & (place[left] < len(others))]
    return found
