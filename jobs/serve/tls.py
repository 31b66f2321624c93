"""TLS on the same port as plain connections (NettyRemotingServer's HandshakeHandler). A client's
first byte shows whether it wants TLS.

`Tls` has no socket: received bytes go in, bytes to be sent come out.
"""

import os
import ssl
import stat
from dataclasses import dataclass

from reput.store_format.faults import StoreError

_HANDSHAKE = 0x16  # first byte of a TLS record with a handshake; frames begin with 0 or 1
_READ_BYTES = 1 << 16


class PlainRefused(Exception):
    """A client does not use TLS although it must."""


class Tls:
    """The TLS of one connection."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def received(self, data: bytes) -> bytes:
        """The plain text of received bytes; b"" if no record is complete. Raises ssl.SSLError."""
        self._incoming.write(data)
        plain = bytearray()
        try:
            while some := self._tls.read(_READ_BYTES):
                plain += some
        except ssl.SSLWantReadError:
            pass
        return bytes(plain)

    def encrypt(self, data: bytes) -> None:
        """Encrypt data to be sent, for `outgoing`. Raises ssl.SSLError."""
        self._tls.write(data)

    def outgoing(self) -> bytes:
        """The bytes to be sent now, also those of the handshake."""
        return self._outgoing.read()


@dataclass(frozen=True)
class TlsMode:
    """Whether connections may be, or must be, TLS (TlsMode.PERMISSIVE, ENFORCING)."""

    context: ssl.SSLContext
    required: bool

    def begin(self, first: bytes) -> Tls | None:
        """The TLS of a connection with these first bytes; None: plain. Raises PlainRefused."""
        if first[0] == _HANDSHAKE:
            return Tls(self.context)
        if self.required:
            raise PlainRefused
        return None


def tls_mode(certificate: str, key: str, required: bool) -> TlsMode:
    """TLS with a certificate, its chain and its key, as PEM. Raises StoreError, OSError."""
    refuse_readable_by_others(key, os.stat(key).st_mode)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # without `password` OpenSSL would ask for a key's password at the terminal
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        reason = error.reason or "is no PEM that OpenSSL reads"
        raise StoreError(
            f"{certificate}, {key}: certificate and key do not fit: {reason}"
        ) from None
    return TlsMode(context, required)


def refuse_readable_by_others(path: str, mode: int) -> None:
    """Raise StoreError if anyone but its owner can read or write a file of secrets."""
    if not stat.S_ISREG(mode):
        raise StoreError(f"{path}: is no file")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise StoreError(
            f"{path}: others than its owner can read or write it (mode {stat.S_IMODE(mode):o}): "
            "chmod 600 makes it fit for secrets"
        )
