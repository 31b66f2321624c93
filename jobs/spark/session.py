"""SparkSessions for the command line. Library code is given one and never makes its own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reput.jobs.spark.archive import archive_flags, archive_path, is_impossible
from reput.jobs.spark.java import find_java_home
from reput.jobs.spark.jvm import LocalJvm, SparkFailed, python_environment
from reput.jobs.spark.masters import check_reachable
from reput.jobs.spark.prepare import prepare_next_start, tell_of_first_run
from reput.jobs.spark.session_folder import make_session_folder, remove_session_folder
from reput.jobs.spark.signals import ended_first, handlers_kept

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
    # Every user of the machine can connect to 127.0.0.1: Spark's own ports want a secret.
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


def _nothing() -> None:
    """What is done while a JVM starts, where nothing is asked for."""


@contextmanager
def command_session(
    master: str | None = None, memory: str = "1g", meanwhile: Callable[[], None] = _nothing
) -> Iterator[SparkSession]:
    """Yield the session that a command runs on, and stop it afterwards.

    Under spark-submit that is the one it describes, on Databricks the runtime's; else one on
    `master`: a local one by default, on all cores. A query's failure leaves as SparkFailed.
    meanwhile: what is done while a local JVM starts, else before: where it raises, nothing waits
    for Spark.
    """
    if not session_given() and (master or "local").startswith("local"):
        with local_session(master or "local[*]", memory, meanwhile=meanwhile) as spark:
            yield spark
        return
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
        if not _on_databricks():  # its session is not ours to stop
            spark.stop()


def session_given() -> bool:
    """Whether spark-submit or a Databricks job runs this command, with a session for it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or _on_databricks()


def _on_databricks() -> bool:
    """Whether this is a task of a Databricks job, whose runtime has a session for it."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


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
    meanwhile: Callable[[], None] = _nothing,
) -> Iterator[SparkSession]:
    """Yield a session on this machine, quick to start and silent; `settings` go over ours.

    One that starts slowly, for lack of a class-data archive, has it made beside it, so that the
    next one finds it. meanwhile: as for command_session.
    """
    if os.environ.get("SPARK_HOME") or os.environ.get("SPARK_CONF_DIR"):
        meanwhile()
        with _plain_session(master, memory, settings) as spark:
            yield spark
        return
    archive = archive_path(find_java_home())
    flags = archive_flags(archive)

    def before_waiting() -> None:
        meanwhile()
        tell_of_first_run()
        if archive is not None and not flags and not is_impossible(archive):
            prepare_next_start()

    with local_jvm_session(master, memory, settings, flags, before_waiting) as (spark, _):
        yield spark


@contextmanager
def local_jvm_session(
    master: str,
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
    flags: tuple[str, ...] = (),
    meanwhile: Callable[[], None] = _nothing,
    kernels: bool = True,
) -> Iterator[tuple[SparkSession, LocalJvm]]:
    """Yield a session on a JVM of our own, and that JVM; meanwhile: as for command_session.

    kernels: whether its tasks call any, so that workers are to load them ahead.
    """
    jvm = LocalJvm(local_settings(master, settings), memory, flags)
    try:
        meanwhile()
        with ended_first(jvm.end_writers), _end_of(jvm), _failures_in_words():
            # While the JVM starts, import what PySpark and the jobs are going to.
            import pandas  # noqa: F401
            from pyspark.sql import SparkSession

            if kernels:
                import reput.udfs.warm  # noqa: F401
            jvm.warm_workers(kernels)  # after our imports: the JVM needs one core, of two perhaps
            jvm.connect()
            with _workers_of_this_python(), handlers_kept():
                spark = SparkSession.builder.getOrCreate()
            yield spark, jvm
    finally:
        jvm.stop()


@contextmanager
def _end_of(jvm: LocalJvm) -> Iterator[None]:
    """Say that the JVM was killed, where that is why Spark failed."""
    try:
        yield
    except (SparkFailed, ConnectionError, EOFError) as error:
        how = jvm.cause_of_death()
        if how is None:
            raise
        raise SparkFailed(how) from error


@contextmanager
def _plain_session(
    master: str, memory: str, settings: Mapping[str, str] | None
) -> Iterator[SparkSession]:
    """Yield a session made PySpark's own way, from a Spark that somebody has set up."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("JAVA_HOME", str(find_java_home().home))
    # Workers listen at Unix sockets there, which want no secret: not in /tmp, as they would.
    folder, release = make_session_folder()
    sockets = {"spark.python.unix.domain.socket.dir": folder}
    builder = SparkSession.builder.config("spark.driver.memory", memory)
    for name, value in {**sockets, **local_settings(master, settings)}.items():
        builder = builder.config(name, value)
    try:
        with _failures_in_words(), _workers_of_this_python(), handlers_kept():
            spark = builder.getOrCreate()
        try:
            with _failures_in_words():
                yield spark
        finally:
            spark.stop()
    finally:
        release()
        remove_session_folder(folder)


@contextmanager
def _workers_of_this_python() -> Iterator[None]:
    """Have a session made within start its workers with this Python, not with PATH's, and with
    our packages.
    """
    ours = python_environment(os.environ)
    told = {name: ours[name] for name in ("PYTHONPATH", "PYTHONSAFEPATH")}
    told["PYSPARK_PYTHON"] = sys.executable
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def local_settings(master: str, over: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the settings of a local session, those of `over` before ours."""
    return {
        **_LOCAL_SETTINGS,
        "spark.master": retrying(master),
        "spark.sql.shuffle.partitions": str(local_cores(master)),
        **(over or {}),
    }


def retrying(master: str) -> str:
    """Return a local master under which a task is tried 4 times: a plain one fails on the first."""
    if master == "local":
        return "local[1,4]"
    found = re.fullmatch(r"local\[(\*|\d+)\]", master)
    return f"local[{found[1]},4]" if found else master


def local_cores(master: str) -> int:
    """How many tasks a local master runs at once."""
    found = re.match(r"local\[(\*|\d+)", master)
    if not found:
        return 1
    return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])
