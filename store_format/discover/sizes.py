"""Settings completed with the sizes that a store's files show: for a reader, and for a writer.

A reader takes what most files show. A writer never continues a file with another size, so that all
files are looked at, and must agree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from itertools import chain

from reput.store_format.derived.index_reader import file_bytes
from reput.store_format.discover.file_sizes import (
    BATCH_QUEUE,
    QUEUE,
    SEGMENT,
    SIZES,
    FileSizes,
    IndexShown,
    NamedFile,
    rounded,
)
from reput.store_format.discover.index_sizes import ENTRIES, SLOTS, SizeDisagrees
from reput.store_format.files.adapters import FilesRead
from reput.store_format.files.protocol import Files, InputStorage
from reput.store_format.log.groups import log_folders
from reput.store_format.names import COMMIT_LOG, INDEX
from reput.store_format.release.settings import Settings, WriterSettings, settings_from


def agreed_pair(
    where: str, shown: IndexShown, pair: tuple[int, int], given: Mapping[str, int]
) -> dict[str, int]:
    """Slots and entries by name. Raises SizeDisagrees where a given number differs."""
    found = dict(zip((SLOTS, ENTRIES), pair, strict=True))
    for name, value in found.items():
        if given.get(name, value) != value:
            both = f"--set {SLOTS}={pair[0]} --set {ENTRIES}={pair[1]}"
            raise SizeDisagrees(
                f"{where}: its files have {shown.length} bytes and were made with {name}={value}, "
                f"and {name} is {given[name]}; give {both}"
            )
    return found


# --- for a reader ---------------------------------------------------------------------------


def settings_to_read(
    storage: InputStorage, store: str, given: Mapping[str, str], release: str,
    derived: tuple[InputStorage, str] | None = None,
) -> tuple[Settings, str | None]:  # fmt: skip
    """The settings given, with the sizes that the files show where none is given. A reader of
    queues needs no size of theirs.

    derived: where queues and index are, if not in the store. The second value says why the sizes of
    index files are not known, if they are not. Raises SettingError.
    """
    settings = settings_from(given, release=release)
    files = FileSizes(storage, log_folders(storage, store, settings), derived or (storage, store))
    segment = None if SEGMENT in given else files.segment()
    if segment is not None:
        settings = replace(settings, mapped_file_size_commit_log=segment.value)
    if SLOTS in given and ENTRIES in given:
        return settings, None
    usual = {name: settings.by_name()[name] for name in (SLOTS, ENTRIES)}
    shown = files.index(usual, {name: usual[name] for name in usual if name in given})
    if shown is not None and shown.pair is not None:
        slots, entries = shown.pair
        return replace(settings, max_hash_slot_num=slots, max_index_num=entries), None
    if shown is None or shown.length == file_bytes(usual[SLOTS], usual[ENTRIES]):
        return settings, None
    return settings, (
        f"{files.derived}/{INDEX}: the files have {shown.length} bytes, which do not show {SLOTS} "
        f"and {ENTRIES}: give them with --set"
    )


# --- for a writer ---------------------------------------------------------------------------


def settings_to_continue(
    settings: WriterSettings, files: Files
) -> tuple[WriterSettings, dict[str, int]]:
    """The settings with the sizes that the store's files have; and by name those that are neither
    given nor RocketMQ's defaults.

    A default never wins over a file. Raises SizeDisagrees where a given size does not agree, or the
    files have several; it names the option to give.
    """
    default, mine = WriterSettings().by_name(), settings.by_name()
    given = {name: mine[name] for name in SIZES if name in settings.given_names}
    found = _sizes_of_all(files, given, {name: default[name] for name in SIZES})
    found = {n: found[n] for n in found if n not in given and found[n] != default[n]}
    field_of = {f.metadata["name"]: f.name for f in fields(settings)}
    changed = {field_of[name]: size for name, size in found.items()}
    return replace(settings, given=settings.given_names, **changed), found  # type: ignore[arg-type]


def _sizes_of_all(
    files: Files, given: Mapping[str, int], usual: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that all files have; a size that no file shows is left out."""
    storage = FilesRead(files)
    there = FileSizes(storage, [COMMIT_LOG], (storage, ""))
    found = {}
    for name, some in (
        (SEGMENT, [NamedFile(each.start, each.state.size, each.path) for each in there.segments]),
        (QUEUE, chain.from_iterable(there.queues(False))),
        (BATCH_QUEUE, chain.from_iterable(there.queues(True))),
    ):
        length = _one_length(name, some, given)
        if length is not None:
            found[name] = length
    shown = there.index(usual, given, every=True)
    return found if shown is None else found | _one_pair(shown, given, usual)


def _one_length(name: str, files: Iterable[NamedFile], given: Mapping[str, int]) -> int | None:
    """The length that all files have, which must be the given one if there is one."""
    first: NamedFile | None = None
    for file in files:
        # A crash may leave an empty file, and a segment too short: recovery gives it its length.
        wanted = given.get(name, first.length if first else file.length)
        torn = name == SEGMENT and first is not None and file.length < wanted
        if not file.length or torn:
            continue
        path = file.path.lstrip("/")
        if name in given and file.length != rounded(name, wanted):
            raise SizeDisagrees(
                f"{path}: has {file.length} bytes, and {name} is {wanted}; "
                f"give --set {name}={file.length}"
            )
        if first is not None and file.length != first.length:
            raise SizeDisagrees(
                f"{path}: has {file.length} bytes, and {first.path.lstrip('/')} has "
                f"{first.length}; one of them is damaged: give --set {name}=... and use "
                f"`reput recover`"
            )
        first = first or file
    return first.length if first else None


def _one_pair(
    shown: IndexShown, given: Mapping[str, int], usual: Mapping[str, int]
) -> dict[str, int]:
    """Slots and entries of all index files; many pairs of the two give the same length."""
    if shown.odd is not None:
        name, length = shown.odd
        raise SizeDisagrees(
            f"{INDEX}/{name}: has {length} bytes, and others have {shown.length}: the store was "
            f"written with two sizes of {SLOTS} and {ENTRIES}"
        )
    if shown.pair is not None:
        return agreed_pair(f"{INDEX}/", shown, shown.pair, given)
    slots, entries = given.get(SLOTS, usual[SLOTS]), given.get(ENTRIES, usual[ENTRIES])
    if shown.length == file_bytes(slots, entries) and not shown.has_entries:
        return {SLOTS: slots, ENTRIES: entries}
    raise SizeDisagrees(
        f"{INDEX}/: its files have {shown.length} bytes, and {SLOTS}={slots} with {ENTRIES}="
        f"{entries} makes {file_bytes(slots, entries)}; their content does not show them: "
        f"give --set {SLOTS}=... --set {ENTRIES}=... as the broker has them"
    )
