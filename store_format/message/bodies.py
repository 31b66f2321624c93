"""Bodies: how to decompress one, and to take an inner batch apart (MessageDecoder)."""

import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from reput.store_format import layouts
from reput.store_format.faults import StoreError

# CompressionType.findByValue. Releases before 4.9.4 leave these bits 0.
_ZLIB, _LZ4, _ZSTD = "zlib", "lz4", "zstd"
_CODECS = {0: _ZLIB, 1: _LZ4, 2: _ZSTD, 3: _ZLIB}
_PIECE = 1 << 16
BODY_MOST = 64 << 20  # bytes of one decompressed body; RocketMQ accepts messages of 4 MiB
_INNER = layouts.as_struct(layouts.INNER_MESSAGE)


class BodyError(StoreError):
    """A body contradicts its message's sysFlag. The error's text quotes nothing of the body."""


class NotCompressed(BodyError):
    """A body that is compressed by its sysFlag is not, or is cut short or damaged.

    A client throws such a message away, with all others of the same pull (RocketMQ #1375).
    """


class UnknownCompression(BodyError):
    """The flags name a compression that RocketMQ does not have."""


class BodyPastCap(BodyError):
    """The decompressed body is longer than `cap` bytes; `start` has the first `cap`."""

    def __init__(self, cap: int, start: bytes) -> None:
        self.cap, self.start = cap, start
        super().__init__(f"body: decompressed it is longer than {cap} bytes")


class BrokenBatch(BodyError):
    """The messages of an inner batch do not fit into its body."""


class InnerMessage(NamedTuple):
    """One message of an inner batch. The record has all other fields; queueOffset counts up."""

    flag: int
    body: bytes
    properties: bytes  # name 01 value 02, ..., as in the body


def compression(sys_flag: int) -> str | None:
    """`zlib`, `lz4` or `zstd`, by sysFlag; None: not compressed. Raises UnknownCompression."""
    if not sys_flag & layouts.SYS_COMPRESSED:
        return None
    kind = (sys_flag & layouts.SYS_COMPRESSION_MASK) >> layouts.SYS_COMPRESSION_SHIFT
    if kind not in _CODECS:
        raise UnknownCompression(f"sysFlag {sys_flag:#x}: RocketMQ has no compression {kind}")
    return _CODECS[kind]


def decompressed(body: bytes, sys_flag: int, cap: int) -> bytes:
    """The body as its producer gave it; the same object if it is not compressed.

    cap: the most bytes that may come out. An empty body is never decompressed
    (MessageDecoder.decode). Raises NotCompressed, UnknownCompression, BodyPastCap.
    """
    codec = compression(sys_flag)
    if codec is None or not body:
        return body
    try:
        out = _inflated(body, cap) if codec == _ZLIB else _streamed(body, codec, cap)
    except (zlib.error, OSError, EOFError):
        raise NotCompressed(
            f"body: sysFlag {sys_flag:#x} says {codec}, but the {len(body)} bytes are not"
        ) from None
    if len(out) > cap:
        raise BodyPastCap(cap, out[:cap])
    return out


def _inflated(body: bytes, cap: int) -> bytes:
    """At most cap + 1 bytes. Bytes after the stream's end are ignored, as by Java's Inflater."""
    inflater = zlib.decompressobj()
    out = inflater.decompress(body, cap + 1)
    if len(out) <= cap and not inflater.eof:
        raise EOFError
    return out


def _streamed(body: bytes, codec: str, cap: int) -> bytes:
    """At most cap + 1 bytes of frames, one after the other."""
    import pyarrow as pa  # imported here: it takes a tenth of a second

    pieces, count = [], 0
    with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
        while count <= cap:
            piece = stream.read(min(_PIECE, cap + 1 - count))
            if not piece:
                break
            pieces.append(piece)
            count += len(piece)
    return b"".join(pieces)


def is_batch(sys_flag: int) -> bool:
    """Whether a record's body has several messages, which a client takes apart (5.0.0 on)."""
    both = layouts.SYS_INNER_BATCH | layouts.SYS_NEED_UNWRAP
    return sys_flag & both == both


def inner_messages(body: bytes) -> Iterator[InnerMessage]:
    """The messages in the (decompressed) body of an inner batch (MessageDecoder.decodeMessages).

    Their own totalSize, magic and bodyCRC are not checked. Raises BrokenBatch.
    """
    at = 0
    while at < len(body):
        if at + _INNER.size > len(body):
            raise _broken(at, "totalSize", "a message's first fields are cut short")
        _, _, _, flag, length = _INNER.unpack_from(body, at)
        body_at, end = at + _INNER.size, at + _INNER.size + length
        if length < 0 or end + layouts.PROPERTIES_LENGTH > len(body):
            raise _broken(at, "bodyLength", f"{length} is negative, or reaches past the batch")
        properties_at = end + layouts.PROPERTIES_LENGTH
        count = int.from_bytes(body[end:properties_at], "big", signed=True)
        if count < 0 or properties_at + count > len(body):
            raise _broken(at, "propertiesLength", f"{count} is negative, or reaches past the batch")
        at = properties_at + count
        yield InnerMessage(flag, body[body_at:end], body[properties_at:at])


def encode_inner(messages: Iterable[InnerMessage]) -> bytes:
    """The body of an inner batch (MessageDecoder.encodeMessage, which leaves magic and CRC 0)."""
    made = []
    for flag, body, properties in messages:
        size = _INNER.size + len(body) + layouts.PROPERTIES_LENGTH + len(properties)
        made += [_INNER.pack(size, 0, 0, flag, len(body)), body]
        made += [len(properties).to_bytes(layouts.PROPERTIES_LENGTH, "big"), properties]
    return b"".join(made)


def _broken(at: int, field: str, reason: str) -> BrokenBatch:
    return BrokenBatch(f"inner batch: offset {at} of the body: {field}: {reason}")
