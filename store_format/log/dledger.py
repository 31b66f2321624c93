"""Finds a DLedger group's log in a store: in dledger-<id>/data, after the log from before DLedger.

DLedgerCommitLog with enableDLegerCommitLog. The group's log has a head before each record (see
`layouts`); a store that was switched to DLedger keeps its old log in commitlog/, which ends where
the group's begins (DLedgerCommitLog.dividedCommitlogOffset).
"""

from collections.abc import Callable, Iterable, Sequence

from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import InputStorage, listed
from reput.store_format.log.record_rules import NO_HEADS
from reput.store_format.log.segments import Segment, commit_log_folders
from reput.store_format.names import COMMIT_LOG, DLEDGER, DLEDGER_DATA, segment_start
from reput.store_format.release.settings import Settings


def log_folders(storage: InputStorage, store: str, settings: Settings) -> list[str]:
    """The folders that hold segments, of either kind; see `commit_log_folders`.

    Raises StoreError where several members of DLedger groups have logs in the store.
    """
    folders = commit_log_folders(store, settings)
    member = member_folder(storage, store, settings)
    if member is None:
        return folders
    return [each for each in folders if listed(storage, each)] + [f"{member}/{DLEDGER_DATA}"]


def member_folder(storage: InputStorage, store: str, settings: Settings) -> str | None:
    """The folder dledger-<id> of the group's member that the store's broker is; None without one.

    Raises StoreError where several folders may be the member's.
    """

    def starts(folder: str) -> list[int]:
        names = (name for name, state in listed(storage, folder) if state is not None)
        return _starts(names)

    folders = [
        name for name, state in listed(storage, store) if state is None and name.startswith(DLEDGER)
    ]
    if not folders:
        return None
    plain = [start for each in commit_log_folders(store, settings) for start in starts(each)]
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
