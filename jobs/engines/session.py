"""SparkSessions for the command line. Library code is given one and never makes its own."""

from __future__ import annotations

import importlib.util
import locale
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reput.jobs.engines import folders
from reput.jobs.engines.engine import NoSparkError, SparkFailed
from reput.jobs.engines.java import (
    Java,
    NoJavaError,
    cause_of_death,
    check_reachable,
    end_jvm,
    find_java_home,
    home_for_spark,
    jvm_of,
)
from reput.jobs.engines.signals import ended_first, handlers_kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


__all__ = ["SparkFailed", "command_session", "local_session"]

# For one process on one machine, whose rows are few (the bytes go through staging files).
_LOCAL_SETTINGS = {
    "spark.app.name": "reput",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Every user of the machine can connect to 127.0.0.1: Spark's own ports want a secret, which a
    # local session makes itself.
    "spark.authenticate": "true",
    # Between the JVM and the Python workers of one machine; TCP costs 20 ms a task more.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    # The jobs say themselves how they partition, and plan again what is skewed.
    "spark.sql.adaptive.enabled": "false",
    # Compiling Java for each query takes longer than interpreting it over a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# A command of seconds earns nothing back of what the optimizing compiler costs. Without the last
# one a JVM writes a file to /tmp.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
_LOG = "jvm.log"
_WARNING = re.compile(
    r"WARNING: |.{0,20} WARN |Using Spark's default log4j|Setting default log level|"
    r"To adjust logging level|:: |\s"
)


@contextmanager
def command_session(
    master: str | None = None,
    memory: str = "1g",
    meanwhile: Callable[[], None] = lambda: None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Yield the session that a command runs on, and stop it afterwards.

    Under spark-submit that is the one it describes, on Databricks the runtime's; else one on
    `master`: a local one by default, on all cores, with more `settings`. A query's failure leaves
    as SparkFailed. meanwhile: what is done before; where it raises, nothing waits for Spark.
    """
    if not folders.session_given() and re.match(r"local(\[|$)", master or "local"):
        with local_session(master or "local[*]", memory, settings, meanwhile) as spark:
            yield spark
        return
    if importlib.util.find_spec("pyspark") is None:
        raise NoSparkError(_missing("PySpark is", "spark"))
    meanwhile()
    if master:
        check_reachable(master)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("reput")
    if master and master.startswith("sc://"):
        builder = builder.remote(master)
    elif master:
        builder = builder.master(master)
    with _failures_in_words(), handlers_kept():
        spark = builder.getOrCreate()
    try:
        with _failures_in_words():
            yield spark
    finally:
        if not folders.on_databricks():  # its session is not ours to stop
            spark.stop()


@contextmanager
def _failures_in_words() -> Iterator[None]:
    """Turn PySpark's errors into text: theirs ask the JVM for it, which may be gone by then."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(str(error)) from None


@contextmanager
def local_session(
    master: str = "local[*]",
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Iterator[SparkSession]:
    """Yield a session on this machine, silent and gone without a trace afterwards; `settings` go
    over ours. meanwhile: as for command_session. Raises NoSparkError, NoJavaError, SparkFailed.
    """
    java = installed()
    meanwhile()
    for path in folders.abandoned_session_folders():
        folders.remove_session_folder(path)
    folder, release = folders.make_session_folder()
    try:
        with ended_first(partial(end_jvm, folder)), _death_in_words():
            spark = _started(folder, java, local_settings(master, folder, memory, settings))
            try:
                with _failures_in_words():
                    yield spark
            finally:
                with _unlogged():
                    spark.stop()
    finally:
        _close_gateway(folder)
        release()
        folders.remove_session_folder(folder)


def installed() -> Java:
    """The Java that a local session runs on. Raises NoSparkError where PySpark is missing (and says
    it of Java in the same line), NoJavaError.
    """
    there = importlib.util.find_spec("pyspark") is not None
    try:
        java = find_java_home()
    except NoJavaError:
        if there:
            raise
        raise NoSparkError(_missing("PySpark and Java are", "spark,java")) from None
    if not there:
        raise NoSparkError(_missing("PySpark is", "spark"))
    return java


def _missing(what: str, extras: str) -> str:
    return f"{what} missing: pip install 'reput[{extras}]'; without --engine spark none is needed"


def _started(folder: str, java: Java, settings: Mapping[str, str]) -> SparkSession:
    """Make a session. What its JVM and workers write to standard error goes to a file: the JVM
    warns of its own modules at each start, and the job's own error reports a failed task.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    log = Path(folder, _LOG)
    try:
        with (
            folders.environment(_java_variables(java)),
            _stderr_to(log),
            _failures_in_words(),
            handlers_kept(),
        ):
            return builder.getOrCreate()
    except SparkFailed as error:
        if isinstance(error.__context__, PySparkException) and jvm_of(folder) is None:
            raise SparkFailed(f"Java or Spark ended at its start: {_said(log)}") from None
        raise


def _java_variables(java: Java) -> dict[str, str]:
    variables = {
        **folders.our_packages(os.environ),
        "PYSPARK_PYTHON": sys.executable,  # not PATH's
        "JAVA_HOME": str(home_for_spark(java)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    if locale.getencoding().lower() != "utf-8":
        variables["LC_ALL"] = "C.UTF-8"  # or Java reads a path's other letters as question marks
    return variables


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let processes started in the block write standard error to a file; not with -v."""
    if os.environ.get("REPUT_TRACEBACK"):
        yield
        return
    sys.stderr.flush()
    ours, file = os.dup(2), os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(file, 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(file)


def _said(log: Path) -> str:
    """What the JVM wrote before it ended: its first line that is no warning."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    return next((line for line in lines if line and not _WARNING.match(line)), "it said nothing")


@contextmanager
def _death_in_words() -> Iterator[None]:
    """Raise SparkFailed with the cause if Spark failed because the JVM was killed."""
    from pyspark import SparkContext

    try:
        yield
    except (SparkFailed, ConnectionError, EOFError) as error:
        gateway: Any = SparkContext._gateway
        how = cause_of_death(gateway.proc.pid if gateway is not None else None)
        if how is None:
            raise
        raise SparkFailed(how) from error


@contextmanager
def _unlogged() -> Iterator[None]:
    """Silence PySpark and py4j, which warn, log and raise on closing if the JVM is gone already."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _close_gateway(folder: str) -> None:
    """End the JVM and its workers, and have PySpark start another one for its next session: it
    keeps that of the last one, and tells it of each object that Python forgets.
    """
    from pyspark import SparkContext

    context: Any = SparkContext
    with context._lock:
        gateway, context._gateway, context._jvm = context._gateway, None, None
    with _unlogged():  # there is none where the start failed
        gateway.shutdown()
    end_jvm(folder)
    with _unlogged():
        gateway.proc.kill()  # of a session that another one's JVM served, end_jvm found none
        gateway.proc.wait()


def local_settings(
    master: str, folder: str, memory: str = "1g", over: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings of a local session, those of `over` before ours.

    folder: its own, for its files and for the Unix sockets of its workers, which want no secret.
    """
    return {
        **_LOCAL_SETTINGS,
        "spark.master": retrying(master),
        "spark.sql.shuffle.partitions": str(local_cores(master)),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f'"-Djava.io.tmpdir={folder}" {_JAVA_OPTIONS}',
        "spark.local.dir": folder,
        "spark.python.unix.domain.socket.dir": folder,
        "spark.sql.warehouse.dir": f"{folder}/tables",
        **(over or {}),
    }


def retrying(master: str) -> str:
    """Return a local master under which a task is tried 4 times: a plain one fails on the first."""
    if master == "local":
        return "local[1,4]"
    found = re.fullmatch(r"local\[(\*|\d+)\]", master)
    return f"local[{found[1]},4]" if found else master


def local_cores(master: str) -> int:
    """The number of tasks that a local master runs at once."""
    found = re.match(r"local\[(\*|\d+)", master)
    if not found:
        return 1
    return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])
