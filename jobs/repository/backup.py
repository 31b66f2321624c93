"""One backup of a store to a repository: what is new of its log, what else its broker keeps, and
the run, which is written last.
"""

import os
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any

import numpy as np

from reput import __version__
from reput.jobs.outputs.output import inputs_of
from reput.jobs.outputs.report import counted
from reput.jobs.replicating.source import SourceCleaned, SourceLog
from reput.jobs.repository.log_pieces import GoesOn, LogPacker, Packed, goes_on, read_log
from reput.jobs.repository.repository import Claim, Repository, claimed
from reput.jobs.repository.state import SECRET_SETTINGS, SECRETS, Snapshot, of_before
from reput.store_format.discover.config import found_conf
from reput.store_format.discover.purpose import BACKUP
from reput.store_format.discover.store import Discovered, StoreAt, discover
from reput.store_format.faults import PieceBroken, StoreChanged, StoreError
from reput.store_format.files import frames
from reput.store_format.files.catalogue import LOG, NAME, STATE, Catalogue
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import Bytes
from reput.store_format.files.runs import Branch, Piece, Run, Span, StateEntry, as_bytes
from reput.store_format.kernels.crc import crc_of
from reput.store_format.log.groups import log_folders, refuse_heads
from reput.store_format.log.rules import record_rules
from reput.store_format.notes import Done
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import parse_properties, settings_from
from reput.store_format.rocksdb.queues import queues_folder

LEVEL = 1  # of zstd: the fastest, as a first backup is to be as fast as a copy
_LOOKS = 20  # at a store that a broker changes meanwhile
_AT_ONCE = 4  # pieces that are written, and threads that pack, at most


@dataclass
class BackedUp:
    """What a backup found and wrote. Offsets are physical, lengths bytes."""

    store: str
    repository: str
    name: str
    run: int | None = None  # None: nothing was written (dry_run)
    rocketmq: str = ""
    first: int = 0
    begin: int = 0
    end: int = 0
    records: int = 0
    pieces: int = 0
    bytes: int = 0  # of the log, new
    stored: int = 0  # what they take in the repository
    files: int = 0  # of state, all
    new_files: int = 0
    again: int = 0  # files of the repository that were gone or damaged, and are put again
    gap: Span | None = None
    branch: Branch | None = None
    damaged: list[Span] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    cut: bool = False  # at a missing segment: what follows is not backed up
    seconds: float = 0.0
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)

    @property
    def new(self) -> bool:
        return bool(self.bytes or self.new_files or self.branch or self.again)

    @property
    def good(self) -> bool:
        return not self.damaged and not self.cut

    def as_json(self) -> dict[str, Any]:
        branch = self.branch and self.branch._asdict()
        return {**asdict(self), "branch": branch}

    def line(self) -> str:
        """What was done, in one line."""
        what = f"run {self.run}" if self.run else "would back up"
        new = f"{self.bytes:,} bytes of the log in {counted(self.records, 'record')}"
        if not self.bytes:
            new = "nothing new in the log"
        stored = f"; {self.stored:,} bytes stored" if self.run else ""
        return (
            f"{what}: {new} up to {self.end:,}, {self.new_files} new of "
            f"{counted(self.files, 'other file')}{stored}, {self.seconds:.1f} s"
        )

    def text(self) -> str:
        lines = [f"{self.name} in {self.repository}: {self.line()}"]
        lines += [f"  log       from {self.first:,}; this run has {self.begin:,} to {self.end:,}"]
        if self.branch:
            lines.append(f"  branch    the log was cut back at {self.branch.differs_at:,} and went "
                         f"on differently; the other branch, up to {self.branch.parent_end:,}, "
                         f"stays")  # fmt: skip
        if self.gap:
            lines.append(f"  gap       {self.gap[0]:,} to {self.gap[1]:,}: the broker had deleted "
                         f"these segments before they were backed up")  # fmt: skip
        if self.again:
            lines.append(f"  again     put {counted(self.again, 'file')} anew that were gone or "
                         f"damaged in the repository")  # fmt: skip
        lines += [f"  damaged   {a:,} to {b:,}: no whole record; kept as it is"
                  for a, b in self.damaged]  # fmt: skip
        if self.without:
            lines.append("  without   users, ACLs and broker.conf (--no-secrets)")
        return "\n".join([*lines, *(f"  warning   {line}" for line in self.warnings)])


def back_up(asked: Any, at: StoreAt, repository: Repository) -> BackedUp:
    """Back a store up once, asked as jobs/backup.py declares it. Nothing of the store is changed,
    and no lock is taken.

    Raises StoreError (OverlapsInput, Claimed, SourceCleaned), SettingError, OSError; then the
    repository has all that it had, and perhaps files that no run names.
    """
    began, found = time.monotonic(), found_conf(at.folder)
    conf = None if found is None else Folder(at.storage, found.path)
    if asked.conf is not None:
        conf = Folder(LocalStorage(), LocalStorage().resolve(asked.conf))
    name = _name_of(at, conf) if asked.name is None else asked.name
    discovered = _discovered(at)
    about = BackedUp(at.path, repository.root, name, rocketmq=discovered.release,
                     dry_run=asked.dry_run, warnings=list(discovered.warnings))  # fmt: skip
    repository.check(tuple(inputs_of(at.folder, discovered.settings)), name)
    settings = settings_from(discovered.settings, release=discovered.release)
    folders = list(discovered.log_folders) or log_folders(at.folder, settings)
    source = SourceLog(at.storage, folders, settings.mapped_file_size_commit_log)
    refuse_heads(list(source.segments.values()), "backup")
    with closing(source):
        if not asked.dry_run:
            repository.make(name)
        with nullcontext() if asked.dry_run else claimed(repository, name, "backup") as claim:
            known = repository.catalogue(name)
            made = _Backup(asked, about, at.folder, source, discovered, known, claim)
            made.run(conf, partial(at.storage.lock_holder, at.path))
    about.seconds = time.monotonic() - began
    return about


def _name_of(at: StoreAt, conf: Folder | None) -> str:
    """The name of a store in a repository: its brokerName, else its folder's."""
    if conf is not None:
        text = conf.storage.read_bytes(conf.path).decode("latin-1")
        named = parse_properties(text).get("brokerName", "").strip()
        if NAME.fullmatch(named):
            return named
    return re.sub(r"[^A-Za-z0-9._-]", "_", at.path.rpartition("/")[2])


def _discovered(at: StoreAt) -> Discovered:
    """What the store shows; a running broker changes its index while that is looked at."""
    for _ in range(_LOOKS):
        with suppress(StoreChanged):
            return discover(at, BACKUP)
    return discover(at, BACKUP)


class _Backup:
    def __init__(
        self, asked: Any, about: BackedUp, store: Folder, source: SourceLog,
        discovered: Discovered, catalogue: Catalogue, claim: Claim | None,
    ) -> None:  # fmt: skip
        """claim: None for a dry run, in which nothing is written."""
        self.asked, self.about, self.store, self.source = asked, about, store, source
        self.discovered, self.catalogue, self.claim = discovered, catalogue, claim
        self.storage, self.base = catalogue.storage, catalogue.folder
        self.rules = record_rules(profile(discovered.release))
        self.pieces: list[Piece] = []
        self.broken: set[str] = set()  # digests of state that the repository has lost

    def run(self, conf: Folder | None, live: Callable[[], int | None]) -> None:
        """conf: the file of the broker's configuration, if it is known; live: as for LogPacker."""
        asked, about, source, store = self.asked, self.about, self.source, self.store
        started = _now()
        parent, on = self.catalogue.newest(), GoesOn(source.start, None)
        if parent is not None:
            on = goes_on(source, parent, self.catalogue, self.rules)
        known = self._put_again(parent) if parent else ()
        snapshot = Snapshot(store, conf, asked.secrets, known)
        before = snapshot.take(self._put_state)
        packing = ThreadPoolExecutor(min(os.cpu_count() or 1, _AT_ONCE))

        def pack(frame: Bytes) -> Future[frames.Packed]:
            return packing.submit(frames.pack, frame, LEVEL, crc_of)

        to_pack = pack if self.claim else None
        packer = LogPacker(source, on, self.rules, asked.rate, live, to_pack)
        about.begin, about.gap, about.branch = on.begin, on.gap, on.branch
        about.first = parent.first if parent else on.begin
        with packing, asked.shows.stage("backed up", lambda: self._done(packer)):
            self._write(packer)
        after = snapshot.take(self._put_state, again=True)  # its topics cover the log
        state = tuple(sorted([*(each for each in before if of_before(each.path)), *after]))
        about.end, about.files = packer.end, len(state)
        about.damaged = packer.damaged
        about.warnings += snapshot.warnings
        about.cut = bool(source.behind)
        if source.behind:
            about.warnings.append(
                f"{source.behind[0].path}: a segment is missing before it: nothing from there on "
                f"is backed up"
            )
        about.without = [] if asked.secrets else [SECRETS]
        if self.claim is None:
            return
        forget = self.catalogue.last_forget()
        run = Run(
            max(self.catalogue.numbers, default=0) + 1, parent.run if parent else None, started,
            _now(), __version__, about.rocketmq, self._settings(), about.first, source.start,
            about.begin, about.end, packer.last, tuple(self.pieces), state, on.gap, on.branch,
            tuple(about.without), forget.run if forget else None, self._expired(on, parent),
        )  # fmt: skip
        self.claim.check()
        path = self.catalogue.path_of(run.run)
        if not self.storage.put_new(path, as_bytes(run.as_json())):
            raise StoreError(f"{path}: another backup has written it meanwhile; nothing was lost")
        about.run = run.run

    def _settings(self) -> dict[str, str]:
        """Those that a restore needs, where only derived files show them too."""
        in_rocksdb = queues_folder(self.store) is not None
        shown = {"storeType": "defaultRocksDB"} if in_rocksdb else {}
        found = {**shown, **self.discovered.settings}
        return {name: text for name, text in found.items() if not SECRET_SETTINGS.search(name)}

    def _expired(self, on: GoesOn, parent: Run | None) -> tuple[tuple[Any, ...], ...]:
        """Where queues end of which the broker had deleted all messages before any backup."""
        if on.begin == 0 or (parent is not None and on.gap is None):
            return parent.expired if parent else ()
        from reput.jobs.deriving.kept import last_entries  # here: few runs need it, and its imports

        found = last_entries(self.store, on.begin, set(), self.about.warnings)
        return tuple((*queue, *last) for queue, last in sorted(found.items()))

    def _write(self, packer: LogPacker) -> None:
        """Write the log's pieces, several at a time, while others are packed."""
        found: list[Future[Piece]] = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            try:
                for packed in packer.packed():
                    if len(found) >= _AT_ONCE:
                        found[-_AT_ONCE].result()
                    found.append(pool.submit(self._put_piece, packed))
                self.pieces = [each.result() for each in found]
            finally:
                pool.shutdown(cancel_futures=True)
        self.about.pieces = len(self.pieces)
        self.about.records = sum(piece.records for piece in self.pieces)
        self.about.bytes = sum(piece.length for piece in self.pieces)
        self.about.stored += sum(piece.stored for piece in self.pieces)

    def _put_piece(self, packed: Packed) -> Piece:
        piece = packed.piece
        if self.claim is None:
            return piece
        content = frames.joined([each.result() for each in packed.frames])
        path = f"{self.base}/{LOG}/{piece.name}"
        if self.storage.put_new(path, content):
            return piece._replace(stored=len(content))
        with closing(self.storage.open(path)) as reader:  # a killed run has left it
            return piece._replace(stored=reader.state.size)

    def _put_state(self, digest: str, content: bytes) -> None:
        self.about.new_files += 1
        self.about.again += digest in self.broken
        if self.claim is not None:
            packed = frames.compress(content, LEVEL)
            self._put(f"{self.base}/{STATE}/{digest}.zst", packed, digest in self.broken)
            self.about.stored += len(packed)

    def _put(self, path: str, content: bytes, broken: bool) -> None:
        assert self.claim is not None
        if broken:
            self.claim.check()
            with suppress(FileNotFoundError):
                self.storage.remove(path)
        self.storage.put_new(path, content)

    # What is gone or damaged in the repository is put again while the store has the same bytes.
    # Names alone tell what is gone, a check what is damaged, so that nothing else is read.

    def _put_again(self, parent: Run) -> tuple[StateEntry, ...]:
        """Put pieces of the newest log again; the files of its state that are there and whole."""
        catalogue, start = self.catalogue, self.source.start
        there, state = ({name for name, _ in catalogue.listed(each)} for each in (LOG, STATE))
        try:
            check = catalogue.damage_since(parent.run)
        except StoreError as error:  # whoever reads checks is told; a backup goes on
            check = None
            self.about.warnings.append(str(error))
        if check or _has_hole(there, max(parent.first, start), parent.end):
            for piece, _ in catalogue.chain(parent):
                sound = piece.name in (check.pieces if check else there) and piece.name in there
                if piece.offset >= start and not sound:
                    self._put_piece_again(piece, catalogue.piece_path(piece))
        doubted = check is not None and check.runs.get(str(parent.run)) != "whole"
        self.broken = {
            each.sha256 for each in parent.state if each.name not in state or (
                doubted and not self._is_whole(catalogue.state_path(each), each.length, each.sha256)
            )
        }  # fmt: skip
        return tuple(each for each in parent.state if each.sha256 not in self.broken)

    def _put_piece_again(self, piece: Piece, path: str) -> None:
        plain = np.empty(piece.length, np.uint8)
        with suppress(SourceCleaned):
            read_log(self.source, piece.offset, plain)
            same = sha256(plain).hexdigest() == piece.sha256
            if same and not self._is_whole(path, piece.length, piece.sha256):
                self.about.again += 1
                if self.claim is not None:
                    self._put(path, frames.compress(plain, LEVEL, crc_of), True)

    def _is_whole(self, path: str, length: int, digest: str) -> bool:
        try:
            return frames.digest_of(self.storage.read_bytes(path), length) == digest
        except (FileNotFoundError, PieceBroken):
            return False

    def _done(self, packer: LogPacker) -> Done:
        there, done = self.source.stop - self.about.begin, packer.end - self.about.begin
        share = done / there if there > 0 else None
        return Done(share, f"{done / 1e6:,.0f} MB of {there / 1e6:,.0f} MB at most")


def _now() -> int:
    return time.time_ns() // 1_000_000


def _has_hole(names: Iterable[str], at: int, end: int) -> bool:
    """Whether no piece has some part of a log."""
    heads = (name.split("-")[:2] for name in names if name.count("-") == 2)
    for offset, length in sorted((int(a), int(b)) for a, b in heads if (a + b).isdigit()):
        if offset > at:
            break
        at = max(at, offset + length)
    return at < end
