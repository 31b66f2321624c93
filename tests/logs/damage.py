"""Strategies that damage a log, as disks, crashes and RocketMQ's own truncation do."""

import struct

from hypothesis import strategies as st

from tests.logs.encoder import BLANK_SIZE, MAGIC_BLANK, Message, encode

SIZES = [0, 1, 3, 4, 7, 8, 90, 91, -1, -(1 << 31), (1 << 31) - 1]
KINDS = ["flip", "flip", "torn", "garbage", "size", "blank size", "misplaced", "stale",
    "zeroed segments", "zero length segment"]  # fmt: skip


def record_places(segments: dict[int, bytes]) -> list[int]:
    """The physical offset of every record, by walking the sizes of an undamaged log."""
    places = []
    for base, segment in segments.items():
        at = 0
        while at + BLANK_SIZE <= len(segment):
            size, magic = struct.unpack_from(">iI", segment, at)
            if magic in (0, MAGIC_BLANK):
                break
            places.append(base + at)
            at += size
    return places


@st.composite
def damaged(
    draw: st.DrawFn, segments: dict[int, bytes], messages: list[Message]
) -> dict[int, bytes]:
    """The log as it is, more often than not; else damaged in one way."""
    kind = draw(st.sampled_from(["none"] * len(KINDS) + KINDS))
    if kind == "none":
        return segments
    log = {base: bytearray(segment) for base, segment in segments.items()}
    segment_size = len(next(iter(log.values())))
    last = max(log)
    places = record_places(segments)
    place = draw(st.sampled_from(places))
    base = max(start for start in log if start <= place)
    at = place - base
    size = _size(log[base], at)
    # Where the last segment's last record ends; a tail of zeros cannot tell, as records may end
    # in zeros too.
    final = places[-1] - last
    end = final + _size(log[last], final) if final >= 0 else 0
    match kind:
        case "flip":
            log[base][at + draw(st.integers(0, size - 1))] ^= 1 << draw(st.integers(0, 7))
        case "torn":
            # The last record, cut at any of its bytes: zeros behind.
            cut = max(final, 0)
            cut += draw(st.integers(0, max(end - cut - 1, 0)))
            log[last][cut:] = bytes(segment_size - cut)
        case "garbage":
            garbage = draw(st.binary(min_size=1, max_size=40))[: segment_size - end]
            log[last][end : end + len(garbage)] = garbage
        case "size":
            struct.pack_into(">i", log[base], at, draw(st.sampled_from([*SIZES, size + 1])))
        case "blank size":
            # In a record's place a BLANK, of a size that may be wrong.
            wrong = draw(st.sampled_from([*SIZES, segment_size - at, segment_size - at + 1]))
            struct.pack_into(">iI", log[base], at, wrong, MAGIC_BLANK)
        case "misplaced":
            struct.pack_into(">q", log[base], at + 28, draw(st.sampled_from([0, place + 1, -1])))
        case "stale":
            # Whole records behind the end, at the wrong place or at their own.
            gap = draw(st.sampled_from([0, 1, 30]))
            right = draw(st.booleans())
            stale = encode(messages[0], last + end + gap if right else places[0])
            if end + gap + len(stale) <= segment_size:
                log[last][end + gap : end + gap + len(stale)] = stale
        case "zeroed segments":
            # A log that ends in the middle of a segment: later ones are all zeros.
            for start in [start for start in log if start > base]:
                log[start] = bytearray(segment_size)
        case "zero length segment":
            log[last + segment_size] = bytearray()
    return {start: bytes(segment) for start, segment in log.items()}


def _size(segment: bytearray, at: int) -> int:
    return struct.unpack_from(">i", segment, at)[0]
