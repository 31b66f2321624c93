"""The class-data archive: the classes that Spark loads at start, parsed and verified, in a file.

The JVM maps it, which halves the start of a local session; nothing needs it. What it holds is run
as code, so it lies where nobody else can write. `python -m reput.jobs.spark.rehearsal` makes it.
"""

import hashlib
import os
from pathlib import Path

from reput.jobs.spark.java import Java
from reput.jobs.spark.jvm import FLAGS, class_path, pyspark_folder
from reput.store_format.disk.private import NotPrivate, private_folder

_IMPOSSIBLE = ".none"


def cache_folder() -> Path:
    """Where downloads and derived files are kept between runs."""
    return Path(os.environ.get("REPUT_CACHE") or Path.home() / ".cache" / "reput")


def archive_path(java: Java) -> Path | None:
    """Where the archive for this Java, PySpark and set of flags is kept.

    None where there is no folder that only this user can change.
    """
    release = java.home / "release"
    parts = [str(java.home), release.read_text() if release.is_file() else ""]
    for jar in class_path(pyspark_folder()).split(os.pathsep):
        status = Path(jar).stat()
        parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
    key = hashlib.sha256("\n".join([*parts, *FLAGS]).encode()).hexdigest()[:16]
    try:
        return Path(private_folder(str(cache_folder() / "class-data"))) / f"{key}.jsa"
    except NotPrivate:
        return None


def archive_flags(archive: Path | None) -> tuple[str, ...]:
    """The JVM's flags to use an archive if it fits, and to be silent if it does not."""
    if archive is None or not is_whole(archive):
        return ()
    return (f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable")


def is_whole(archive: Path) -> bool:
    """Whether an archive is there, as long as it was made: a stopped machine can cut a file."""
    try:
        return archive.stat().st_size == int(_size_note(archive).read_text())
    except (OSError, ValueError):
        return False


def is_impossible(archive: Path) -> bool:
    """Whether a rehearsal found that this Java makes none."""
    return archive.with_suffix(_IMPOSSIBLE).exists()


def note_impossible(archive: Path) -> None:
    """Note that, or every rehearsal would try again."""
    archive.with_suffix(_IMPOSSIBLE).touch()


def keep(made: Path, archive: Path) -> None:
    """Give a new archive its name, and note its size."""
    note = _size_note(archive)
    note.unlink(missing_ok=True)
    size = made.stat().st_size
    made.replace(archive)
    unfinished = made.with_suffix(".size.tmp")
    unfinished.write_text(f"{size}\n")
    unfinished.replace(note)


def forget(archive: Path) -> None:
    """Remove an archive and its note."""
    _size_note(archive).unlink(missing_ok=True)
    archive.unlink(missing_ok=True)


def _size_note(archive: Path) -> Path:
    return archive.with_suffix(".size")
