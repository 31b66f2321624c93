"""Checks before a command begins: is the store there, do its files show what is not given, and does
an output's name fit what is written?
"""

import re
from collections.abc import Iterator, Mapping

from reput.store_format.discover.purpose import Purpose
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Listed
from reput.store_format.names import COMMIT_LOG, DLEDGER

# for the hint: levels above STORE, names looked at in a folder, stores named
_UP, _NAMES_MOST, _SHOWN = 4, 200, 3


def check_store(store: str, settings: Mapping[str, str]) -> None:
    """Raise StoreError if STORE has no commitlog; the error names stores nearby.

    If storePathCommitLog puts the log elsewhere, nothing is checked.
    """
    if settings.get("storePathCommitLog"):
        return
    there = place_at(store)
    path = Folder(there.storage, there.path.rstrip("/"))
    if _is_store(path.listed()):
        return
    near = list(dict.fromkeys(_near(path)))[:_SHOWN]
    hint = f"did you mean {' or '.join(near)}?" if near else f"STORE is what holds {COMMIT_LOG}/"
    raise StoreError(f"{path}/{COMMIT_LOG}: no such folder; {hint}")


def check_discovery(
    store: str, rocketmq: str | None, settings: Mapping[str, str], purpose: Purpose,
    compared: str | None = None,
) -> None:  # fmt: skip
    """Raise what `discover` raises, before anybody waits for Spark; the job calls it again.

    compared: folder of the derived files to compare, which may have a manifest.
    """
    from reput.jobs.outputs.output import read_manifest  # here, for commands that ask no store
    from reput.store_format.discover.store import discover, store_at

    at = store_at(store, rocketmq, settings)
    if compared is None:
        discover(at, purpose)
        return
    of_set = place_at(compared)
    discover(at, purpose, derived=of_set, manifest=read_manifest(of_set))


def check_folder(option: str, folder: str) -> None:
    """Raise StoreError where the folder that an option names is not there."""
    place = place_at(folder)
    try:
        place.storage.list(place.path)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{option} {folder}: no such folder") from None


def _is_store(there: list[Listed]) -> bool:
    """Whether a folder with these entries is a store: it has a log, perhaps a DLedger group's."""
    folders = [name for name, state in there if state is None]
    return COMMIT_LOG in folders or any(name.startswith(DLEDGER) for name in folders)


def _seen(path: Folder) -> list[Listed]:
    """The entries of a folder, for a hint only: none if the folder may not be listed."""
    try:
        return path.listed()
    except PermissionError:
        return []


def _near(path: Folder) -> Iterator[str]:
    """Stores above the path, then beside it with a similar name if it is empty, then below it."""
    above = path.path
    for _ in range(_UP):
        above = above.rpartition("/")[0]
        if not above or above.endswith(("/", ":")):
            break
        if _is_store(_seen(Folder(path.storage, above))):
            yield above
    below = _seen(path)
    if not below:  # a name with a typo, perhaps
        from difflib import get_close_matches

        parent, _, name = path.path.rpartition("/")
        beside = [each.name for each in _seen(Folder(path.storage, parent)) if each.state is None]
        for found in get_close_matches(name, beside, _SHOWN):
            if _is_store(_seen(Folder(path.storage, f"{parent}/{found}"))):
                yield f"{parent}/{found}"
    yield from _inside(path, 2)


def _inside(path: Folder, deep: int) -> Iterator[str]:
    folders = [name for name, state in _seen(path)[:_NAMES_MOST] if state is None]
    for name in folders:
        if _is_store(_seen(path / name)):
            yield f"{path}/{name}"
        elif deep > 1:
            yield from _inside(path / name, deep - 1)


# ---
# A file that an option names, where its name promises another kind of file.

_WRITES = {
    "--picture": ("an SVG picture", (".svg",)),
    "--ranges": ("JSON lines", (".jsonl", ".ndjson", ".json", ".txt")),
    "--messages": ("JSON lines", (".jsonl", ".ndjson", ".json", ".txt")),
    "stats --output": ("a Parquet file", (".parquet",)),
    "report --output": ("an HTML page", (".html", ".htm")),
}


def check_ending(option: str, path: str) -> None:
    """Raise StoreError for a file whose name promises what the option does not write: x.pdf."""
    what, endings = _WRITES.get(option, ("", ()))
    ending = re.search(r"\.[A-Za-z]{2,7}$", path)
    if endings and ending and ending[0].lower() not in endings:
        raise StoreError(f"{option} {path}: writes {what}: name it *{endings[0]}")
