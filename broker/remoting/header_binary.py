"""Headers in RocketMQ's own binary form (RocketMQSerializable)."""

import struct

from reput.broker.remoting.codes import Language
from reput.broker.remoting.command import BadFrame, Command, Serialization

_FIXED = struct.Struct(">hBhii")  # code, language, version, opaque, flag
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LANGUAGES = frozenset(map(int, Language))


def decode_binary(header: bytes) -> Command:
    """The command of a header, without its body. Raises BadFrame."""
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, at = _text(header, _FIXED.size, _INT)
        (length,) = _INT.unpack_from(header, at)
    except struct.error:
        raise BadFrame(f"the header ends within its fixed part, at {len(header)}") from None
    at += _INT.size
    if length < 0 or at + length > len(header):
        raise BadFrame(f"the header's extFields have {length} bytes, {len(header) - at} are there")
    fields, raw, at = {}, header[at : at + length], 0
    while at < length:
        try:
            name, at = _text(raw, at, _SHORT)
            value, at = _text(raw, at, _INT)
        except struct.error:
            raise BadFrame("the header's extFields end within a field") from None
        if name is not None and value is not None:
            fields[name] = value
    return Command(
        code, opaque, flag, fields, b"", remark, version,
        language if language in _LANGUAGES else Language.OTHER, Serialization.ROCKETMQ,
    )  # fmt: skip


def _text(header: bytes, at: int, width: struct.Struct) -> tuple[str | None, int]:
    """(the text after its length, the offset of its end); None for an empty text, as in Java."""
    (length,) = width.unpack_from(header, at)
    at += width.size
    if length < 0 or at + length > len(header):
        raise BadFrame(f"a text of the header has {length} bytes, {len(header) - at} are there")
    raw = header[at : at + length]
    return (raw.decode("utf-8", "replace") if length else None), at + length


def encode_binary(command: Command) -> bytes:
    """The header of a command."""
    remark = (command.remark or "").encode("utf-8", "replace")
    fields = b"".join(
        _prefixed(name, _SHORT) + _prefixed(value, _INT) for name, value in command.fields.items()
    )
    return b"".join(
        (
            _FIXED.pack(
                _short(command.code), command.language, _short(command.version), command.opaque,
                command.flag,
            ),
            _INT.pack(len(remark)), remark, _INT.pack(len(fields)), fields,
        )
    )  # fmt: skip


def _short(value: int) -> int:
    """The lower 16 bits, as Java's cast to a short leaves them."""
    return (int(value) + (1 << 15)) % (1 << 16) - (1 << 15)


def _prefixed(text: str, width: struct.Struct) -> bytes:
    raw = text.encode("utf-8", "replace")
    return width.pack(len(raw)) + raw
