"""Peers that speak another protocol are known by their first bytes."""

import pytest

from reput.broker.wire.remoting import FIRST_BYTES, protocol_of


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"PRI * HTTP/2.0", "HTTP/2"),
        (b"PRI ", "HTTP/2"),
        (b"GET / HTTP/1.1", "HTTP"),
        (b"DELETE /topic ", "HTTP"),
        (b"GETS", "another protocol"),
        (b"\x16\x03\x01\x02\x00", "TLS"),
        (b"\x16\x04", "another protocol"),
        (b"SSH-2.0-OpenSS", "another protocol"),
        (b"", "another protocol"),
    ],
)
def test_a_protocol_is_named_by_its_first_bytes(first: bytes, name: str) -> None:
    assert protocol_of(first).split(",")[0] == name
    assert len(first) <= FIRST_BYTES
