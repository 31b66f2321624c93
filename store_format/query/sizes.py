"""The sizes of a store's files as far as a query needs them, told by the files themselves.

A query needs no size of queue files: a queue's reader takes them as they are.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace

from reput.store_format.derived.told_sizes import ENTRIES, SEGMENT, SLOTS, Seen, told_sizes
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.names import INDEX, parse_index_name, parse_segment_name
from reput.store_format.release.settings import Settings, settings_from
from reput.store_format.storage.protocol import Listed, Storage

_INDEX_FILES = 2  # the newest may still be without entries


def told_settings(
    storage: Storage, store: str, given: Mapping[str, str], release: str
) -> tuple[Settings, str | None]:
    """The settings given, with the sizes that the files show where none is given.

    The second value says why the sizes of index files cannot be told, if they cannot.
    """
    settings = settings_from(given, release=release)
    if SEGMENT not in given:
        settings = _with_segment_size(storage, store, settings)
    if SLOTS in given and ENTRIES in given:
        return settings, None
    try:
        sizes = _index_sizes(storage, store, settings, given)
    except (ValueError, OSError) as error:  # a SettingError is a ValueError
        return settings, str(error)
    slots, entries = sizes.get(SLOTS), sizes.get(ENTRIES)
    if slots is None or entries is None:
        return settings, None
    return replace(settings, max_hash_slot_num=slots, max_index_num=entries), None


def _with_segment_size(storage: Storage, store: str, settings: Settings) -> Settings:
    """The size that most segments have: one that was cut must not decide."""
    sizes: list[int] = []
    for folder in commit_log_folders(store, settings):
        for name, state in _listed(storage, folder):
            if state is not None and state.size and _is_segment(name):
                sizes.append(state.size)
    if not sizes:
        return settings
    most = max(sorted(set(sizes), reverse=True), key=sizes.count)
    return replace(settings, mapped_file_size_commit_log=most)


def _index_sizes(
    storage: Storage, store: str, settings: Settings, given: Mapping[str, str]
) -> dict[str, int]:
    by_name = settings.by_name()
    sizes = {name: by_name[name] for name in (SLOTS, ENTRIES)}
    with ExitStack() as opened:
        seen = []
        for name, state in _listed(storage, f"{store}/{INDEX}")[-_INDEX_FILES:]:
            parse_index_name(name)
            if state is not None:
                reader = storage.open(f"{store}/{INDEX}/{name}", state)
                opened.callback(reader.close)
                seen.append(Seen(f"{INDEX}/{name}", state.size, reader.read_into))
        return told_sizes((), (), (), seen, {n: sizes[n] for n in sizes if n in given}, sizes)


def _listed(storage: Storage, folder: str) -> list[Listed]:
    try:
        return storage.list(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_segment(name: str) -> bool:
    try:
        parse_segment_name(name)
    except ValueError:
        return False
    return True
