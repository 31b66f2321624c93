"""Every user of a machine can connect to what listens on 127.0.0.1: none of it obeys them."""

import encodings.idna  # noqa: F401 (a host's name is read by it; another user may not find it)
import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.golden_stores import unpack
from tests.processes import tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
NOBODY = 65534
LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp
STREAM_RESPONSE = b"\x07"  # Message.Type of Spark's network protocol

REBUILD = """
import sys, time
from reput.jobs.engines.session import local_session
from reput.jobs.rebuild import rebuild
store, output, *over = sys.argv[1:]
with local_session("local[2]", settings=dict(pair.split("=") for pair in over)) as spark:
    print("ready", spark.conf.get("spark.driver.port"), flush=True)
    sys.stdin.readline()
    rebuild(spark, store, output, rocketmq="5.3.3",
            settings={"mappedFileSizeCommitLog": "16777216"})
    print("done", flush=True)
"""


def listening(process: int) -> set[int]:
    """The TCP ports at which a process tree listens, on any address."""
    inodes = set()
    for each in tree(process):
        for link in Path(f"/proc/{each}/fd").glob("*"):
            with_inode = os.readlink(link) if link.is_symlink() else ""
            if with_inode.startswith("socket:["):
                inodes.add(with_inode[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTEN and fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def frame(kind: int, body: bytes) -> bytes:
    """A message of Spark's network protocol: its length, type, and what it says."""
    return struct.pack(">qB", 9 + len(body), kind) + body


def utf(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def rpc(port: int, endpoint: str) -> bytes:
    """An RPC as NettyRpcEnv makes one, for an endpoint of the driver: a Java string."""
    said = b"\xac\xed\x00\x05t" + utf("end")
    body = b"\0\1" + utf("127.0.0.1") + struct.pack(">i", port) + utf(endpoint) + said
    return frame(3, struct.pack(">qi", 7, len(body)) + body)


def attacks(port: int) -> list[bytes]:
    large = struct.pack(">qB", (1 << 31) - 10, 3)
    gateway = b"c\nt\nexit\ne\n"  # py4j: call System.exit through the entry point; no token
    fetch = frame(6, struct.pack(">i", 8) + b"/files/x")
    endpoints = ("HeartbeatReceiver", "MapOutputTracker", "LocalSchedulerBackendEndpoint")
    garbage = [b"\0", b"\n\n\n", b"GET / HTTP/1.0\r\n\r\n", os.urandom(1 << 16), large, gateway]
    return [*garbage, fetch, *(rpc(port, endpoint) for endpoint in endpoints)]


def speak(port: int, said: bytes) -> bytes:
    """Say one thing at a port; what is answered within a moment."""
    heard = b""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as line:
            line.settimeout(0.2)
            line.sendall(said)
            while piece := line.recv(1 << 16):
                heard += piece
    except OSError:
        pass
    return heard


def attack(ports: set[int]) -> list[tuple[int, bytes, bytes]]:
    """Attack as another user, where we may become one: what was answered to what, by port."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            for port in sorted(ports):
                for said in attacks(port):
                    heard = speak(port, said)
                    os.write(writer, struct.pack(">iii", port, len(said), len(heard)))
                    os.write(writer, said + heard)
        finally:
            os._exit(0)
    os.close(writer)
    answers = []
    with open(reader, "rb") as file:
        while head := file.read(12):
            port, said, heard = struct.unpack(">iii", head)
            answers.append((port, file.read(said), file.read(heard)))
    os.waitpid(child, 0)
    return answers


@pytest.mark.long
@pytest.mark.spark
def test_nobody_without_the_secret_is_obeyed(tmp_path: Path) -> None:
    store = unpack("broker_clean_5.3.3").root
    words = [sys.executable, "-c", REBUILD, str(store / "input"), str(tmp_path / "out")]
    driver = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)  # fmt: skip
    assert driver.stdin
    assert driver.stdout
    try:
        ready, rpc_port = driver.stdout.readline().split()
        assert ready == b"ready"
        ports = listening(driver.pid)
        assert int(rpc_port) in ports
        answers = attack(ports)
        driver.stdin.write(b"go\n")
        driver.stdin.flush()
        time.sleep(0.5)
        answers += attack(listening(driver.pid))  # while tasks run
        said, errors = driver.communicate(timeout=120)
    finally:
        driver.kill()
    assert said == b"done\n", errors
    assert len(answers) > len(attacks(1))
    for port, asked, heard in answers:
        # what an endpoint that was reached answers
        assert b"org.apache.spark.rpc.netty.RpcFailure" not in heard, (port, asked, heard)
        # Spark's file server answers before any secret is asked for. A session of ours gives it
        # no files, so that it has nothing but this answer.
        if heard[8:9] == STREAM_RESPONSE:
            raise AssertionError(f"port {port} served {asked!r}")
    expected = store / "expect"
    files = [path for path in expected.rglob("*") if path.is_file() and "queue" in str(path)]
    assert files
    for path in files:
        assert path.read_bytes() == (tmp_path / "out" / path.relative_to(expected)).read_bytes()


def test_no_secret_stands_in_a_list_of_processes(spark: "SparkSession") -> None:
    """py4j's; that of Spark's own ports, Spark makes itself and keeps in its memory."""
    gateway: Any = spark.sparkContext._gateway
    secret = gateway.gateway_parameters.auth_token.encode()
    assert len(secret) == 64
    reported = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            reported.append(path.read_bytes())
    assert not any(secret in each or b"authenticate" + b".secret" in each for each in reported)
    folder = Path(str(spark.conf.get("spark.local.dir")))
    assert not [p for p in folder.rglob("*") if p.is_file() and secret in p.read_bytes()]
    assert folder.stat().st_mode & 0o777 == 0o700
