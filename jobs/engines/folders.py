"""What sessions and workers are started with: a folder that is held, and an environment."""

import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import reput
from reput.store_format.files.private import NotPrivate, safe_parent
from reput.store_format.files.system import claim_folder

# ---
# The temporary folder of a session on this machine, and those that killed sessions left.
#
# It is held (`claim_folder`) as long as its process lives, however that ends. One that nobody holds
# is a leftover, which the next session removes, and `reput clean`.

_PREFIX = "reput-spark-"
_GONE = ".gone"
# Ten digits: releases that did not hold their folders made names with eight characters, and
# whether those are in use is not known.
_NAME = re.compile(rf"{_PREFIX}[0-9a-f]{{10}}({re.escape(_GONE)})?")
# A Unix socket's path may have 107 bytes, of which Spark's own part takes 42.
_PARENT_BYTES_MAX = 39
_ALWAYS = "/tmp"


def make_session_folder() -> tuple[str, Callable[[], None]]:
    """Make a folder of our own (mode 0700) for one session; returns it and what lets go of it.

    In $TMPDIR, or in /tmp where that will not do. Raises OSError.
    """
    parent = _parent()
    while True:
        folder = os.path.join(parent, f"{_PREFIX}{secrets.token_hex(5)}")
        with suppress(FileExistsError):
            release = claim_folder(folder)
            if release is not None:
                return folder, release


def _parent() -> str:
    wanted = os.path.abspath(tempfile.gettempdir())
    for parent in (wanted, _ALWAYS):
        with suppress(NotPrivate):
            if _fits(parent):
                return safe_parent(parent)
    return _ALWAYS


def _fits(parent: str) -> bool:
    """Whether Spark takes such a name: it parts spark.local.dir at commas."""
    return "," not in parent and len(os.fsencode(parent)) <= _PARENT_BYTES_MAX


def abandoned_session_folders() -> list[str]:
    """Folders of sessions of this user, in $TMPDIR and /tmp, whose processes are gone."""
    found = []
    for parent in dict.fromkeys((os.path.abspath(tempfile.gettempdir()), _ALWAYS)):
        for path in _session_folders(parent):
            descriptor = _take(path)
            if descriptor is not None:
                os.close(descriptor)
                found.append(path)
    return sorted(found)


def remove_session_folder(path: str) -> bool:
    """Remove a folder of a session that is gone; False where it is not, or not wholly removed."""
    descriptor = _take(path)
    if descriptor is None:
        return False
    try:
        gone = path if path.endswith(_GONE) else path + _GONE
        with suppress(OSError):
            os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
        return not os.path.lexists(gone)
    finally:
        os.close(descriptor)


def _session_folders(parent: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                yield entry.path


def _take(path: str) -> int | None:
    """A descriptor that holds a folder which is ours and which nobody else holds, or None."""
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except OSError:
        return None
    with suppress(OSError):
        about = os.fstat(descriptor)
        if about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) == 0o700:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
    os.close(descriptor)
    return None


# ---
# What Python processes that run tasks are started with, by Spark or by our own engine.


def our_packages(env: Mapping[str, str]) -> dict[str, str]:
    """Our packages and those of PYTHONPATH, without the current folder, which `python -m` puts
    first: a pandas.py in a user's folder of downloads would run.
    """
    here = str(Path(reput.__file__).absolute().parent.parent)
    path = os.pathsep.join(filter(None, (here, env.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Have the environment say this besides, within the block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def session_given() -> bool:
    """Whether spark-submit or a Databricks job runs this command, with a session for it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or on_databricks()


def on_databricks() -> bool:
    """Whether this is a task of a Databricks job, whose runtime has a session for it."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ
