"""A file of a backup repository: zstd frames of 1 MiB of plain bytes each, and where they are.

It is, from its start:

- the frames, each but the last of FRAME_BYTES plain bytes;
- a skippable frame (magic 0x184D2A50) with the CRC-32 of each frame's plain bytes, as zstd frames
  of pyarrow have no checksum, and a record's own CRC is of its body alone;
- a skippable frame (magic 0x184D2A5E): the seek table of zstd's "seekable format", without its
  checksums: of each frame the stored and the plain size, the number of frames, a byte 0, and the
  magic number 0x8F92EAB1.

All numbers are unsigned, of 32 bits, little-endian. So `zstd -d` gives the plain bytes, and a byte
is read by two reads: of the tail, as long as the number of plain bytes says, and of a frame.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import accumulate
from threading import Lock
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from reput.store_format.faults import PieceBroken, StoreChanged
from reput.store_format.files.protocol import Bytes, Data, Reader, Storage

FRAME_BYTES = 1 << 20
Crc = Callable[[Data], int]  # the CRC-32 of bytes: zlib's, or a faster

_SUMS_MAGIC, _TABLE_MAGIC, _SEEKABLE_MAGIC = 0x184D2A50, 0x184D2A5E, 0x8F92EAB1
_HEAD = struct.Struct("<II")  # of a skippable frame: magic, bytes after it
_SUM, _ENTRY, _FOOTER = struct.Struct("<I"), struct.Struct("<II"), struct.Struct("<IBI")


class Frame(NamedTuple):
    """A frame. at, stored: its place and bytes in the file; plain: its plain bytes."""

    at: int
    stored: int
    plain: int
    crc: int


Table = tuple[Frame, ...]


class Packed(NamedTuple):
    """A frame that was made, with what the tables say of it."""

    frame: bytes
    plain: int
    crc: int


def pack(plain: Data, level: int | None = None, crc: Crc = crc32) -> Packed:
    """A frame of at most FRAME_BYTES. level: zstd's, by default pyarrow's own."""
    return Packed(_codec(level).compress(plain, asbytes=True), len(plain), crc(plain))


def joined(frames: Sequence[Packed]) -> bytes:
    """The file of frames, of which each but the last has FRAME_BYTES."""
    sums = b"".join(_SUM.pack(each.crc) for each in frames)
    entries = [_ENTRY.pack(len(each.frame), each.plain) for each in frames]
    table = b"".join([*entries, _FOOTER.pack(len(frames), 0, _SEEKABLE_MAGIC)])
    heads = _HEAD.pack(_SUMS_MAGIC, len(sums)), _HEAD.pack(_TABLE_MAGIC, len(table))
    return b"".join([*(each.frame for each in frames), heads[0], sums, heads[1], table])


def compress(plain: Data, level: int | None = None, crc: Crc = crc32) -> bytes:
    """The file of some bytes."""
    view = memoryview(plain).cast("B")
    parts = (view[at : at + FRAME_BYTES] for at in range(0, len(view), FRAME_BYTES))
    return joined([pack(part, level, crc) for part in parts])


def tail_bytes(length: int) -> int:
    """The length of what is after the frames of so many plain bytes."""
    count = -(-length // FRAME_BYTES)
    return _HEAD.size + count * _SUM.size + _HEAD.size + count * _ENTRY.size + _FOOTER.size


def read_table(tail: bytes, length: int, stored: int) -> Table:
    """The frames, by the last `tail_bytes` of a file.

    length: of the plain bytes; stored: of the file. Raises PieceBroken (without the file's name)
    unless the frames are as `compress` makes them and fill the file: none is larger than it may be,
    so that what is read and decoded is bounded.
    """
    count = -(-length // FRAME_BYTES)
    if length < 0 or len(tail) != tail_bytes(length) or len(tail) > stored:
        raise PieceBroken(f"{stored} bytes cannot hold {length} plain bytes")
    sums_at, table_at = _HEAD.size, 2 * _HEAD.size + count * _SUM.size
    heads = _HEAD.unpack_from(tail), _HEAD.unpack_from(tail, table_at - _HEAD.size)
    wanted = (_SUMS_MAGIC, count * _SUM.size), (
        _TABLE_MAGIC, count * _ENTRY.size + _FOOTER.size,
    )  # fmt: skip
    footer = _FOOTER.unpack_from(tail, len(tail) - _FOOTER.size)
    if heads != wanted or footer != (count, 0, _SEEKABLE_MAGIC):
        raise PieceBroken(f"does not end with the tables of {count} frames")
    sizes = [_ENTRY.unpack_from(tail, table_at + n * _ENTRY.size) for n in range(count)]
    for number, (packed, plain) in enumerate(sizes):
        wants = min(FRAME_BYTES, length - number * FRAME_BYTES)
        if plain != wants or not 0 < packed <= _bound(plain):
            raise PieceBroken(
                f"frame {number} of the seek table: {packed} stored bytes of {plain}, which has "
                f"{wants}"
            )
    ends = list(accumulate((packed for packed, _ in sizes), initial=0))
    if ends[-1] + len(tail) != stored:
        raise PieceBroken(
            f"the frames of the seek table have {ends[-1]} bytes, the file has "
            f"{stored - len(tail)} before its tables"
        )
    crcs = (_SUM.unpack_from(tail, sums_at + n * _SUM.size)[0] for n in range(count))
    return tuple(map(Frame, ends, (packed for packed, _ in sizes), (n for _, n in sizes), crcs))


def decode(frame: Frame, raw: Data, crc: Crc = crc32) -> memoryview:
    """The plain bytes of a frame, checked. raw: its stored bytes. Raises PieceBroken."""
    try:
        plain = memoryview(_codec(None).decompress(raw, decompressed_size=frame.plain)).cast("B")
    except OSError as error:
        raise PieceBroken(f"the frame at {frame.at}: {str(error).splitlines()[0]}") from None
    if crc(plain) != frame.crc:
        raise PieceBroken(f"the frame at {frame.at}: its bytes have not the CRC-32 of the table")
    return plain


def decode_all(stored: Data, length: int, crc: Crc = crc32) -> Bytes:
    """The plain bytes of a whole file. Raises as `read_table` and `decode` do."""
    view = memoryview(stored).cast("B")
    tail = view[max(len(view) - tail_bytes(length), 0) :].tobytes()
    table = read_table(tail, length, len(view))
    plain = np.empty(length, np.uint8)
    for begin, frame in zip(range(0, length, FRAME_BYTES), table, strict=True):
        raw = view[frame.at : frame.at + frame.stored]
        plain[begin : begin + frame.plain] = decode(frame, raw, crc)
    return plain


def digest_of(stored: Data, length: int) -> str:
    """The SHA-256 of a file's plain bytes. Raises as `decode_all`."""
    return sha256(decode_all(stored, length)).hexdigest()


def _bound(plain: int) -> int:
    """The most that zstd makes of so many bytes, and some more (ZSTD_COMPRESSBOUND)."""
    return plain + (plain >> 8) + 1024


def _codec(level: int | None) -> Any:
    from pyarrow import Codec  # imported here: it takes a tenth of a second

    return Codec("zstd", compression_level=level)


# ---
# Ranges of packed files, with a few frames and tables in memory.

_FRAMES_MOST, _TABLES_MOST = 8, 256  # in memory
_FRAMES_AT_ONCE = 8  # of a request


class PackedFiles:
    """Reads ranges of the plain bytes of files on a storage; several threads may do so.

    It is sent to tasks without what it has in memory.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.crc: Crc = crc32
        self._lock = Lock()
        self._tables: OrderedDict[str, Table] = OrderedDict()
        self._frames: OrderedDict[tuple[str, int], memoryview] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedFiles, (self.storage,)

    def read(self, path: str, length: int, stored: int | None, at: int, view: memoryview) -> None:
        """Fill the view from plain byte `at` on. length, stored: of the file, plain and as it is;
        stored: None where that is to be asked. Raises PieceBroken, OSError.
        """
        try:
            with closing(self.storage.open(path)) as reader:
                table, end = self._table(path, reader, length, stored), at + len(view)
                wanted = range(at // FRAME_BYTES, -(-end // FRAME_BYTES))
                if end > length:
                    raise PieceBroken(f"has no frame {len(table)}")
                for number, plain in self._decoded(path, reader, table, wanted):
                    begin = number * FRAME_BYTES
                    some = plain[max(at - begin, 0) : end - begin]
                    to = max(begin - at, 0)
                    view[to : to + len(some)] = some
                    if len(some) < len(plain):
                        self._keep(self._frames, (path, number), plain, _FRAMES_MOST)
        except FileNotFoundError:
            raise PieceBroken(f"{path}: is missing") from None
        except (PieceBroken, StoreChanged) as error:
            raise PieceBroken(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None

    def _table(self, path: str, reader: Reader, length: int, stored: int | None) -> Table:
        with self._lock:
            known = self._tables.get(path)
        if known is None:
            size, wanted = reader.state.size if stored is None else stored, tail_bytes(length)
            tail = np.empty(wanted if wanted <= size else 0, np.uint8)
            try:
                reader.read_into(size - len(tail), tail)
                known = read_table(tail.tobytes(), length, size)
            except (PieceBroken, StoreChanged):
                if reader.state.size == size:
                    raise
                return self._table(path, reader, length, None)  # put again by another zstd
            self._keep(self._tables, path, known, _TABLES_MOST)
        return known

    def _decoded(
        self, path: str, reader: Reader, table: Table, wanted: range
    ) -> Iterator[tuple[int, memoryview]]:
        """Frames and their plain bytes: the first perhaps from memory, others by few requests."""
        with self._lock:
            known = self._frames.get((path, wanted.start))
        if known is not None:
            yield wanted.start, known
            wanted = wanted[1:]
        for first in wanted[::_FRAMES_AT_ONCE]:
            frames = table[first : min(first + _FRAMES_AT_ONCE, wanted.stop)]
            raw = np.empty(sum(frame.stored for frame in frames), np.uint8)
            reader.read_into(frames[0].at, raw)
            for number, frame in enumerate(frames, first):
                begin = frame.at - frames[0].at
                yield number, decode(frame, raw[begin : begin + frame.stored], self.crc)

    def _keep(self, known: "OrderedDict[Any, Any]", key: Any, value: Any, most: int) -> None:
        with self._lock:
            known[key] = value
            while len(known) > most:
                known.popitem(last=False)
