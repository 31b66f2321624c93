"""Frames: reads commands from a stream of bytes, and writes them (NettyDecoder, NettyEncoder).

A frame is: an int, the length of the rest; an int whose upper byte is the header's Serialization
and whose lower three bytes are the header's length; the header; the body, up to the frame's end.
"""

import struct
from collections.abc import Callable

from reput.broker.remoting.command import BadFrame, Command, Serialization
from reput.broker.remoting.header_binary import decode_binary, encode_binary
from reput.broker.remoting.header_json import decode_json, encode_json

FRAME_MOST = 1 << 24  # com.rocketmq.remoting.frameMaxLength
HEADER_MOST = 1 << 18  # a message's properties, of 32 KB at most, travel in a header
BODY_MOST = 1 << 20  # only requests to store a message have a longer body, which is skipped
_HEAD = struct.Struct(">iI")
_LENGTH_BYTES = 4

Decode = Callable[[bytes], Command]


class Frames:
    """Reads commands from the bytes of a stream, which are fed as they come.

    It holds at most one frame, of which a body beyond `body_most` bytes is skipped, and the bytes
    that were fed after the frame. After BadFrame nothing can be read any more.
    """

    def __init__(self, body_most: int = BODY_MOST) -> None:
        self._body_most = body_most
        self._held = bytearray()
        self._at = 0  # where the next frame begins
        self._passed_over: Command | None = None  # the command whose body is being skipped
        self._to_pass = 0  # bytes of its frame that are still to come

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take more bytes; `next` returns the commands that are now complete."""
        if self._to_pass:
            passed = min(self._to_pass, len(data))
            self._to_pass -= passed
            data = data[passed:]
        if self._at:
            del self._held[: self._at]
            self._at = 0
        self._held += data

    @property
    def waiting(self) -> int:
        """The number of bytes held of a frame that is not complete."""
        return len(self._held) - self._at

    def next(self) -> Command | None:
        """The next command, or None if it is not complete. Raises BadFrame."""
        if self._passed_over is not None:
            if self._to_pass:
                return None
            command, self._passed_over = self._passed_over, None
            return command
        held, at = self._held, self._at
        if len(held) - at < _HEAD.size:
            return None
        total, header_bytes, decode = _head(held, at)
        header_at = at + _HEAD.size
        body_at = header_at + header_bytes
        if len(held) < body_at:
            return None
        end = at + _LENGTH_BYTES + total
        if end - body_at > self._body_most:
            return self._pass_over(decode(bytes(held[header_at:body_at])), end)
        if len(held) < end:
            return None
        command = decode(bytes(held[header_at:body_at]))
        self._at = end
        return command._replace(body=bytes(held[body_at:end])) if end > body_at else command

    def _pass_over(self, command: Command, end: int) -> Command | None:
        self._to_pass = max(end - len(self._held), 0)
        self._at = min(end, len(self._held))
        self._passed_over = command._replace(body=None)
        return self.next()


def _head(held: bytearray, at: int) -> tuple[int, int, Decode]:
    """(number of bytes after the first int, of the header; its decoder). Raises BadFrame."""
    total, marked = _HEAD.unpack_from(held, at)
    header_bytes, kind = marked & 0xFFFFFF, marked >> 24
    if not _LENGTH_BYTES <= total <= FRAME_MOST:
        raise BadFrame(f"a frame of {total} bytes: {_LENGTH_BYTES} to {FRAME_MOST} are taken")
    if header_bytes > min(total - _LENGTH_BYTES, HEADER_MOST):
        raise BadFrame(f"a header of {header_bytes} bytes in a frame of {total}")
    if kind == Serialization.JSON:
        return total, header_bytes, decode_json
    if kind == Serialization.ROCKETMQ:
        return total, header_bytes, decode_binary
    raise BadFrame(f"a header of serialisation {kind}: 0 is JSON, 1 RocketMQ's own")


def frame_head(command: Command, body_bytes: int) -> bytes:
    """The bytes of a frame before its body. body_bytes: the body's length."""
    binary = command.serialization == Serialization.ROCKETMQ
    header = encode_binary(command) if binary else encode_json(command)
    marked = command.serialization << 24 | len(header)
    return _HEAD.pack(_LENGTH_BYTES + len(header) + body_bytes, marked) + header


def frame(command: Command) -> bytes:
    """The bytes of a command and its body."""
    body = command.body or b""
    return frame_head(command, len(body)) + body
