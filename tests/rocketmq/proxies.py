"""RocketMQ's own Proxy in cluster mode, towards any name server."""

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rocketmq.build import DRIVER, JAVA_OPTIONS, cache_folder, java, made_once, run_or_raise
from tests.rocketmq.driver import QUICK_TO_START
from tests.rocketmq.live import free_port
from tests.rocketmq.served import NAME

_POM = Path(__file__).parent / "proxy" / "pom.xml"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_START_SECONDS = 90


def libraries(part: str, version: str) -> Path:
    """A folder with the jars of a part of RocketMQ; made at the first use."""
    digest = hashlib.sha256(_POM.read_bytes())
    folder = cache_folder() / part / f"{version}-{digest.hexdigest()[:12]}"
    words = ("-q", "-B", "-f", _POM, f"-Dpart={part}", f"-Dpart.version={version}",
             f"-Dmaven.repo.local={cache_folder() / 'maven'}", _COPY,
             "-DincludeScope=runtime")  # fmt: skip
    return made_once(folder, lambda to: run_or_raise("mvn", *words, f"-DoutputDirectory={to}"))


@contextmanager
def proxy(version: str, namesrv: str, folder: Path) -> Iterator[str]:
    """The Proxy; gives the endpoint of gRPC clients."""
    home = folder / f"proxy-{time.time_ns()}"
    (home / "conf").mkdir(parents=True)
    grpc, remoting = free_port(), free_port()
    config = {"rocketMQClusterName": NAME, "namesrvAddr": namesrv, "proxyMode": "cluster",
              "grpcServerPort": grpc, "remotingListenPort": remoting}  # fmt: skip
    (home / "conf" / "rmq-proxy.json").write_text(json.dumps(config))
    command = [
        *(java(), *QUICK_TO_START, *JAVA_OPTIONS, "-Xmx512m"),
        *(f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"),
        f"-Drmq.logback.configurationFile={DRIVER / 'conf' / 'rmq.logback.xml'}",
        *(
            "-cp", f"{libraries('rocketmq-proxy', version)}/*",
            "org.apache.rocketmq.proxy.ProxyStartup",
        ),
        *("-pc", str(home / "conf" / "rmq-proxy.json")),
    ]  # fmt: skip
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
