"""Checks a backup repository: each piece's frames, digest and records, each file of state, that the
log of each run goes on without a hole, and by request that random moments are restored to stores
that `check` finds sound. What was found is kept in the repository.
"""

import os
import random
import tempfile
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from reput import __version__
from reput.jobs.console.moment import Wanted, find_moment, settings_of
from reput.jobs.console.voice import time_text
from reput.jobs.engines.engine import Engine
from reput.jobs.judging.check import check_store_of
from reput.jobs.outputs.output import RESTORED, Output
from reput.jobs.outputs.publish import Temporary, temporary_folder
from reput.jobs.outputs.report import counted
from reput.jobs.pipeline.job import find_store
from reput.jobs.repository.restored import restore_store
from reput.store_format.discover.purpose import CHECK, REBUILD
from reput.store_format.discover.store import store_at
from reput.store_format.faults import REFUSE, StoreError
from reput.store_format.files.backups import segment_bytes
from reput.store_format.files.catalogue import CHECKS, Catalogue, Part
from reput.store_format.files.folder import Place
from reput.store_format.files.frames import digest_of
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.runs import FORMAT, Piece, Run, StateEntry, as_bytes
from reput.store_format.log.rules import record_rules
from reput.store_format.notes import Done, Notes, Progress
from reput.store_format.release.profiles import RELEASES, profile
from reput.udfs.backups import CHECKED, CheckPieces

WHOLE, DAMAGED = "whole", "damaged"
_PIECES_OF_A_TASK = 4


@dataclass
class CheckedStore:
    """What was found of a store. Times are milliseconds, offsets physical."""

    store: str
    checked: int  # when it began
    ended: int = 0
    runs: dict[str, str] = field(default_factory=dict)  # number -> WHOLE or DAMAGED
    pieces: dict[str, str] = field(default_factory=dict)  # name -> SHA-256, of whole ones
    bytes: int = 0  # plain, of the log
    damaged: list[str] = field(default_factory=list)
    restored: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    written: str = ""  # the file that has this

    @property
    def good(self) -> bool:
        return not self.damaged and all(each["verdict"] == WHOLE for each in self.restored)

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, "reput": __version__, **vars(self)}

    def text(self) -> str:
        whole = sum(verdict == WHOLE for verdict in self.runs.values())
        lines = [
            f"checked {self.store}: {WHOLE if self.good else DAMAGED}",
            f"  runs      {whole:,} of {counted(len(self.runs), 'run')} whole",
            f"  log       {counted(self.bytes, 'byte')} in {counted(len(self.pieces), 'piece')} "
            f"are whole, {(self.ended - self.checked) / 1000:.1f} s",
        ]
        lines += [f"  damaged   {line}" for line in self.damaged]
        lines += [
            f"  restored  up to {each['end']:,} of run {each['run']}: {each['verdict']}"
            for each in self.restored
        ]
        lines += [f"  note      {line}" for line in self.notes]
        return "\n".join([*lines, *([f"  kept in   {self.written}"] if self.written else [])])


@dataclass
class CheckedRepository:
    """A report for each store."""

    stores: list[CheckedStore]

    @property
    def good(self) -> bool:
        return all(each.good for each in self.stores)

    def as_json(self) -> dict[str, Any]:
        return {"stores": [{**each.as_json(), "pieces": len(each.pieces)} for each in self.stores]}

    def text(self) -> str:
        return "\n".join(each.text() for each in self.stores)

    def details(self) -> list[str]:
        return []


def check_repository(
    engine: Engine, catalogues: Iterable[Catalogue], restores: int, progress: Progress
) -> CheckedRepository:
    """Check stores of a repository. restores: how many random moments of each are restored.

    Raises OSError; StoreError where a catalogue cannot be read.
    """
    return CheckedRepository([
        _Checking(engine, catalogue, progress).checked(restores) for catalogue in catalogues
    ])  # fmt: skip


class _Checking:
    def __init__(self, engine: Engine, catalogue: Catalogue, progress: Progress) -> None:
        self.engine, self.catalogue, self.progress = engine, catalogue, progress
        self.runs = catalogue.backups()
        self.about = CheckedStore(catalogue.store, time.time_ns() // 1_000_000)

    def checked(self, restores: int) -> CheckedStore:
        chains: dict[int, list[Part]] = {}
        wrong: set[int] = set()
        for run in self.runs:
            try:
                chains[run.run] = self._chain(run)
            except StoreError as error:
                wrong.add(run.run)
                self.about.damaged.append(str(error))
        wrong |= self._pieces(chains) | self._state()
        self.about.runs = {
            str(run.run): DAMAGED if run.run in wrong else WHOLE for run in self.runs
        }
        for _ in range(restores if self.runs else 0):
            self._restore()
        self.about.ended = time.time_ns() // 1_000_000
        self._keep()
        return self.about

    def _chain(self, run: Run) -> list[Part]:
        """The pieces of a run's log. Raises StoreError where they have a hole that nobody named."""
        parts = self.catalogue.chain(run)
        lineage = [each for each, _ in self.catalogue.lineage(run)]
        if self.catalogue.is_lost(oldest := lineage[-1]):
            raise StoreError(
                f"{self.catalogue.path_of(oldest.parent or 0)}: is missing: of run {run.run} the "
                f"log before {oldest.begin:,} is not known; moments after that can be restored"
            )
        named = {each.gap for each in lineage if each.gap}
        for gap in self.catalogue.gaps(run):
            if gap not in named:
                path = self.catalogue.path_of(run.run)
                raise StoreError(f"{path}: its log has a hole that it does not name, {gap}")
        if parts and parts[-1].end != run.end:
            raise StoreError(f"{self.catalogue.path_of(run.run)}: no piece has its log's end")
        return parts

    def _pieces(self, chains: dict[int, list[Part]]) -> set[int]:
        """Read all pieces; the runs whose log is damaged."""
        found: dict[str, tuple[Piece, Run]] = {}
        for run in self.runs:
            for part in chains.get(run.run, ()):
                found.setdefault(part.piece.name, (part.piece, run))
        pieces = [(self.catalogue.piece_path(piece), piece, segment_bytes(run, self.catalogue))
                  for piece, run in found.values()]  # fmt: skip
        rules = record_rules(profile((self.runs[-1].rocketmq if self.runs else "") or RELEASES[-1]))
        task = CheckPieces(self.catalogue.storage, tuple(pieces), rules)
        rows: list[dict[str, Any]] = []
        if pieces:
            parts = -(-len(pieces) // _PIECES_OF_A_TASK)
            with self.progress.stage("pieces read", lambda: Done(self.engine.share_done(), "")):
                rows = self.engine.numbers(range(len(pieces)), parts).run(task, CHECKED).collect()
        wrong: set[int] = set()
        for row in rows:
            path, piece, _ = pieces[row["number"]]
            if not row["wrong"]:
                self.about.pieces[piece.name] = piece.sha256
                self.about.bytes += piece.length
                continue
            runs = [number for number, parts in chains.items()
                    if any(part.piece.name == piece.name for part in parts)]  # fmt: skip
            wrong |= set(runs)
            stored = f" stored {time_text(piece.times[0])} to {time_text(piece.times[1])}"
            self.about.damaged.append(
                f"{path}: {row['wrong']}: the log from {piece.offset:,} to {piece.end:,}, "
                f"{counted(piece.records, 'message')}{stored if piece.records else ''}; of "
                f"{_named(runs)} no moment after {piece.offset:,} is whole, those up to it are "
                f"(--to-offset {piece.offset})"
            )
        return wrong

    def _state(self) -> set[int]:
        """Read all files of state; the runs of which one is damaged."""
        of: dict[tuple[str, int], list[tuple[StateEntry, int]]] = {}
        for run in self.runs:
            for entry in run.state:
                of.setdefault((entry.sha256, entry.length), []).append((entry, run.run))
        wrong: set[int] = set()
        for (digest, length), found in of.items():
            path = self.catalogue.state_path(found[0][0])
            try:
                same = digest_of(self.catalogue.storage.read_bytes(path), length) == digest
                reason = "" if same else "has not the SHA-256 of its name"
            except FileNotFoundError:
                reason = "is missing"
            except StoreError as error:
                reason = str(error)
            if reason:
                numbers = [run for _, run in found]
                wrong |= set(numbers)
                name = found[-1][0].path
                self.about.damaged.append(f"{path}: {reason}: {name} of {_named(numbers)}")
        return wrong

    def _restore(self) -> None:
        """Restore a random moment to a temporary folder, and check the store that it makes."""
        catalogue = self.catalogue
        run = random.choice([run for run in self.runs if run.end] or self.runs)
        wanted = Wanted(catalogue.store, to_offset=random.randint(run.begin, run.end))
        row: dict[str, Any] = {"run": run.run, "end": wanted.to_offset, "verdict": WHOLE}
        self.about.restored.append(row)
        try:
            found = find_moment(catalogue.storage, catalogue.root, wanted, Notes())
            row |= {"run": found.moment.log, "end": found.moment.end}
            settings, release = settings_of(found.state), found.state.rocketmq or None
            at = store_at(str(found.moment), release, settings)
            store = find_store(self.engine, at, REBUILD, progress=self.progress)
            base = Place(LocalStorage(), os.path.realpath(tempfile.gettempdir()))
            with temporary_folder(base, Temporary.CHECK, store.inputs) as staging:
                place = Output(base.storage, staging.path("store"), RESTORED, False, store.inputs)
                restore_store(store, found, catalogue, place, REFUSE)
                made = store_at(place.path, store.plan.profile.release, settings)
                report = check_store_of(find_store(self.engine, made, CHECK), None, None, None)
                if not report.undamaged or report.log_end != found.moment.end:
                    row["verdict"] = f"{report.state}, its log ends at {report.log_end:,}"
        except StoreError as error:
            row["verdict"] = str(error)

    def _keep(self) -> None:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.about.checked / 1000))
        folder = f"{self.catalogue.folder}/{CHECKS}"
        path = f"{folder}/{moment}-{uuid.uuid4().hex[:8]}.json"
        storage = self.catalogue.storage
        try:
            storage.make_folders(folder)
            if storage.put_new(path, as_bytes(self.about.as_json())):
                self.about.written = path
        except OSError as error:  # a repository that may only be read
            self.about.notes.append(f"what was found is not kept in the repository: {error}")


def _named(runs: list[int]) -> str:
    """The runs, as ranges of those that follow one another."""
    spans: list[list[int]] = []
    for run in sorted(runs):
        if spans and spans[-1][1] == run - 1:
            spans[-1][1] = run
        else:
            spans.append([run, run])
    texts = [str(a) if a == b else f"{a} to {b}" for a, b in spans]
    return f"{'run' if len(runs) == 1 else 'runs'} {', '.join(texts)}"
