"""Removes old backups from a repository, and what no run of it names.

What is to go is written down first, as a run, with all that the others still need. So a kill at any
step leaves a repository in which each kept backup is whole; the next forget removes what was left.
"""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any

from reput.jobs.outputs.report import counted
from reput.jobs.repository.repository import Repository, claimed
from reput.store_format.faults import StoreError
from reput.store_format.files.catalogue import CHECKS, LOG, RUNS, STATE, Catalogue
from reput.store_format.files.manifest_last import for_all
from reput.store_format.files.protocol import PART, FileState
from reput.store_format.files.runs import Forget, Kept, Run, as_bytes

_HOUR = 3_600_000_000_000  # ns: what no run names and is younger may be of a backup that is writing
_CHECKS_KEPT = 20


@dataclass
class Forgotten:
    """What a forget removed of a store, or would. bytes: in the repository."""

    store: str
    removed: list[int] = field(default_factory=list)
    kept: int = 0
    pieces: int = 0
    files: int = 0  # of state
    left: int = 0  # files of unfinished runs
    bytes: int = 0
    done: bool = False

    @property
    def needed(self) -> bool:
        return bool(self.removed or self.pieces or self.files or self.left)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"needed": self.needed}

    def text(self) -> str:
        verb = "removed" if self.done else "would remove"
        if not self.needed:
            return f"{self.store}: nothing to remove; kept: {counted(self.kept, 'backup')}"
        of = ((self.pieces, "piece", "of the log"), (self.files, "file", "of state"),
              (self.left, "file", "that unfinished runs left"))  # fmt: skip
        parts = [counted(len(self.removed), "backup")]
        parts += [f"{counted(count, what)} {which}" for count, what, which in of if count]
        return (
            f"{self.store}: {verb} {', '.join(parts)}: {self.bytes:,} bytes; "
            f"kept: {counted(self.kept, 'backup')}"
        )


def stays(
    runs: list[Run], heads: Iterable[int], since: int | None, last: int | None, now: int
) -> list[Run]:
    """The backups that stay: those made since a time, or the last ones; and the newest of each
    branch. Times are milliseconds.

    A run counts as made when an earlier one says so, if a clock was set back between them; but one
    whose clock was ahead of now says nothing of itself or others.
    """
    kept, made = set(heads), 0
    for run in runs:
        made = max(made, run.ended if run.ended <= now else 0)
        if since is not None and made >= since:
            kept.add(run.run)
    if last is not None:
        kept |= {run.run for run in runs[-last:]}
    return [run for run in runs if run.run in kept]


def what_is_kept(catalogue: Catalogue, kept: list[Run], ended: int) -> Forget:
    """The forget that leaves these backups, with the pieces that the oldest of them need."""
    there = {run.run for run in kept}
    before = catalogue.last_forget()
    listed = {run: each for run, each in (before.kept if before else {}).items() if run in there}
    for run in kept:
        if run.parent is None or run.parent in there:
            continue
        begins, with_it = run.begins, {run.run}
        for each in kept:
            if each.parent in with_it:
                with_it.add(each.run)
                begins = min(begins, each.begins)
        pieces = tuple(part.piece for part in catalogue.chain(run) if part.end > begins)
        first = pieces[0].offset if pieces else run.begin
        listed[run.run] = Kept(first, first, pieces)
    removed = tuple(number for number in catalogue.numbers if number not in there
                    and isinstance(catalogue.object(number), Run))  # fmt: skip
    return Forget(max(catalogue.numbers, default=0) + 1, ended, removed, listed)


Going = dict[str, dict[str, FileState]]  # Forgotten's pieces, files and left: paths in the store


def what_goes(catalogue: Catalogue, kept: list[Run], forget: Forget, now: int) -> Going:
    """The files that no kept backup needs. now: by the storage's clock, in nanoseconds."""
    named, wanted = set[str](), {each.name for run in kept for each in run.state}
    for run in kept:
        pieces = forget.kept[run.run].pieces if run.run in forget.kept else run.pieces
        named |= {piece.name for piece in pieces}
    gone = [run for run in map(catalogue.object, forget.removed) if isinstance(run, Run)]
    once = [*gone, *(catalogue.run(run.run) for run in kept)]
    old_pieces = {piece.name for run in once for piece in run.pieces}
    old_state = {each.name for run in gone for each in run.state}
    going: Going = {"pieces": {}, "files": {}, "left": {}}
    for folder, needed, old, to in (
        (LOG, named, old_pieces, "pieces"), (STATE, wanted, old_state, "files"),
        (RUNS, {f"{number:08d}.json" for number in catalogue.numbers}, set[str](), "left"),
    ):  # fmt: skip
        for name, state in catalogue.listed(folder):
            if state is None or name in needed:
                continue
            if name in old:
                going[to][f"{folder}/{name}"] = state
            elif now - state.mtime > _HOUR:
                going["left"][f"{folder}/{name}"] = state
    going["left"] |= {
        f"{folder}/{name}".lstrip("/"): state
        for folder in (CHECKS, "") for name, state in catalogue.listed(folder)
        if state is not None and name.endswith(PART) and now - state.mtime > _HOUR
    }  # fmt: skip
    return going


def forget_old(repository: Repository, store: str, asked: Any, now: int) -> Forgotten:
    """Remove a store's old backups, asked as jobs/forget.py declares it. now: milliseconds.

    Raises StoreError, OSError.
    """
    since = None if asked.keep is None else now - asked.keep
    with nullcontext() if asked.dry_run else claimed(repository, store, "forget") as claim:
        catalogue = repository.catalogue(store)
        runs = catalogue.backups()
        for run in filter(catalogue.is_lost, runs):
            path = catalogue.path_of(run.parent or 0)
            raise StoreError(
                f"{path}: is missing: nothing is removed, as it names what run {run.run} needs"
            )
        heads = [run.run for run in catalogue.heads()]
        kept = stays(runs, heads, since, asked.keep_last, now)
        forget = what_is_kept(catalogue, kept, now)
        clock = now * 1_000_000 if claim is None else claim.said()
        going = what_goes(catalogue, kept, forget, clock)
        there = {run.run for run in runs}
        about = Forgotten(
            store, [number for number in forget.removed if number in there], len(kept),
            bytes=sum(state.size for each in going.values() for state in each.values()),
            **{name: len(each) for name, each in going.items()},
        )  # fmt: skip
        if claim is None or not about.needed:
            return about
        asked.confirm(
            f"remove {counted(len(about.removed), 'backup')} of {store} from {repository.root}: "
            f"{about.bytes:,} bytes"
        )
        claim.check()
        old = [catalogue.path_of(number) for number in forget.removed]
        if about.removed:
            path = catalogue.path_of(forget.run)
            if not repository.storage.put_new(path, as_bytes(forget.as_json())):
                raise StoreError(
                    f"{path}: another command has written it meanwhile; nothing was lost"
                )
            old += [catalogue.path_of(number) for number in catalogue.numbers
                    if isinstance(catalogue.object(number), Forget)]  # fmt: skip
        checks = [f"{catalogue.folder}/{CHECKS}/{name}" for name, _ in catalogue.listed(CHECKS)]
        for_all(claim.remove, old + sorted(checks)[:-_CHECKS_KEPT])
        below = (name for each in going.values() for name in each)
        for_all(claim.remove, (f"{catalogue.folder}/{name}" for name in below))
        about.done = True
        return about
