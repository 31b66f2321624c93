"""RocketMQ's own Proxy in cluster mode, towards any name server, and gRPC clients of it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.rocketmq.build import DRIVER, JAVA_OPTIONS, cache_folder, java
from tests.rocketmq.live import free_port
from tests.rocketmq.served import NAME

SOURCES = Path(__file__).parent / "proxy"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_PROXY, _CLIENT = "rocketmq-proxy", "rocketmq-client-java"
CLIENT_VERSION = "5.0.7"
_START_SECONDS = 90


class Received(NamedTuple):
    """A message as a SimpleConsumer was given it."""

    attempt: int
    id: str
    keys: str
    body_bytes: int


def libraries(part: str, version: str) -> Path:
    """A folder with a part's jars, and the client compiled; made at the first use."""
    digest = hashlib.sha256()
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    folder = cache_folder() / part / f"{version}-{digest.hexdigest()[:12]}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    under_way = Path(tempfile.mkdtemp(dir=folder.parent))
    _run(
        "mvn", "-q", "-B", "-f", str(SOURCES / "pom.xml"), f"-Dpart={part}",
        f"-Dpart.version={version}",
        f"-Dmaven.repo.local={cache_folder() / 'maven'}", _COPY,
        f"-DoutputDirectory={under_way / 'lib'}", "-DincludeScope=runtime",
    )  # fmt: skip
    if part == _CLIENT:
        _run(
            "javac", "-nowarn", "-cp", f"{under_way / 'lib'}/*", "-d", str(under_way / "classes"),
            str(SOURCES / "Simple.java"),
        )  # fmt: skip
    try:
        under_way.rename(folder)
    except OSError:  # another process was quicker
        shutil.rmtree(under_way)
    return folder


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


@contextmanager
def proxy(version: str, namesrv: str, folder: Path) -> Iterator[str]:
    """The Proxy; gives the endpoint of gRPC clients."""
    home = folder / f"proxy-{time.time_ns()}"
    (home / "conf").mkdir(parents=True)
    grpc, remoting = free_port(), free_port()
    config = {
        "rocketMQClusterName": NAME, "namesrvAddr": namesrv, "proxyMode": "cluster",
        "grpcServerPort": grpc, "remotingListenPort": remoting,
    }  # fmt: skip
    (home / "conf" / "rmq-proxy.json").write_text(json.dumps(config))
    command = [
        *(java(), *JAVA_OPTIONS, "-Xmx512m", f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"),
        f"-Drmq.logback.configurationFile={DRIVER / 'conf' / 'rmq.logback.xml'}",
        *(
            "-cp",
            f"{libraries(_PROXY, version) / 'lib'}/*",
            "org.apache.rocketmq.proxy.ProxyStartup",
        ),
        *("-pc", str(home / "conf" / "rmq-proxy.json")),
    ]
    output = home / "output"
    with output.open("w") as file, subprocess.Popen(
        command, stdout=file, stderr=subprocess.STDOUT, cwd=home, env={"ROCKETMQ_HOME": str(home)}
    ) as process:  # fmt: skip
        try:
            end = time.monotonic() + _START_SECONDS
            while "startup successfully" not in output.read_text():
                if process.poll() is not None or time.monotonic() > end:
                    raise AssertionError(f"the Proxy did not start:\n{output.read_text()[-3000:]}")
                time.sleep(0.1)
            yield f"127.0.0.1:{grpc}"
        finally:
            process.kill()


def simple(
    endpoint: str, group: str, topic: str, *, expression: str = "*",
    kind: str = "tag", seconds: float = 60, kept: int = 0, wanted: int = 1 << 30,
) -> list[Received]:  # fmt: skip
    """What a gRPC SimpleConsumer in Java receives, in order (Simple.java)."""
    folder = libraries(_CLIENT, CLIENT_VERSION)
    done = subprocess.run(
        [java(), *JAVA_OPTIONS, "-Xmx256m", "-cp", f"{folder / 'classes'}:{folder / 'lib'}/*",
         "reput.judge.Simple", endpoint, group, topic, expression, kind,
         str(int(seconds * 1000)), str(kept), str(wanted)],
        capture_output=True, text=True, check=False, timeout=seconds + 120,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the client died:\n{done.stderr[-3000:]}")
    lines = [line.split(" ") for line in done.stdout.splitlines() if line[:1].isdigit()]
    return [Received(int(n), each, keys, int(size)) for n, each, keys, size in lines]
