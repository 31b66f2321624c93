"""The remoting protocol as bytes: commands, their headers in both forms, frames, and signatures."""

import base64
import hashlib
import hmac
import json
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from reput.broker.wire.codes import Language

# ---
# `Command`: one request or answer of the remoting protocol, as a value (RemotingCommand).

RESPONSE_BIT = 1 << 0
ONE_WAY_BIT = 1 << 1

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1


class BadFrame(ValueError):
    """Bytes that are no frame of the protocol: nothing can be read after them."""


class Serialization(IntEnum):
    """How a header is written (SerializeType); an answer's header is written like its request's."""

    JSON = 0
    ROCKETMQ = 1


class Command(NamedTuple):
    """One request or answer. `fields` are the header's own (extFields), as texts."""

    code: int  # of a RequestCode, or of a ResponseCode
    opaque: int = 0  # an answer has its request's opaque
    flag: int = 0
    fields: dict[str, str] = {}
    body: bytes | None = b""  # None: the body was too long and was skipped
    remark: str | None = None
    version: int = 0  # the sender's release, as a number of MQVersion
    language: int = Language.JAVA
    serialization: Serialization = Serialization.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_BIT)

    @property
    def is_one_way(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & ONE_WAY_BIT)


def is_int(value: object) -> bool:
    return type(value) is int and INT_MIN <= value <= INT_MAX


# ---
# Headers in RocketMQ's own binary form (RocketMQSerializable).

_FIXED = struct.Struct(">hBhii")  # code, language, version, opaque, flag
_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_LANGUAGE_NUMBERS = frozenset(map(int, Language))


def decode_binary(header: bytes) -> Command:
    """The command of a header, without its body. Raises BadFrame."""
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, at = _text_at(header, _FIXED.size, _INT)
        (length,) = _INT.unpack_from(header, at)
    except struct.error:
        raise BadFrame(f"the header ends within its fixed part, at {len(header)}") from None
    at += _INT.size
    if length < 0 or at + length > len(header):
        raise BadFrame(f"the header's extFields have {length} bytes, {len(header) - at} are there")
    fields, raw, at = {}, header[at : at + length], 0
    while at < length:
        try:
            name, at = _text_at(raw, at, _SHORT)
            value, at = _text_at(raw, at, _INT)
        except struct.error:
            raise BadFrame("the header's extFields end within a field") from None
        if name is not None and value is not None:
            fields[name] = value
    return Command(
        code, opaque, flag, fields, b"", remark, version,
        language if language in _LANGUAGE_NUMBERS else Language.OTHER, Serialization.ROCKETMQ,
    )  # fmt: skip


def _text_at(header: bytes, at: int, width: struct.Struct) -> tuple[str | None, int]:
    """(the text after its length, the offset of its end); None for an empty text, as in Java."""
    (length,) = width.unpack_from(header, at)
    at += width.size
    if length < 0 or at + length > len(header):
        raise BadFrame(f"a text of the header has {length} bytes, {len(header) - at} are there")
    raw = header[at : at + length]
    return (raw.decode("utf-8", "replace") if length else None), at + length


def encode_binary(command: Command) -> bytes:
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


# ---
# Headers as JSON, as fastjson reads and writes a RemotingCommand (RemotingSerializable).

_LANGUAGES = {language.name: int(language) for language in Language}
_NAMES = {int(language): language.name for language in Language}


def decode_json(header: bytes) -> Command:
    """The command of a header, without its body. Raises BadFrame."""
    try:
        fields = json.loads(header.decode("utf-8"))
    except (ValueError, RecursionError):
        raise BadFrame("the header is not JSON") from None
    if not isinstance(fields, dict):
        raise BadFrame("the header is not a JSON object")
    for name in ("code", "opaque", "flag", "version"):
        if not is_int(fields.get(name, 0)):
            raise BadFrame(f"the header's {name} is not an int")
    if "code" not in fields:
        raise BadFrame("the header has no code")
    remark = fields.get("remark")
    if not isinstance(remark, str | None):
        raise BadFrame("the header's remark is not text")
    language = fields.get("language")
    return Command(
        fields["code"],
        fields.get("opaque", 0),
        fields.get("flag", 0),
        _fields(fields.get("extFields")),
        b"",
        remark,
        fields.get("version", 0),
        _LANGUAGES.get(language, Language.OTHER) if isinstance(language, str) else Language.OTHER,
        Serialization.JSON,
    )


def _fields(fields: Any) -> dict[str, str]:
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise BadFrame("the header's extFields are no JSON object")
    if all(type(value) is str for value in fields.values()):
        return fields
    return {name: _field_text(value) for name, value in fields.items() if value is not None}


def _field_text(value: Any) -> str:
    """A field's text: clients in other languages than Java write numbers as JSON numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise BadFrame("one of the header's extFields is not text")


def encode_json(command: Command) -> bytes:
    """The header of a command, with its members in fastjson's order."""
    members = [f'"code":{int(command.code)}']
    if command.fields:
        fields = (
            f"{encode_basestring(name)}:{encode_basestring(value)}"
            for name, value in command.fields.items()
        )
        members.append(f'"extFields":{{{",".join(fields)}}}')
    language = _NAMES.get(command.language, Language.OTHER.name)
    members.append(f'"flag":{command.flag},"language":"{language}","opaque":{command.opaque}')
    if command.remark is not None:
        members.append(f'"remark":{encode_basestring(command.remark)}')
    members.append(f'"serializeTypeCurrentRPC":"JSON","version":{command.version}')
    return f"{{{','.join(members)}}}".encode("utf-8", "replace")


# ---
# Frames: reads commands from a stream of bytes, and writes them (NettyDecoder, NettyEncoder).
#
# A frame is: an int, the length of the rest; an int whose upper byte is the header's Serialization
# and whose lower three bytes are the header's length; the header; the body, up to the frame's end.

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

    @property
    def is_half_way(self) -> bool:
        return self.waiting > 0 or self._to_pass > 0

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
            self._to_pass = max(end - len(held), 0)
            self._at = min(end, len(held))
            self._passed_over = decode(bytes(held[header_at:body_at]))._replace(body=None)
            return self.next()
        if len(held) < end:
            return None
        command = decode(bytes(held[header_at:body_at]))
        self._at = end
        return command._replace(body=bytes(held[body_at:end])) if end > body_at else command


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
    body = command.body or b""
    return frame_head(command, len(body)) + body


# ---
# The protocol of a peer that does not speak remoting, by the first bytes that it sends.

_HTTP2 = b"PRI * HTTP/2.0"  # the connection preface (RFC 9113, 3.4); gRPC is HTTP/2
_HTTP1 = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"OPTIONS ", b"CONNECT ", b"DELETE ")
_TLS = b"\x16\x03"  # a record with a handshake
FIRST_BYTES = len(_HTTP2)  # enough to tell the protocols apart


def protocol_of(first: bytes) -> str:
    if first[:4] == _HTTP2[:4]:
        return "HTTP/2, as gRPC clients do"
    if first.startswith(_HTTP1):
        return "HTTP"
    if first.startswith(_TLS):
        return "TLS, which needs --tls-cert"
    return "another protocol"


# ---
# Signatures of requests (ACL 1.0: AclClientRPCHook signs, PlainAccessValidator checks).
#
# HMAC-SHA1 in Base64 over the values of the other header fields, sorted by name, and the body.

ACCESS_KEY, SIGNATURE = "AccessKey", "Signature"  # SessionCredentials
# MixAll.UNIQUE_MSG_QUERY_FLAG: PlainAccessValidator leaves this field out, since older clients add
# it after they have signed; newer clients sign it too.
_UNIQUE_QUERY = "_UNIQUE_KEY_QUERY"


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The value of the field Signature as a client computes it (AclUtils.calSignature)."""
    # String.compareTo orders by UTF-16 units, which above the BMP differs from Python's order.
    names = sorted((name for name in fields if name != SIGNATURE), key=_as_java)
    content = "".join(fields[name] for name in names).encode("utf-8", "replace") + body
    key = secret_key.encode("utf-8", "replace")
    return base64.b64encode(hmac.new(key, content, hashlib.sha1).digest()).decode()


def signed_by(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    """Whether the field Signature was computed with this secret key. Compares in constant time."""
    given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    without = {name: value for name, value in fields.items() if name != _UNIQUE_QUERY}
    whole = hmac.compare_digest(given, signature(fields, body, secret_key).encode())
    return hmac.compare_digest(given, signature(without, body, secret_key).encode()) or whole


def _as_java(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
