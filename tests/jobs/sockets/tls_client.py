"""A client's end of TLS, carried by hand, and where the tests' certificate is."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

from reput.jobs.sockets.connection import Tls

MADE = Path(__file__).parent / "tls"  # by openssl req -x509 -newkey ec, for a hundred years


def put_files(folder: Path) -> Path:
    """A certificate and its key, which nobody else may read."""
    for name in ("cert.pem", "key.pem"):
        shutil.copy(MADE / name, folder / name)
    (folder / "key.pem").chmod(0o600)
    return folder


class Client:
    """A client's end, whose bytes are carried by hand."""

    def __init__(self) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)

    def handshake(self, server: Tls, piece: int) -> None:
        """Until it is done; `piece` bytes come at once."""
        for _ in range(4):
            try:
                self.tls.do_handshake()
                done = True
            except ssl.SSLWantReadError:
                done = False
            assert self.carry(server, piece) == b""
            self.incoming.write(server.outgoing())
            if done:
                return
        raise AssertionError("no end of the handshake")

    def carry(self, server: Tls, piece: int) -> bytes:
        raw = self.outgoing.read()
        pieces = [raw[at : at + piece] for at in range(0, len(raw), piece)]
        return b"".join(map(server.received, pieces))
