"""Starts the JVM of a local session, tuned for a command that lives for seconds.

PySpark starts one through two shell scripts and a launcher JVM, with settings meant for servers.
Here `java` is started at once, with a quick compiler and collector, and with a class-data archive
where there is one: the classes that Spark loads at start, already parsed and verified, mapped
from a file (`jobs/spark/archive.py`). docs/performance.md has what each of these is worth.
"""

from __future__ import annotations

import importlib.util
import locale
import os
import secrets
import signal
import struct
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reput
from reput.jobs.spark import signals, worker_daemon
from reput.jobs.spark.java import Java, find_java_home
from reput.jobs.spark.session_folder import (
    make_session_folder,
    remove_abandoned_sessions,
    remove_session_folder,
)

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

# Spark's own list (org.apache.spark.launcher.JavaModuleOptions) without the vector incubator
# module, which only linear algebra uses and which makes the JVM print a warning.
_OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
)
_GONE_IN_25 = "java.base/sun.security.action"  # to open what is not there is warned of
_FLAGS = (
    "-XX:+IgnoreUnrecognizedVMOptions",  # the next two are newer than Java 17
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    # A command of seconds never earns back what the optimizing compiler costs.
    "-XX:TieredStopAtLevel=1",
    "-XX:CICompilerCount=1",  # a second one takes its time from what the first compiles for
    "-XX:+UseSerialGC",
    # The default makes the collector run several times while Spark's classes load.
    "-XX:MetaspaceSize=256m",
    "-XX:-UsePerfData",
)

# Spark's machine learning registers its functions with each session, by Scala's reflection: 0.6 s.
_UNUSED_JAR = "spark-mllib_"
_END_SECONDS = 5.0  # for a killed process to be gone
_DEATH_SECONDS = 1.0  # between a broken connection and the end of the process that had it


def jvm_flags(version: int) -> tuple[str, ...]:
    """What a session's JVM of a Java version is started with, besides its memory and archive."""
    opened = [each for each in _OPENED if version < 25 or each != _GONE_IN_25]
    return (*(f"--add-opens={package}=ALL-UNNAMED" for package in opened), *_FLAGS)


class SparkFailed(Exception):
    """A query failed for good; the message is PySpark's, with a worker's own stack trace."""


class LocalJvm:
    """A JVM of this process, running Spark's Python gateway; `gateway` is None until connected."""

    def __init__(self, conf: Mapping[str, str], memory: str, flags: tuple[str, ...]) -> None:
        java = find_java_home()
        spark = pyspark_folder()
        folder, self._release = make_session_folder()
        self.folder = Path(folder)
        self._has_log = conf.get("spark.eventLog.enabled") == "true"
        self._connection = self.folder / "connection"
        command = [str(java.home / "bin" / "java"), "-cp", class_path(spark)]
        command += [*jvm_flags(java.version), *flags]
        command += [
            f"-Xmx{memory}",
            f"-Djava.io.tmpdir={self.folder}",
            f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
            "org.apache.spark.deploy.SparkSubmit",
            "--properties-file",
            self._secrets(),
        ]
        places = {
            "spark.local.dir": self.folder,
            "spark.python.unix.domain.socket.dir": self.folder,
            "spark.sql.warehouse.dir": self.folder / "tables",
        }
        ours = {**places, "spark.python.daemon.module": worker_daemon.__name__}
        for name, value in {**ours, **conf}.items():
            command += ["--conf", f"{name}={value}"]
        self._env = self._environment(java)
        self._workers: subprocess.Popen[bytes] | None = None
        self.process = subprocess.Popen(
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,  # the gateway ends when this closes, however we end
            env=self._env,
            preexec_fn=signals.ignore,  # a terminal sends them to all: they are ours to handle
        )
        self.gateway: JavaGateway | None = None
        remove_abandoned_sessions()  # the JVM has much to load meanwhile

    def _secrets(self) -> str:
        """A file, which only we can read, with what a list of processes must not show.

        With one core a task, Spark makes a secret of its own; a local-cluster is told one.
        """
        path = self.folder / "secrets.conf"
        path.touch(0o600)
        path.write_text(f"spark.authenticate.secret {secrets.token_hex(32)}\n")
        return str(path)

    def _environment(self, java: Java) -> dict[str, str]:
        env = python_environment(os.environ)
        # With SPARK_HOME set, Python workers import pyspark from a zip of sources, and compile
        # it each time; without, the installed one.
        env.pop("SPARK_HOME", None)
        if locale.getencoding().lower() != "utf-8":
            env["LC_ALL"] = "C.UTF-8"  # or Java reads a path's other letters as question marks
        env["PYTHONHASHSEED"] = "0"
        env["JAVA_HOME"] = str(java.home)
        env["SPARK_LOCAL_IP"] = "127.0.0.1"
        env["SPARK_SCALA_VERSION"] = "2.13"
        env["SPARK_CONNECT_MODE"] = "0"
        env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self._connection)
        env[worker_daemon.SOCKET] = str(self.folder / "workers")
        return env

    def warm_workers(self, kernels: bool = True) -> None:
        """Start what Python workers will be forked from; it loads what they use meanwhile."""
        self._workers = worker_daemon.start(self._env, kernels)

    def connect(self) -> JavaGateway:
        """Wait for the gateway, and make it the one that PySpark uses."""
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway

        while not self._connection.exists():
            if self.process.poll() is not None:
                code = self.process.returncode
                raise SparkFailed(f"the Java process ended at its start, {_ended_how(code)}")
            time.sleep(0.01)
        written = self._connection.read_bytes()
        port, length = struct.unpack_from(">ii", written)
        secret = written[8 : 8 + length].decode()
        # The way spark-submit tells a Python process of the gateway it started.
        told = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
        os.environ.update(told)
        try:
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            for name in told:
                del os.environ[name]
        SparkContext._ensure_initialized(gateway=gateway)
        self.gateway = gateway
        return gateway

    def stop(self) -> None:
        """End the session and its JVM, and remove their temporary folder.

        The JVM is killed: SparkSession.stop takes up to a second more (it waits for PySpark's
        accumulator server), the JVM's own exit a third of one. So are Python's workers, first.
        Nothing of theirs lives outside the folder.
        """
        if self.gateway is None:  # PySpark knows nothing of it
            self.kill()
            return
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        context: Any = SparkContext._active_spark_context
        if context is not None:
            _quiet_accumulators(context)
            if self._has_log:
                with suppress(Exception):  # the JVM may be gone already
                    context._jsc.sc().stop()  # completes the log
        self.kill()
        with SparkContext._lock:
            SparkContext._active_spark_context = None
            SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None

    def cause_of_death(self) -> str | None:
        """How the JVM ended, where it did so before it was asked to; None where it lives.

        Asked after something failed: what breaks with a process is seen before its end is.
        """
        with suppress(subprocess.TimeoutExpired):
            return f"the Java process ended, {_ended_how(self.process.wait(_DEATH_SECONDS))}"
        return None

    def end_writers(self) -> None:
        """Kill all that could write to a staging folder; waits until the JVM is gone.

        In a signal's handler: it takes no locks, as the subprocess module does.
        """
        self._kill_workers()
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        until = time.monotonic() + _END_SECONDS
        with suppress(ChildProcessError):
            while time.monotonic() < until:
                if os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    break
                time.sleep(0.005)

    def _kill_workers(self) -> None:
        """Before the JVM: a worker whose socket breaks prints a stack trace."""
        if self._workers is not None and self._workers.returncode is None:
            for kill in (os.killpg, os.kill):  # not Spark's daemon yet: it has no group
                with suppress(ProcessLookupError):
                    kill(self._workers.pid, signal.SIGKILL)

    def finish(self) -> None:
        """End the JVM in its own time, which is what writes a class-data archive."""
        from pyspark import SparkContext

        _quiet_accumulators(SparkContext._active_spark_context)
        self._kill_workers()
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait()

    def kill(self) -> None:
        """End the JVM at once and remove its temporary folder."""
        _forget_java_objects(self.gateway)
        self._kill_workers()
        self.process.kill()
        for process in filter(None, (self.process, self._workers)):
            if process.stdin:
                with suppress(OSError):
                    process.stdin.close()
            process.wait()
        if self.gateway is not None:
            with suppress(Exception):
                self.gateway.close()
        self._release()
        remove_session_folder(str(self.folder))


def python_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What Python processes of a session are started with: our packages, and those of PYTHONPATH.

    Without the current folder, which `python -m` puts first: a pandas.py in a user's folder of
    downloads would run.
    """
    here = str(Path(reput.__file__).absolute().parent.parent)
    given = env.get("PYTHONPATH")
    path = os.pathsep.join(filter(None, (here, given)))
    return {**env, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


def _ended_how(code: int) -> str:
    if code >= 0:
        return f"with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if code == -signal.SIGKILL:
        return f"killed by {name}: where nobody did that, the machine ran out of memory"
    return f"killed by {name}"


def _quiet_accumulators(context: Any) -> None:
    """Keep PySpark's accumulator server from printing a stack trace when the JVM ends first."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
        server.server_shutdown = True


def _forget_java_objects(gateway: Any) -> None:
    """Keep py4j's thread from telling the JVM which objects it may collect, just as it ends."""
    client = getattr(gateway, "_gateway_client", None)
    if client is not None:
        client.finalizer_deque.clear()
        client.is_connected = False


def pyspark_folder() -> Path:
    """Where PySpark is installed. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec("pyspark")  # importing it takes a tenth of a second
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    return Path(spec.origin).parent


def class_path(spark: Path) -> str:
    """PySpark's jars, in one order always: a class-data archive is for one class path."""
    jars = sorted((spark / "jars").glob("*.jar"))
    return os.pathsep.join(str(jar) for jar in jars if not jar.name.startswith(_UNUSED_JAR))
