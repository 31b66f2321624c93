"""The sizes of a store's files as far as a query needs them, told by the files themselves.

A query needs no size of queue files: a queue's reader takes them as they are.
"""

from collections.abc import Mapping
from dataclasses import replace

from reput.store_format.derived.file_sizes import NamedFile, index_shown, segment_size, segments_in
from reput.store_format.derived.index_shape import file_bytes
from reput.store_format.derived.index_sizes import ENTRIES, SLOTS
from reput.store_format.derived.store_sizes import SEGMENT
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.names import INDEX
from reput.store_format.release.settings import Settings, settings_from
from reput.store_format.storage.protocol import Storage


def told_settings(
    storage: Storage,
    store: str,
    given: Mapping[str, str],
    release: str,
    derived: tuple[Storage, str] | None = None,
) -> tuple[Settings, str | None]:
    """The settings given, with the sizes that the files show where none is given.

    derived: where queues and index are, if not in the store. The second value says why the sizes of
    index files cannot be told, if they cannot. Raises SettingError.
    """
    settings, there = settings_from(given, release=release), derived or (storage, store)
    if SEGMENT not in given:
        segments = segments_in(storage, commit_log_folders(store, settings))
        size = segment_size([NamedFile(each.start, each.state.size) for each in segments])
        if size is not None:
            settings = replace(settings, mapped_file_size_commit_log=size.value)
    if SLOTS in given and ENTRIES in given:
        return settings, None
    usual = {name: settings.by_name()[name] for name in (SLOTS, ENTRIES)}
    shown = index_shown(*there, usual, {n: usual[n] for n in usual if n in given})
    if shown is None:
        return settings, None
    if shown.pair is not None:
        slots, entries = shown.pair
        return replace(settings, max_hash_slot_num=slots, max_index_num=entries), None
    if shown.length == file_bytes(usual[SLOTS], usual[ENTRIES]):
        return settings, None
    return settings, (
        f"{there[1]}/{INDEX}: the files have {shown.length} bytes, which do not tell {SLOTS} and "
        f"{ENTRIES}: give them with --set"
    )
