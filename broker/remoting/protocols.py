"""The protocol of a peer that does not speak remoting, by the first bytes that it sends."""

_HTTP2 = b"PRI * HTTP/2.0"  # the connection preface (RFC 9113, 3.4); gRPC is HTTP/2
_HTTP1 = (b"GET ", b"POST ", b"HEAD ", b"PUT ", b"OPTIONS ", b"CONNECT ", b"DELETE ")
_TLS = b"\x16\x03"  # a record with a handshake
FIRST_BYTES = len(_HTTP2)  # enough to tell the protocols apart


def protocol_of(first: bytes) -> str:
    """The protocol's name, for messages."""
    if first[:4] == _HTTP2[:4]:
        return "HTTP/2, as gRPC clients do"
    if first.startswith(_HTTP1):
        return "HTTP"
    if first.startswith(_TLS):
        return "TLS, which needs --tls-cert"
    return "another protocol"
