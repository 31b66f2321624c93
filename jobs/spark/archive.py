"""The class-data archive: the classes that Spark loads at start, parsed and verified, in a file.

The JVM maps it, which halves the start of a local session; nothing needs it. What it holds is run
as code, so it lies where nobody else can write. `python -m reput.jobs.spark.rehearsal` makes it:
called by `reput warm` (and so by `make env`), and in the background beside a command that has none.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reput.jobs.spark.java import Java
from reput.jobs.spark.jvm import class_path, jvm_flags, pyspark_folder
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
    key = hashlib.sha256("\n".join([*parts, *jvm_flags(java.version)]).encode()).hexdigest()[:16]
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
        return archive.stat().st_size == int(_note(archive).read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return False


def is_unharmed(archive: Path) -> bool:
    """Whether it is, byte for byte, what was made: a tenth of a second, so not for each start."""
    try:
        return is_whole(archive) and _note(archive).read_text().split()[1:] == [_digest(archive)]
    except OSError:
        return False


def is_impossible(archive: Path) -> bool:
    """Whether a rehearsal found that this Java makes none."""
    return archive.with_suffix(_IMPOSSIBLE).exists()


def note_impossible(archive: Path) -> None:
    """Note that, or every rehearsal would try again."""
    archive.with_suffix(_IMPOSSIBLE).touch()


def keep(made: Path, archive: Path) -> None:
    """Give a new archive its name, and note its size and SHA-256."""
    note = _note(archive)
    note.unlink(missing_ok=True)
    text = f"{made.stat().st_size} {_digest(made)}\n"
    made.replace(archive)
    unfinished = made.with_suffix(".size.tmp")
    unfinished.write_text(text)
    unfinished.replace(note)


@contextmanager
def making(archive: Path, wait: bool) -> Iterator[bool]:
    """Hold what only one maker at a time holds; False where another does and `wait` is not set."""
    with open(archive.with_name("lock"), "ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def forget(archive: Path) -> None:
    """Remove an archive and its note."""
    _note(archive).unlink(missing_ok=True)
    archive.unlink(missing_ok=True)


def _note(archive: Path) -> Path:
    return archive.with_suffix(".size")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
