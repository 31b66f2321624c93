"""Jobs for the real RocketMQ: a JVM that answers one JSON line with another."""

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.rocketmq.build import java_command

Answer = dict[str, Any]
# A test's JVM lives for seconds: it earns nothing back of what an optimizing compiler costs, nor of
# the two RSA keys that a broker and its name server make for TLS, which no client of ours speaks.
QUICK_TO_START = (
    ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC") if "PYTEST_VERSION" in os.environ else ()
)
SHORT_LIVED = (*QUICK_TO_START, "-Dtls.server.mode=disabled") if QUICK_TO_START else ()
DERIVED = ("consumequeue", "batchconsumequeue", "index", "checkpoint", "abort", "lock")


class JobFailedError(RuntimeError):
    """RocketMQ, or the driver around it, threw; the message is the Java stack trace."""


class Driver:
    """One JVM with one RocketMQ version; starts at the first job and does many."""

    def __init__(self, version: str, log_level: str = "ERROR", jvm: tuple[str, ...] = ()) -> None:
        self.version = version
        self._log_level = log_level
        self._jvm = jvm
        self._home = Path(tempfile.mkdtemp(prefix="reput-rocketmq-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def log(self) -> str:
        """What RocketMQ said on standard error so far."""
        path = self._home / "stderr"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _command(self) -> list[str]:
        command = java_command(self.version, self._home, self._log_level)
        return [command[0], *SHORT_LIVED, *self._jvm, *command[1:]]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._rest = b""
            with (self._home / "stderr").open("ab") as errors:
                self._process = subprocess.Popen(
                    self._command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    # File names and texts are UTF-8 here, whatever the caller's locale.
                    env={**os.environ, "LC_ALL": "C.UTF-8"},
                )  # fmt: skip
        return self._process

    def ask(self, command: str, timeout: float = 600, **job: Any) -> Answer:
        """Run one job and wait for its answer."""
        self.tell(command, **job)
        return self.answer(command, timeout)

    def tell(self, command: str, **job: Any) -> None:
        """Start one job; `answer` must follow, or `kill`."""
        process = self._started()
        assert process.stdin
        process.stdin.write(json.dumps({"command": command, **job}).encode() + b"\n")
        process.stdin.flush()

    def answer(self, command: str, timeout: float = 600) -> Answer:
        answer = json.loads(self._line(time.monotonic() + timeout))
        if not answer.pop("ok"):
            raise JobFailedError(f"RocketMQ {self.version}, {command}: {answer['error']}")
        return answer

    def _line(self, deadline: float) -> bytes:
        process = self._process
        assert process
        assert process.stdout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                self.kill()
                raise TimeoutError(f"no answer from RocketMQ {self.version}\n{self.log[-3000:]}")
            chunk = process.stdout.read1(1 << 20)  # type: ignore[attr-defined]
            if not chunk:
                raise JobFailedError(f"RocketMQ {self.version} died\n{self.log[-3000:]}")
            self._rest += chunk
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def wait_for_death(self, timeout: float = 120) -> None:
        """For a job that halts the JVM."""
        if self._process:
            self._process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """kill -9, as a crash does."""
        if self._process:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe:
                    pipe.close()
        self._process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    # The jobs, as functions.

    def derive(
        self, store: Path, settings: Mapping[str, object],
        topics: Mapping[str, Mapping[str, str]] | None = None, mode: str | None = None,
        may_refuse: bool = False, **options: object,
    ) -> Answer:  # fmt: skip
        """Let RocketMQ make all derived files of a store that has none, in place."""
        answer = self.ask("derive", store=str(store), settings=dict(settings),
                          topic_attributes=topics or topic_attributes(store), mode=mode
                          or derive_mode(self.version), **options)  # fmt: skip
        if answer.get("refused") and not may_refuse:
            raise JobFailedError(f"RocketMQ {self.version} refused to load {store}\n{self.log}")
        return answer

    def open_check(self, store: Path, settings: Mapping[str, object]) -> Answer:
        """Open a store as it is, start, stop; says how many messages were dispatched."""
        return self.derive(store, settings, mode="as-is")

    def bulk(
        self, store: Path, settings: Mapping[str, object], keep_derived: bool = False, **shape: int
    ) -> Answer:
        """Many alike messages for a benchmark; see Bulk.java for the shape's names."""
        answer = self.ask("bulk", timeout=3600, store=str(store), settings=dict(settings), **shape)
        if not keep_derived:
            remove_derived(store)
        return answer


def derive_mode(version: str) -> str:
    """How RocketMQ is brought to dispatch the whole log once, and rightly.

    After a crash (an `abort` file, no checkpoint) recovery dispatches everything. After a clean
    stop 4.1.0 dispatches nothing of an existing log. 4.9.7 after a crash dispatches before it has
    read the delay levels, so that delayed messages get no delivery time: there the running
    dispatch after a clean stop is the one to compare with. (From 5.4.0 on either recovery would
    read the last ten segments alone; the driver sets commitLogRecoverMaxNum against that.)"""
    return "clean" if version == "4.9.7" else "crash"


def topic_attributes(store: Path) -> dict[str, dict[str, str]]:
    path = store / "config" / "topics.json"
    if not path.exists():
        return {}
    table = json.loads(path.read_text())["topicConfigTable"]
    return {name: topic.get("attributes") or {} for name, topic in table.items()}


def remove_derived(store: Path) -> None:
    for name in DERIVED:
        path = store / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def once(version: str, command: str, **job: Any) -> Answer:
    """One job in a JVM of its own; the answer has `wall_seconds`, of the whole process."""
    home = Path(tempfile.mkdtemp(prefix="reput-rocketmq-"))
    try:
        begin = time.monotonic()
        done = subprocess.run(
            [*java_command(version, home), json.dumps({"command": command, **job})],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        wall = time.monotonic() - begin
    finally:
        shutil.rmtree(home, ignore_errors=True)
    lines = done.stdout.splitlines()
    answer = json.loads(lines[-1]) if lines else {"ok": False, "error": done.stderr}
    if not answer.pop("ok"):
        raise JobFailedError(f"RocketMQ {version}, {command}: {answer['error']}")
    return {**answer, "wall_seconds": wall}
