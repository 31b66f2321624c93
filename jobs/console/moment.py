"""A moment of a backup repository: the options that name it, and which run and offset it is.

A command that reads STORE reads a repository too: `take_moment` puts a `backup:` path in its place
(store_format/files/backups.py), so that no command knows of repositories.
"""

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from reput.jobs.console.voice import time_text
from reput.store_format.faults import StoreError
from reput.store_format.files.backups import BackedUp, Moment, parse_moment, whole_log
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.catalogue import MARKER, Catalogue, Part, only_store
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Storage
from reput.store_format.files.queue_logs import ReadOnly
from reput.store_format.files.runs import Run
from reput.store_format.log.reader import NoRecord
from reput.store_format.notes import Notes
from reput.store_format.release.profiles import RELEASES
from reput.store_format.release.setting_table import SettingError

_OPTIONS = {"store_name": "--store", "at": "--at", "to_offset": "--to-offset",
            "to_message_id": "--to-message-id"}  # fmt: skip

NOW = 1 << 62  # of --at: the end of the newest backup


class Wanted(NamedTuple):
    """What of a repository is wanted; without a moment the end of the newest backup.

    at: milliseconds, or NOW; to_offset: physical.
    """

    store: str | None = None
    at: int | None = None
    to_offset: int | None = None
    to_message_id: str | None = None


class Found(NamedTuple):
    """A moment, and the run whose files it has."""

    moment: Moment
    state: Run


# ---
# The command line.


def add_moment(parser: argparse.ArgumentParser, of_store: str | None = "") -> None:
    """Add the options that name a moment. of_store: what --at means where STORE is a store; None
    where it is always a repository.
    """
    title = "where STORE is a backup repository (docs/howto/backup.md)"
    group: Any = parser if of_store is None else parser.add_argument_group(title)
    group.add_argument(
        "--store", dest="store_name", metavar="NAME", help="which of its stores, if it has several"
    )
    group.add_argument(
        "--at", metavar="TIME",
        help=f"{of_store or ''}as it was then (`now`: the newest backup); without a zone in that "
        "of --tz, else this process's",
    )  # fmt: skip
    group.add_argument("--to-offset", type=int, metavar="N", help="up to physical offset N")
    group.add_argument("--to-message-id", metavar="ID", help="up to this message, by either id")
    if of_store is not None:
        parser.set_defaults(at_of_store=bool(of_store), of_moment="")


def wanted_of(
    arguments: argparse.Namespace, milliseconds: Callable[[str], int], tell: Callable[[str], Any]
) -> Wanted:
    """The moment that options name. milliseconds: reads a time. Raises SettingError."""
    named = [name for name in list(_OPTIONS)[1:] if getattr(arguments, name) is not None]
    if len(named) > 1:
        raise SettingError(f"{' and '.join(_OPTIONS[name] for name in named)}: name one moment")
    at = None
    if arguments.at is not None:
        at = NOW if arguments.at == "now" else _time(arguments, milliseconds, tell)
    return Wanted(arguments.store_name, at, arguments.to_offset, arguments.to_message_id)


def _time(
    arguments: argparse.Namespace, milliseconds: Callable[[str], int], tell: Callable[[str], Any]
) -> int:
    at: str = arguments.at
    with suppress(ValueError):
        local = datetime.fromisoformat(at)
        zoned = local.tzinfo is not None or getattr(arguments, "tz", None) is not None
        if not at.isdigit() and not zoned:
            at = local.astimezone().isoformat()
            tell(f"--at {arguments.at}: taken as {at}, in the zone of this process")
    try:
        return milliseconds(at)
    except argparse.ArgumentTypeError as error:
        raise SettingError(f"--at {error}".replace("else UTC", "else this process's")) from None


def take_moment(
    arguments: argparse.Namespace, milliseconds: Callable[[str], int], tell: Callable[[str], Any]
) -> None:
    """Put a moment's path in the place of a repository's, with its release and settings.

    A store stays. So does a repository where no moment is named and the command is one that takes
    it as a whole (`whole_repository`). Raises StoreError, SettingError, OSError.
    """
    given = [word for name, word in _OPTIONS.items() if getattr(arguments, name) is not None]
    storage = storage_for(arguments.store)
    folder = None if isinstance(storage, ReadOnly) else storage.resolve(arguments.store)
    if folder is None or MARKER not in dict(Folder(storage, folder).listed()):
        if arguments.at_of_store and arguments.at is not None:
            arguments.at = _time(arguments, milliseconds, tell)
            given.remove("--at")
        if given:
            raise SettingError(f"{given[0]}: {arguments.store} is not a backup repository")
        return
    if "whole_repository" in arguments and not set(given) - {"--store"}:
        arguments.whole_repository = True
        return
    wanted = wanted_of(arguments, milliseconds, tell)
    moment, run = find_moment(storage, arguments.store, wanted, Notes(tell))
    tell(
        f"{moment.repo}: {moment.store} up to {moment.end:,}, of run {moment.log}; config and "
        f"offsets of run {run.run}, {time_text(run.ended)}"
    )
    at = wanted.at and ("now" if wanted.at == NOW else time_text(wanted.at))
    words = zip(_OPTIONS.values(), (wanted.store, at, *wanted[2:]), strict=True)
    named = (f" {option} {shlex.quote(str(value))}" for option, value in words if value is not None)
    arguments.of_moment = shlex.quote(arguments.store) + "".join(named)
    arguments.store = str(moment)
    arguments.rocketmq = arguments.rocketmq or run.rocketmq or None
    own = [f"{name}={value}" for name, value in settings_of(run).items()]
    arguments.assignments, arguments.at = [*own, *arguments.assignments], None


def settings_of(run: Run) -> dict[str, str]:
    """The settings of a run's broker, without its paths."""
    return {name: value for name, value in run.settings.items() if "storepath" not in name.lower()}


# ---
# The run and the offset of a moment.


class _Chain(NamedTuple):
    """The log of a run that no other goes on with. runs: oldest first, each with where its use
    ends.
    """

    head: Run
    runs: list[tuple[Run, int]]
    parts: list[Part]

    @property
    def until(self) -> int:
        """The time up to which it surely has all messages."""
        return max(self.head.started, self.head.last.timestamp if self.head.last else 0)

    @property
    def since(self) -> int | None:
        """The storeTimestamp of its first record."""
        return next((each.piece.times[0] for each in self.parts if each.piece.records), None)

    def log(self, end: int) -> list[tuple[str, int]]:
        """What it has before an offset."""
        return [(part.piece.name, min(part.end, end)) for part in self.parts
                if part.piece.offset < end]  # fmt: skip


def find_moment(storage: Storage, repo: str, wanted: Wanted, notes: Notes) -> Found:
    """The moment that is wanted, on the newest chain that has it.

    Raises StoreError where none has it, with what is nearest on both sides, OSError.
    """
    if isinstance(storage, BackedUp):  # named by its path
        moment, _ = parse_moment(storage.resolve(repo))
        catalogue = Catalogue(storage.storage, moment.repo, moment.store)
        return Found(moment, catalogue.run(moment.state))
    root = storage.resolve(repo).rstrip("/")
    finder = _Finder(Catalogue(storage, root, only_store(storage, root, wanted.store)), notes)
    if wanted.at is not None and wanted.at != NOW:
        return finder.at(wanted.at)
    if wanted.to_offset is not None:
        return finder.by_offset(wanted.to_offset)
    if wanted.to_message_id is not None:
        return finder.by_offset(finder.end_of(wanted.to_message_id))
    newest = finder.chains[0]
    return finder.found(newest, newest.head.end, lambda run, cut: True)


class _Finder:
    def __init__(self, catalogue: Catalogue, notes: Notes) -> None:
        self.catalogue, self.notes = catalogue, notes
        heads = sorted(catalogue.heads(), key=lambda run: run.run, reverse=True)
        self.chains = [
            _Chain(head, list(catalogue.lineage(head))[::-1], catalogue.chain(head))
            for head in heads
        ]
        if not heads:
            raise StoreError(f"{catalogue.folder}: no backup was made yet")

    def found(self, chain: _Chain, end: int, before: Callable[[Run, int], bool]) -> Found:
        """before: whether a run is not after the moment, by where its use ends."""
        head, oldest = chain.head, chain.runs[0][0]
        known = [run for run, cut in chain.runs if before(run, cut)]
        state = known[-1] if known else oldest
        if not known:
            self.notes.note(
                f"config and offsets are those of run {state.run}, {time_text(state.ended)}, the "
                "oldest backup"
            )
        _, start = whole_log(self.catalogue, head, end)
        if start > end:
            raise StoreError(f"{self.catalogue.folder}: has no whole segment up to {end:,}")
        if self.catalogue.is_lost(oldest):
            self.notes.note(
                f"{self.catalogue.path_of(oldest.parent or 0)}: is missing: the log before "
                f"{oldest.begin:,} is not known, and is left out"
            )
        for a, b in [gap for gap in self.catalogue.gaps(head) if gap[1] <= end][-1:]:
            self.notes.note(
                f"the log begins at {start:,}: {a:,} to {b:,} was deleted before it was backed "
                "up; earlier moments have what was before that"
            )
        return Found(self._moment(head, end)._replace(state=state.run), state)

    def at(self, time: int) -> Found:
        """Up to the first record that was stored later."""
        for chain in self.chains:
            if chain.since is not None and chain.since <= time <= chain.until:
                end = self._end_at(chain, time)
                self._name_branches(chain, end, lambda other: other.until >= time)
                return self.found(chain, end, lambda run, cut: run.ended <= time)
        spans = [(each.since, each.until) for each in self.chains if each.since is not None]
        raise self._none(
            f"at {time_text(time)}", (until for _, until in spans if until < time),
            (since for since, _ in spans if since > time), time_text, "--at",
        )  # fmt: skip

    def _end_at(self, chain: _Chain, time: int) -> int:
        for number, part in enumerate(chain.parts):
            if not part.piece.records or part.piece.times[1] <= time:
                continue
            for rows in self._rows(chain, part):
                late = np.flatnonzero(rows["storeTimestamp"] > time)
                if len(late):
                    break
            else:
                continue  # of records that another run's log does not have
            end = int(rows["physicalOffset"][late[0]])
            before = chain.parts[number - 1] if number else part
            if before.end < part.piece.offset == end:  # in a gap
                started = (
                    run.started for run, cut in chain.runs if min(run.end, cut) <= before.end
                )
                until = max(before.piece.times[1], *started)
                if time <= until:
                    return before.end
                raise self._none(
                    f"at {time_text(time)}: the log from {before.end:,} to {end:,} was deleted "
                    "before it was backed up", [until], [part.piece.times[0]], time_text, "--at",
                )  # fmt: skip
            behind = (each.piece for each in chain.parts[number + 1 :] if each.piece.records)
            if any(piece.times[0] <= time for piece in behind):
                self.notes.note(
                    f"later messages were stored at an earlier time, as a clock was set back: the "
                    f"moment ends before the first one that was stored after it, at {end:,}"
                )
            return end
        return chain.head.end

    def by_offset(self, offset: int) -> Found:
        """Up to the last record that ends there or before."""
        there = [(chain, part) for chain in self.chains for part in chain.parts]
        has = (each for each in there if each[1].piece.offset < offset <= each[1].end)
        if chosen := next(has, None):
            end = self._border(*chosen, offset)
            self._name_branches(chosen[0], end, lambda other: other.head.end >= end)
            return self.found(chosen[0], end, lambda run, cut: min(run.end, cut) <= end)
        begins = (part.piece.offset + 1 for _, part in there if part.piece.offset >= offset)
        ends = (part.end for _, part in there if part.end < offset)
        raise self._none(f"at physical offset {offset:,}", ends, begins, str, "--to-offset")

    def _border(self, chain: _Chain, part: Part, offset: int) -> int:
        if offset == part.end:
            return offset
        end = part.piece.offset
        for rows in self._rows(chain, part):
            ends = (rows["physicalOffset"] + rows["size"])[rows["physicalOffset"] < offset]
            end = max([end, *ends[ends <= offset].tolist()])
        if end != offset:
            self.notes.note(f"no record ends at {offset:,}: the moment ends at {end:,}")
        return end

    def end_of(self, message_id: str) -> int:
        """Where a message ends, the last with its id on the newest chain that has it."""
        from reput.jobs.opening.questions import open_store

        for head, _, _ in self.chains:
            path = str(self._moment(head, head.end))
            with open_store(path, settings=settings_of(head)) as store:
                records = [each.record for each in store.by_message_id(message_id, scan=True)]
            if records:
                return records[-1].physical_offset + records[-1].size
        raise StoreError(f"{self.catalogue.folder}: no backed-up message has the id {message_id!r}")

    def _moment(self, run: Run, end: int) -> Moment:
        return Moment(self.catalogue.root, self.catalogue.store, run.run, run.run, end)

    def _rows(self, chain: _Chain, part: Part) -> Iterator[Any]:
        """The rows of a part's records (RECORD_ROW), a window at a time, up to damage."""
        from reput.store_format.query.reader import OpenedStore

        run, path = chain.head, str(self._moment(chain.head, part.end))
        folder, release = Folder(storage_for(path), path), run.rocketmq or RELEASES[-1]
        with OpenedStore(folder, release, settings_of(run), Notes(), part.end) as opened:
            try:
                for step in opened.log.steps(part.piece.offset, part.end):
                    yield step.rows
            except NoRecord as error:
                self.notes.note(f"{error}; what follows is not looked at")

    def _name_branches(self, chosen: _Chain, end: int, has: Callable[[_Chain], bool]) -> None:
        """Note the other chains that have the moment and another log up to it."""
        for other in self.chains:
            if other is not chosen and has(other) and other.log(end) != chosen.log(end):
                path = self._moment(other.head, other.head.end)
                self.notes.note(
                    f"run {other.head.run} has that moment too, with a log that went on "
                    f"differently: {path} is its end"
                )

    def _none(
        self, what: str, earlier: Iterable[int], later: Iterable[int], text: Callable[[int], str],
        option: str,
    ) -> StoreError:  # fmt: skip
        near = ("before", max(earlier, default=None)), ("after", min(later, default=None))
        sides = [f"{option} {text(each)} is the nearest {side}" for side, each in near
                 if each is not None]  # fmt: skip
        return StoreError(f"{self.catalogue.folder}: no backup {what}; {', '.join(sides)}")
