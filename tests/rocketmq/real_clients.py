"""Real clients and tools of a release against any name server: `clients/*.java`, a JVM a script.

They are compiled by javac alone, against the driver that build.py has made for the release: its
folder has RocketMQ's client, tools and ACL as well."""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.processes import run_words
from tests.rocketmq.build import (
    DRIVER,
    JAVA_OPTIONS,
    build,
    cache_folder,
    java,
    made_once,
    run_or_raise,
)
from tests.rocketmq.driver import QUICK_TO_START

SOURCES = Path(__file__).parent / "clients"
VERSIONS = ("4.9.7", "5.3.3", "5.5.0")
Step = dict[str, Any]


def _compiled(version: str) -> str:
    """The class path of a release's clients, compiled at their first use."""
    driver = build(version)
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(driver.name.encode())
    for source in sources:
        digest.update(source.read_bytes())
    folder = cache_folder() / "rocketmq-clients" / f"{version}-{digest.hexdigest()[:12]}"
    libraries = f"{driver / 'classes'}:{driver / 'lib'}/*"
    words = ("javac", "-nowarn", "-cp", libraries, "-d")
    return f"{made_once(folder, lambda to: run_or_raise(*words, to, *sources))}:{libraries}"


def run(
    version: str, namesrv: str, steps: list[Step], timeout: float = 300,
    options: tuple[str, ...] = (),
) -> list[Any]:  # fmt: skip
    """The answers of a client's steps, one JVM for all: `{"answer": ...}` or `{"error": trace}`.

    options: of the JVM, as TLS wants them."""
    with tempfile.TemporaryDirectory(prefix="reput-client-") as home:
        conf = Path(home) / "conf"
        conf.mkdir()
        # mqadmin of 4.x wants its own file, in the place where RocketMQ is installed.
        shutil.copy(DRIVER / "conf" / "logback.xml", conf / "logback_tools.xml")
        command = [
            java(),
            *QUICK_TO_START,
            *JAVA_OPTIONS,
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
            "-Duser.timezone=UTC",
            "-Djava.security.manager=allow",  # Tools.java keeps mqadmin from ending the JVM
            "-Drocketmq.client.logLevel=ERROR",
            # a new JVM on a busy machine wants longer than 3 s before it has connected by TLS
            "-Dcom.rocketmq.remoting.client.connect.timeout=30000",
            # how often a consumer looks for queues that are new to it: not every 20 s only
            "-Drocketmq.client.rebalance.waitInterval=1000",
            f"-Dlogback.configurationFile={DRIVER / 'conf' / 'logback.xml'}",
            f"-Drmq.logback.configurationFile={DRIVER / 'conf' / 'rmq.logback.xml'}",
            *options,
            *("-cp", _compiled(version), "reput.judge.Script"),
        ]
        wanted = [{"namesrv": namesrv, **step} for step in steps]
        done = run_words(*command, input=json.dumps(wanted), timeout=timeout, cwd=home,
                         env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"})  # fmt: skip
    if done.returncode or not done.stdout:
        raise RuntimeError(f"a client of RocketMQ {version} died:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])
