"""Frames of real clients and of a real broker, caught on the wire once (needs Maven).

`python -m tests.broker.wire.capture` puts a proxy between RocketMQ's client and `reput serve`,
and asks a real broker by socket; `frames.json` gets the first frame of each code, from each side.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from reput.broker.wire.remoting import Frames, Serialization, frame
from tests.jobs.sockets.asking import pull, request
from tests.jobs.sockets.broker_answers import prepared
from tests.rocketmq.driver import Driver
from tests.rocketmq.live import Broker

FRAMES = Path(__file__).parent / "frames.json"
_STORE, _TOPIC = "mixed_5.5.0", "Topic0"


class Proxy:
    """Passes on what comes, and keeps what the client sends."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listening.getsockname()[1]}"
        self.to = ""
        self.sent: list[bytearray] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self.listening.accept()
            host, _, port = self.to.rpartition(":")
            server = socket.create_connection((host, int(port)))
            kept = bytearray()
            self.sent.append(kept)
            for one, other, keep in ((client, server, kept), (server, client, bytearray())):
                threading.Thread(target=self._pump, args=(one, other, keep), daemon=True).start()

    @staticmethod
    def _pump(one: socket.socket, other: socket.socket, keep: bytearray) -> None:
        try:
            while data := one.recv(1 << 16):
                keep += data
                other.sendall(data)
        except OSError:
            pass
        other.close()


def cut(raw: bytes) -> list[bytes]:
    """The frames in a stream's bytes."""
    found, at = [], 0
    while at + 4 <= len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
        found.append(bytes(raw[at:end]))
        at = end
    return found


def of_client(release: str, kind: str, store: Path) -> list[dict[str, str]]:
    proxy = Proxy()
    serve = [str(Path(sys.executable).parent / "reput"), "serve", str(store)]
    serve += ["--listen", "127.0.0.1:0", "--address", proxy.address, "--set", "brokerName=judge"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout
        proxy.to = serving.stdout.readline().split()[1]
        options = (f"-Drocketmq.serialize.type={kind}",)
        with Driver(release, jvm=options) as client:
            client.ask("pull", namesrv=proxy.address, queues={_TOPIC: 1}, group="g", timeout=60)
        serving.terminate()
    seen, found = set(), []
    for raw in (each for kept in proxy.sent for each in cut(kept)):
        frames = Frames()
        frames.feed(raw)
        command = frames.next()
        if command is not None and command.code not in seen:
            seen.add(command.code)
            found.append({"from": f"client {release}", "as": kind, "hex": raw.hex()})
    return found


def of_broker(release: str, store: Path, settings: dict[str, object]) -> list[dict[str, str]]:
    found = []
    with Broker(release, store, **settings) as broker:
        for kind in Serialization:
            for address, asked in (
                (broker.namesrv, request(105, topic=_TOPIC)),
                (broker.namesrv, request(105, topic=_TOPIC)._replace(version=0)),
                (broker.namesrv, request(105, topic="NoSuchTopic")),
                (f"127.0.0.1:{broker.port}", request(30, topic=_TOPIC, queueId=0)),
                (f"127.0.0.1:{broker.port}", pull(_TOPIC, 0, 1 << 40)),
                (f"127.0.0.1:{broker.port}", request(9999))):  # fmt: skip
                host, _, port = address.rpartition(":")
                with socket.create_connection((host, int(port)), 20) as peer:
                    peer.sendall(frame(asked._replace(serialization=kind)))
                    raw = b""
                    while len(raw) < 4 or len(raw) < 4 + int.from_bytes(raw[:4], "big"):
                        raw += peer.recv(1 << 16)
                # a broker answers as its own setting says, whatever the request is written in
                written = Serialization(raw[4]).name
                row = {"from": f"broker {release}", "as": written, "hex": raw.hex()}
                if (row := {**row, "asked": str(asked.code)}) not in found:
                    found.append(row)
    return found


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        store, settings = prepared(_STORE, Path(folder))
        for release in ("4.9.7", "5.3.3", "5.5.0"):
            for kind in ("JSON", "ROCKETMQ"):
                rows += of_client(release, kind, store)
        rows += of_broker("5.5.0", store, settings)
    FRAMES.write_text("\n".join(["[", ",\n".join(json.dumps(row) for row in rows), "]", ""]))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.getcwd())
    main()
