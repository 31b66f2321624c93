"""Connections to live name servers and brokers, by remoting: signed, by TLS, each with one request
at a time.
"""

import ssl
import time
from itertools import count
from socket import create_connection, socket

from reput.broker.wire import remoting
from reput.broker.wire.producing import TargetBroker, parse_route, route_request
from reput.store_format.faults import PeerFailed

Address = tuple[str, int]
_CONNECT_SECONDS, _ANSWER_SECONDS, _IDLE_SECONDS = 5.0, 10.0, 30.0
_RECEIVE_BYTES = 1 << 16
_OK, _NO_TOPIC = 0, 17  # ResponseCode.SUCCESS, TOPIC_NOT_EXIST


class NotReached(OSError):
    """Nothing of a request was sent."""


class Cluster:
    """Peers, and the brokers that name servers know. keys: access and secret key that sign
    requests; tls: of connections, None for plain ones.
    """

    def __init__(
        self, servers: list[Address] | None = None, keys: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._servers, self._keys, self._tls = servers or [], keys, tls
        self._open: dict[Address, tuple[socket, remoting.Frames, float]] = {}
        self._routes: dict[str, list[TargetBroker]] = {}
        self._numbers = count(1)

    def close(self) -> None:
        for address in list(self._open):
            self._close(address)

    def route(self, topic: str) -> list[TargetBroker]:
        """The brokers that take messages of a topic, none if the name server knows none.

        Raises PeerFailed if no name server answers as one does.
        """
        if topic in self._routes:
            return self._routes[topic]
        why = ""
        for address in self._servers:
            try:
                answer = self.ask(address, route_request(topic))
                if answer.code not in (_OK, _NO_TOPIC):
                    raise remoting.BadFrame(f"answers {answer.code} {answer.remark or ''}")
                found = parse_route(answer.body or b"") if answer.code == _OK else []
                return self._routes.setdefault(topic, found)
            except (OSError, remoting.BadFrame) as error:
                why = f"{address[0]}:{address[1]}: {error}"
        raise PeerFailed(f"name server {why}")

    def forget(self, topic: str) -> None:
        """Ask for the route anew when it is needed next."""
        self._routes.pop(topic, None)

    def ask(self, address: Address, command: remoting.Command) -> remoting.Command:
        """The answer to a request. Raises NotReached; after that OSError or BadFrame, by which
        nobody knows whether the request was obeyed.
        """
        peer, frames = self._connected(address)
        sent = command._replace(opaque=next(self._numbers))
        if self._keys is not None:
            fields = {**sent.fields, remoting.ACCESS_KEY: self._keys[0]}
            fields[remoting.SIGNATURE] = remoting.signature(fields, sent.body or b"", self._keys[1])
            sent = sent._replace(fields=fields)
        deadline = time.monotonic() + _ANSWER_SECONDS
        try:
            peer.settimeout(_ANSWER_SECONDS)
            peer.sendall(remoting.frame(sent))
            while (
                (found := frames.next()) is None
                or not found.is_response
                or (
                    found.opaque != sent.opaque  # a late answer
                )
            ):
                if found is not None:  # or a broker's own request
                    continue
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError("timed out")
                peer.settimeout(left)
                data = peer.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionError("the connection was closed before the answer")
                frames.feed(data)
        except BaseException:
            self._close(address)
            raise
        self._open[address] = peer, frames, time.monotonic()
        return found

    def _connected(self, address: Address) -> tuple[socket, remoting.Frames]:
        if address in self._open:
            peer, frames, used = self._open[address]
            if time.monotonic() - used < _IDLE_SECONDS:  # brokers close those that are idle
                return peer, frames
            self._close(address)
        try:
            peer = create_connection(address, _CONNECT_SECONDS)
            if self._tls is not None:
                peer = self._tls.wrap_socket(peer, server_hostname=address[0])
        except (OSError, ValueError) as error:  # ValueError: what is no host's name
            why = getattr(error, "strerror", None) or error
            raise NotReached(f"cannot be reached: {why}") from None
        frames = remoting.Frames(remoting.FRAME_MOST)
        self._open[address] = peer, frames, time.monotonic()
        return peer, frames

    def _close(self, address: Address) -> None:
        if address in self._open:
            self._open.pop(address)[0].close()
