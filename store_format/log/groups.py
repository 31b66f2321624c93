"""Logs of groups: where a DLedger group's log is in a store, and the epochs of controller mode."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.segments import Segment, commit_log_folders
from reput.store_format.names import COMMIT_LOG, DLEDGER, DLEDGER_DATA, segment_start
from reput.store_format.names import EPOCH_FILE as EPOCH_FILE
from reput.store_format.release.settings import Settings

# ---
# Finds a DLedger group's log in a store: in dledger-<id>/data, after the log from before DLedger.
#
# DLedgerCommitLog with enableDLegerCommitLog. The group's log has a head before each record (see
# `layouts`); a store that was switched to DLedger keeps its old log in commitlog/, which ends where
# the group's begins (DLedgerCommitLog.dividedCommitlogOffset).


def log_folders(store: Folder, settings: Settings) -> list[str]:
    """The folders that hold segments, of either kind; see `commit_log_folders`.

    Raises StoreError where several members of DLedger groups have logs in the store, or none of the
    folders that a setting names is there while STORE/commitlog is.
    """
    folders = commit_log_folders(store.path, settings)
    _refuse_missing(store, folders)
    member = member_folder(store, settings)
    if member is None:
        return folders
    there = [each for each in folders if Folder(store.storage, each).listed()]
    return [*there, f"{member}/{DLEDGER_DATA}"]


def _refuse_missing(store: Folder, folders: Sequence[str]) -> None:
    """Raise StoreError where a broker's setting names folders of its own machine alone."""
    if f"{store}/{COMMIT_LOG}" in folders or any(
        _is_there(Folder(store.storage, each)) for each in folders
    ):
        return
    own = store.listed(COMMIT_LOG)
    count = sum(segment_start(name) is not None for name, _ in own)
    if count:
        many = "1 segment" if count == 1 else f"{count:,} segments"
        raise StoreError(
            f"{folders[0]}: no such folder; {store}/{COMMIT_LOG} has {many}: leave "
            f"storePathCommitLog out (--set storePathCommitLog= does, after --broker-conf)"
        )


def _is_there(folder: Folder) -> bool:
    try:
        folder.storage.list(folder.path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def member_folder(store: Folder, settings: Settings) -> str | None:
    """The folder dledger-<id> of the group's member that the store's broker is; None without one.

    Raises StoreError where several folders may be the member's.
    """

    def starts(folder: str) -> list[int]:
        there = Folder(store.storage, folder).listed()
        return _starts(name for name, state in there if state is not None)

    folders = [name for name, state in store.listed() if state is None and name.startswith(DLEDGER)]
    if not folders:
        return None
    plain = [start for each in commit_log_folders(store.path, settings) for start in starts(each)]
    members = _members(folders, lambda name: starts(f"{store}/{name}"), plain)
    wanted = settings.dledger_self_id
    members = [each for each in members if wanted in ("", each.removeprefix(DLEDGER))]
    if len(members) > 1:
        raise StoreError(
            f"{store}: holds the logs of several DLedger members ({', '.join(members)}); "
            f"--set dLegerSelfId={members[0].removeprefix(DLEDGER)} takes one"
        )
    return f"{store}/{members[0]}" if members else None


def refuse_dledger(store: str, names: Callable[[str], Iterable[str]]) -> None:
    """Raise StoreError where a store's log is a DLedger group's: for commands that change stores.

    The group must agree on what its log holds, and no command continues its queues or its index.
    names: returns the names in a folder of the store; "" is the store itself.
    """
    found = _members(names(""), lambda name: _starts(names(name)), _starts(names(COMMIT_LOG)))
    if found:
        above = f"{store}/" if store else ""
        raise StoreError(
            f"{above}{found[0]}: a DLedger group's log, which no command changes; `reput rebuild "
            f"--output` builds what is derived from it, `reput convert` makes a plain store of it"
        )


def refuse_heads(segments: Sequence[Segment], command: str) -> None:
    """Raise StoreError if segments are of a DLedger group's log, which `command` cannot handle."""
    found = next((each for each in segments if each.has_heads), None)
    if found is not None:
        raise StoreError(
            f"{found.path}: is of a DLedger group's log, and {command} works on plain logs; `reput "
            f"convert` makes one of it"
        )


def heads_from(segments: Sequence[Segment]) -> int:
    """Where the part of a log begins that has DLedger's heads (RecordRules.heads_from)."""
    return next((each.start for each in segments if each.has_heads), NO_HEADS)


def _members(
    folders: Iterable[str], starts: Callable[[str], list[int]], plain: Iterable[int]
) -> list[str]:
    """The folders dledger-<id> that hold the end of the store's log, by name.

    folders: the store's. starts: returns where the segments in one of them begin. plain: where the
    segments outside of them begin. A controller keeps a log of its own in such a folder, which may
    be in the store too: that log begins at 0, beside the log of messages.
    """
    last = max(plain, default=-1)
    named = (name for name in folders if name.startswith(DLEDGER))
    begin = {name: starts(f"{name}/{DLEDGER_DATA}") for name in named}
    return sorted(name for name, those in begin.items() if those and those[0] > last)


def _starts(names: Iterable[str]) -> list[int]:
    """Where the segments of these names begin, in order."""
    found = map(segment_start, names)
    return sorted(start for start in found if start is not None)


# ---
# The epoch file of controller mode: which master wrote the log from which physical offset on.
#
# RocketMQ: CheckpointFile (two lines: the number of entries, the CRC-32 of all lines that follow),
# EpochFileCache.EpochEntrySerializer (a line `epoch-startOffset` for each entry). A slave cuts its
# log where its file and the master's diverge (EpochFileCache.findConsistentPoint).

_HEAD_LINES = 2
_BACKUP = ".bak"
_NO_END = (1 << 63) - 1


class Epoch(NamedTuple):
    """One entry: a master's number, and the physical offset from which it wrote."""

    number: int
    start: int


class BadEpochs(ValueError):
    """The file is not as RocketMQ writes it."""


def parse_epochs(raw: bytes) -> tuple[Epoch, ...]:
    """The entries in the file's order. Raises BadEpochs, with field, value and reason."""
    lines = raw.decode("latin-1").split("\n")
    lines = [line.rstrip("\r") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) < _HEAD_LINES:
        raise BadEpochs(f"has {len(lines)} lines: a count, a CRC-32 and a line an entry are wanted")
    for name, text in (("count", lines[0]), ("CRC-32", lines[1])):
        if not _is_number(text):
            raise BadEpochs(f"{name}: {text[:20]!r} is not a number")
    count, crc, entries = int(lines[0]), int(lines[1]), lines[_HEAD_LINES:]
    if count != len(entries):
        raise BadEpochs(f"count: says {count} entries, has {len(entries)}")
    ends = ("".join(f"{line}{end}" for line in entries) for end in ("\n", "\r\n"))
    if crc not in {zlib.crc32(text.encode("latin-1")) & 0x7FFFFFFF for text in ends}:
        raise BadEpochs(f"CRC-32: {crc} is not that of the entries")
    return tuple(_entry(line) for line in entries)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _entry(line: str) -> Epoch:
    number, separator, start = line.partition("-")
    if not (separator and _is_number(number) and _is_number(start)):
        raise BadEpochs(f"entry: {line[:40]!r} is not epoch-startOffset")
    return Epoch(int(number), int(start))


def read_epochs(store: Folder) -> tuple[Epoch, ...] | None:
    """A store's epochs, by its epoch file or that file's .bak; None where it has none.

    Raises BadEpochs where no file is whole, with the path.
    """
    wrong: list[str] = []
    for path in (f"{store}/{EPOCH_FILE}", f"{store}/{EPOCH_FILE}{_BACKUP}"):
        try:
            return parse_epochs(store.storage.read_bytes(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except BadEpochs as error:
            wrong.append(f"{path}: {error}")
    if wrong:
        raise BadEpochs("; ".join(wrong))
    return None


def consistent_point(
    one: Sequence[Epoch], one_end: int, other: Sequence[Epoch], other_end: int
) -> int:
    """Where a slave would cut its log: the least end of the last epoch that both have with one
    startOffset; -1 where they have none (EpochFileCache.findConsistentPoint).

    one_end, other_end: where the logs end, which is where their last epochs do.
    """
    ends, starts = _ends(one, one_end), _ends(other, other_end)
    for entry in sorted(ends, reverse=True):
        if entry in starts:
            return min(ends[entry], starts[entry])
    return -1


def _ends(epochs: Sequence[Epoch], end: int) -> dict[Epoch, int]:
    in_order = sorted(epochs)
    ends = {epoch: after.start for epoch, after in pairwise(in_order)}
    if not in_order:
        return {}
    last = in_order[-1]
    # setLastEpochEntryEndOffset leaves an epoch that begins after the log's end without an end
    return {**ends, last: end if last.start <= end else _NO_END}
