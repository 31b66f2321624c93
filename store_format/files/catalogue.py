"""The catalogue of a backup repository: the runs of a store, and the log that each stands for.

A run is written last and never changed, so it alone makes the pieces count that it names. Its log
is that of its parent up to `begin`, then its own pieces. A forget is a run too: it says which runs
are gone, and lists anew what the oldest of the others need of them.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from reput.store_format.faults import StoreError
from reput.store_format.files import runs
from reput.store_format.files.manifest_last import AT_ONCE
from reput.store_format.files.protocol import FileState, Listed, Storage

MARKER = "reput-repository.json"  # what makes a folder a repository
RUNS, LOG, STATE, CHECKS, CLAIM = "runs", "log", "state", "checks", "claim.json"
NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", re.ASCII)  # of a store in a repository
_RUN = re.compile(r"(\d{8})\.json", re.ASCII)


class Part(NamedTuple):
    """A piece of a run's log, and how many of its first bytes belong to that log."""

    piece: runs.Piece
    used: int

    @property
    def end(self) -> int:
        return self.piece.offset + self.used


class Catalogue:
    """The runs of a store. They are listed once, and read when they are asked for.

    root: the repository's folder or URL, resolved.
    """

    def __init__(self, storage: Storage, root: str, store: str) -> None:
        self.storage, self.root, self.store = storage, root, store
        self.folder = f"{root}/{store}"
        self._read: dict[int, runs.Run | runs.Forget] = {}
        found = ((_RUN.fullmatch(name), state) for name, state in self.listed(RUNS))
        self._there = {int(each[1]): state for each, state in found if each and state}
        self.numbers = sorted(self._there)

    def listed(self, below: str) -> list[Listed]:
        """What is in a folder of the store's part of the repository."""
        try:
            return self.storage.list(f"{self.folder}/{below}".rstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_lost(self, run: runs.Run) -> bool:
        """Whether the object of a run's parent is gone, and with it what the log had before."""
        return run.parent is not None and run.parent not in self._there

    def path_of(self, run: int) -> str:
        return f"{self.folder}/{RUNS}/{run:08d}.json"

    def piece_path(self, piece: runs.Piece) -> str:
        return f"{self.folder}/{LOG}/{piece.name}"

    def state_path(self, entry: runs.StateEntry) -> str:
        return f"{self.folder}/{STATE}/{entry.name}"

    def object(self, run: int) -> runs.Run | runs.Forget:
        """A run as its file has it. Raises StoreError where it is not there or cannot be read."""
        if run not in self._read:
            path = self.path_of(run)
            try:
                raw = self.storage.read_bytes(path)
            except FileNotFoundError:
                raise StoreError(f"{path}: is missing: no run {run}") from None
            self._read[run] = runs.parse_run(raw, path, run)
        return self._read[run]

    def read_all(self) -> None:
        """Read all runs, many at a time. Raises StoreError, OSError."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for _ in pool.map(self.object, self.numbers):
                pass

    def last_forget(self) -> runs.Forget | None:
        """The newest forget, which has all that earlier ones keep."""
        for number in reversed(self.numbers):
            found = self.object(number)
            if isinstance(found, runs.Run) and found.forget is not None:
                before, found = found, self.object(found.forget)
                if isinstance(found, runs.Run):
                    path = self.path_of(before.run)
                    raise StoreError(f"{path}: forget: run {found.run} is not a forget")
            return found if isinstance(found, runs.Forget) else None
        return None

    def run(self, number: int) -> runs.Run:
        """A backup, with the fields that a forget gave it. Raises StoreError for any other."""
        found = self.object(number)
        if not isinstance(found, runs.Run):
            raise StoreError(f"{self.path_of(number)}: is a forget, not a backup")
        forget = self.last_forget()
        kept = forget.kept.get(number) if forget else None
        return found if kept is None else replace(found, parent=None, gap=None, **kept._asdict())

    def checks(self) -> list[runs.Check]:
        """What `check` found in the repository, the oldest first. Raises StoreError, OSError."""
        return [runs.parse_check(self.storage.read_bytes(path), path) for path, _ in self._checks()]

    def _checks(self) -> list[tuple[str, FileState]]:
        found = ((f"{self.folder}/{CHECKS}/{name}", state) for name, state in self.listed(CHECKS))
        return sorted((path, state) for path, state in found if state and path.endswith(".json"))

    def damage_since(self, run: int) -> runs.Check | None:
        """The newest check, if it found damage and was made after a run. Raises as `checks`."""
        for path, state in self._checks()[-1:]:
            if state.mtime >= self._there[run].mtime:
                check = runs.parse_check(self.storage.read_bytes(path), path)
                return check if "damaged" in check.runs.values() else None
        return None

    def backups(self) -> list[runs.Run]:
        """All backups that are not forgotten, in order; all runs are read."""
        self.read_all()
        forget = self.last_forget()
        gone = set(forget.removed) if forget else set()
        return [self.run(number) for number in self.numbers
                if number not in gone and isinstance(self.object(number), runs.Run)]  # fmt: skip

    def newest(self) -> runs.Run | None:
        """The newest backup; only the newest objects are read."""
        for number in reversed(self.numbers):
            if isinstance(self.object(number), runs.Run):
                return self.run(number)
        return None

    def heads(self) -> list[runs.Run]:
        """The backups whose whole log no other backup continues: the newest of each branch."""
        found = self.backups()
        continued = {each.parent for each in found if each.branch is None}
        return [each for each in found if each.run not in continued]

    def lineage(self, run: runs.Run) -> Iterator[tuple[runs.Run, int]]:
        """A run and those before it, newest first, each with where its log's use ends; without
        those before one that is gone.
        """
        cut = run.end
        while True:
            yield run, cut
            cut = min(cut, run.gap[0] if run.gap else run.begin)
            if run.parent is None or self.is_lost(run):
                return
            run = self.run(run.parent)

    def chain(self, run: runs.Run) -> list[Part]:
        """The log of a run in its order, as pieces. Raises StoreError."""
        found: list[Part] = []
        for each, stop in self.lineage(run):
            for piece in reversed(each.pieces):  # each counts up to where the next begins
                cut = min(stop, found[-1].piece.offset) if found else stop
                if piece.offset < cut:
                    found.append(Part(piece, min(piece.end, cut) - piece.offset))
        return found[::-1]

    def gaps(self, run: runs.Run) -> list[runs.Span]:
        """Where the log of a run has nothing: deleted before it was backed up."""
        pairs = pairwise(self.chain(run))
        return [(one.end, two.piece.offset) for one, two in pairs if one.end < two.piece.offset]


def stores_of(storage: Storage, root: str) -> list[str]:
    """The stores of a repository. Raises StoreError for a folder that is none, OSError."""
    path = f"{root}/{MARKER}"
    try:
        runs.parse_object(storage.read_bytes(path), path)
    except (FileNotFoundError, NotADirectoryError):
        raise StoreError(f"{root}: is not a backup repository: it has no {MARKER}") from None
    names = (name for name, state in storage.list(root) if state is None)
    return [name for name in names if NAME.fullmatch(name) and _is_store(storage, f"{root}/{name}")]


def _is_store(storage: Storage, folder: str) -> bool:
    """Whether a folder is not somebody else's."""
    return any(name == RUNS and state is None for name, state in storage.list(folder))


def catalogues(storage: Storage, repository: str, store: str | None = None) -> list[Catalogue]:
    """That of the store that was named, or all. Raises as `only_store` does."""
    root = storage.resolve(repository).rstrip("/")
    names = [only_store(storage, root, store)] if store else stores_of(storage, root)
    return [Catalogue(storage, root, name) for name in names]


def only_store(storage: Storage, root: str, store: str | None) -> str:
    """The store that was named, or the only one. Raises StoreError that names those there are."""
    there = stores_of(storage, root)
    if store is None and len(there) == 1:
        return there[0]
    said = ", ".join(there) or "none"
    if store is None:
        raise StoreError(f"{root}: has {len(there)} stores ({said}): --store says which")
    if store not in there:
        raise StoreError(f"{root}: has no store {store!r}; there are: {said}")
    return store
