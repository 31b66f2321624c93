"""A job's staging folder, and the leftovers of jobs that ended early.

A job holds its folder (`StagingStorage.claim`) as long as it lives, however it ends. A folder that
nobody holds is a leftover, which the next job for the same output removes.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum

from reput.jobs.outputs.output import Input, refuse_overlap
from reput.store_format.files.disk import NotDurable
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import StagingStorage, Storage
from reput.udfs.staging import Staging, attempt_name

_ATTEMPT = r"-[0-9a-f]{32}(\.gone)?"


class Temporary(StrEnum):
    """The names' beginnings of commands' staging folders in the temporary folder."""

    CATCH_UP = "reput-catch-up"
    CHECK = "reput-check"
    COMPARE = "reput-compare"
    CONFIG = "reput-config"  # of an install: a config that becomes one in files, or in RocksDB
    CONVERT = "reput-convert-"
    EXPORT = "reput-export-"
    EXPORT_STORE = "reput-export-store-"
    RECOVER = "reput-recover"
    SERVE = "reput-serve"
    VERIFY = "reput-verify"


@contextmanager
def staging_folder(storage: StagingStorage, parent: str, prefix: str) -> Iterator[Staging]:
    """Yield a new staging folder, which is removed afterwards.

    After NotDurable it stays, as it may hold the old set while the new set may not last.
    """
    folder, release = f"{parent}/{attempt_name(prefix)}", None
    try:  # a signal may end the claim when the folder is there already
        while (release := storage.claim(folder)) is None:
            folder = f"{parent}/{attempt_name(prefix)}"
        yield Staging(storage, folder)
    except NotDurable:
        raise
    except BaseException:
        storage.remove_tree(folder)
        raise
    else:
        storage.remove_tree(folder)
    finally:
        if release is not None:
            release()


def beside(storage: StagingStorage, output: str) -> tuple[str, str]:
    """(folder, prefix of names in it) for staging beside an output, on the same file system.

    It is beside the first missing folder on the path to the output, as missing folders are only
    made when a set is published.
    """
    parent, _, name = output.rpartition("/")
    while parent and not storage.has_folder(parent):
        parent, _, name = parent.rpartition("/")
    return parent, _prefix(name)


def places(storage: StagingStorage, output: str) -> list[tuple[str, str]]:
    """(folder, prefix of names in it) of each place where jobs for this output may have staged.

    The first place is where a job would stage now. The others are beside the folders above the
    output: jobs staged there while these folders were missing (see `beside`).
    """
    found = [beside(storage, output)]
    if isinstance(storage, ManifestLast):
        return found  # folders in other places may be those of other outputs
    folder, _, name = output.rpartition("/")
    while name:
        if (folder, _prefix(name)) != found[0]:
            found.append((folder, _prefix(name)))
        folder, _, name = folder.rpartition("/")
    return found


def leftovers(storage: StagingStorage, output: str) -> list[str]:
    """Staging folders for this output whose jobs are gone."""
    found = []
    for number, (folder, prefix) in enumerate(places(storage, output)):
        wanted = (True,) if number else (True, None)
        found += [path for path, gone in staged(storage, folder, prefix) if gone in wanted]
    return found


def remove_leftovers(storage: Storage, output: str, inputs: Iterable[Input] = ()) -> list[str]:
    """Remove leftovers; returns their paths. Raises OverlapsInput if a leftover holds an input."""
    removed = leftovers(storage, output)
    for folder in removed:
        refuse_overlap(storage, folder, inputs)
    for folder in removed:
        storage.remove_tree(folder)
    return removed


@contextmanager
def temporary_folder(
    storage: Storage, base: str, prefix: Temporary, inputs: Iterable[Input]
) -> Iterator[Staging]:
    """A `staging_folder` in a folder of temporary files; leftovers of killed jobs are removed.

    Raises OverlapsInput if it would lie inside an input.
    """
    base = storage.resolve(base)
    refuse_overlap(storage, f"{base}/{prefix}", inputs)
    remove_abandoned(storage, base, prefix)
    with staging_folder(storage, base, prefix) as staging:
        yield staging


def remove_abandoned(storage: StagingStorage, folder: str, prefix: str) -> None:
    """Remove the staging folders with a prefix in a folder whose jobs are known to be gone."""
    for path, gone in staged(storage, folder, prefix):
        if gone:
            storage.remove_tree(path)


def _prefix(name: str) -> str:
    return f".{name}.reput"


def staged(storage: StagingStorage, parent: str, prefix: str) -> list[tuple[str, bool | None]]:
    """(staging folder with the prefix, whether its job is gone; None: unknown)."""
    pattern = re.compile(re.escape(prefix) + _ATTEMPT)
    try:
        names = [listed.name for listed in storage.list(parent or "/")]
    except OSError:
        return []
    folders = [f"{parent}/{name}" for name in names if pattern.fullmatch(name)]
    return [(folder, storage.is_abandoned(folder)) for folder in folders]
