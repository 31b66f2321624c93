"""`reput clean`: remove the leftovers of killed runs, but nothing that is in use."""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from reput.jobs.console.options import DAMAGE, DONE, FAILED, add_consent, consent, show
from reput.jobs.console.voice import add_output
from reput.jobs.engines.folders import abandoned_session_folders, remove_session_folder
from reput.jobs.in_place.install import finish_killed, foreign_installs
from reput.jobs.outputs.publish import Temporary, places, staged
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage, VolumeStorage
from reput.store_format.files.private import Scratch
from reput.store_format.files.protocol import Storage, StoreInUse
from reput.store_format.files.system import holder_text, is_our_folder
from reput.store_format.names import LOCK, STAGED_INDEX, STAGED_TIMER_LOG

_TEMPORARY = (*Temporary, *Scratch)
_WITHIN = (f".{Temporary.RECOVER}", *_TEMPORARY)
_SHOWN = 5

_HELP = """\
Removes what killed runs left beside and in PATH, and what this user's killed runs of any command
left in the temporary folder (Spark's own folders there too), and of a killed writer the index files
that were not yet in their place (.reput-index), of a killed deliver-delayed the timerlog
(.reput-timerlog). Brings killed installations to their end. What a
running process holds stays, and so does what is not this user's alone.
Exit codes: 0 done, or nothing to do; 1 --dry-run found something; 2 nobody said yes, or wrong
usage; 3 something could not be removed.

examples:
  reput clean /data/rebuilt --dry-run
  reput clean /data/store --yes
  reput clean /tmp

"""


@dataclass
class Cleaned:
    """The folders found, and what was done with them."""

    path: str
    done: bool = False
    leftovers: list[str] = field(default_factory=list)  # their processes are gone
    sessions: list[str] = field(default_factory=list)  # Spark's folders of killed commands
    # folders of a killed writer, or the timerlog's of a killed deliver-delayed
    staged_index: list[str] = field(default_factory=list)
    installs: list[str] = field(default_factory=list)  # killed installs, finished or undone
    in_use: list[str] = field(default_factory=list)  # a running process holds them
    unknown: list[str] = field(default_factory=list)  # unknown whether a process holds them
    foreign: list[str] = field(default_factory=list)  # named like ours but not ours: untouched
    failed: list[str] = field(default_factory=list)  # could not be removed

    @property
    def needed(self) -> bool:
        return bool(self.leftovers or self.sessions or self.staged_index or self.installs)

    def text(self) -> str:
        verb = "removed" if self.done else "would remove"
        folders = self.leftovers + self.sessions + self.staged_index
        lines = [f"{verb} {path}" for path in folders if path not in self.failed]
        verb = "finished" if self.done else "would finish"
        lines += [f"{verb} the installation that left {path}" for path in self.installs]
        lines += [f"could not remove {path}" for path in self.failed]
        lines += [f"kept {path}: it is in use" for path in self.in_use]
        lines += [f"kept {path}: it is not this user's alone" for path in self.foreign]
        lines += [
            f"kept {path}: nobody can tell here whether a job uses it; --idle removes it"
            for path in self.unknown
        ]
        return "\n".join(lines) or f"nothing was left at {self.path}"


def clean(
    path: str, *, idle: bool = False, dry_run: bool = False, storage: Storage | None = None,
    confirm: Callable[[str], None] = lambda _: None,
) -> Cleaned:  # fmt: skip
    """Remove staging folders beside an output (or a store) and in it whose jobs are gone, and
    those of this user's jobs in the temporary folder.

    path: an output, a store, or a folder that was a --staging. idle: whether the caller knows
    that no job runs for `path`; believed where reput cannot find out, as on object stores.
    confirm: asked before anything is removed; raises StoreError to stop. Raises OSError.
    """
    storage = storage or storage_for(path)
    about = Cleaned(storage.resolve(path).rstrip("/"))
    _look(storage, about, idle)
    about.sessions = abandoned_session_folders()
    if isinstance(storage, LocalStorage) and os.path.isdir(about.path):
        _installs(about, dry_run=True)
        _look_for_staged_index(about)
    if about.needed and not dry_run:
        names = about.leftovers + about.sessions + about.staged_index + about.installs
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        confirm(f"remove {', '.join(names[:_SHOWN])}{more}")
        for folder in about.leftovers:
            storage.remove_tree(folder)
        if about.installs:
            _installs(about, dry_run=False)
        if about.staged_index:
            _remove_staged_index(about)
        about.done = True
        again = Cleaned(about.path)
        _look(storage, again, idle)
        about.failed += again.leftovers
        about.failed += [path for path in about.sessions if not remove_session_folder(path)]
    return about


def _look(storage: Storage, about: Cleaned, idle: bool) -> None:
    place = Place(storage, about.path)
    within = [(place, prefix) for prefix in _WITHIN]
    local = isinstance(storage, LocalStorage) and not isinstance(storage, VolumeStorage)
    temporary = os.path.abspath(tempfile.gettempdir())
    if local and temporary != about.path:
        within += [(Place(storage, temporary), prefix) for prefix in _TEMPORARY]
    for folder, prefix in (*places(place), *within):
        for path, gone in staged(folder, prefix):
            # the folder where jobs of all users stage
            if local and folder.path == temporary != about.path:
                about.leftovers += [path] * (gone is True)
            elif local and not is_our_folder(path):
                about.foreign.append(path)
            elif gone or (gone is None and idle):
                about.leftovers.append(path)
            else:
                (about.unknown if gone is None else about.in_use).append(path)


def _look_for_staged_index(about: Cleaned) -> None:
    """Look for index files staged by a killed writer, which the next writer would remove too."""
    in_store = os.path.isfile(os.path.join(about.path, LOCK))  # each writer leaves its lock file
    for name in (STAGED_INDEX, STAGED_TIMER_LOG):
        folder = os.path.join(about.path, name)
        if not in_store or os.path.islink(folder) or not os.path.isdir(folder):
            continue
        holder = LocalStorage().lock_holder(about.path)
        if holder is None:
            about.staged_index.append(folder)
        else:
            about.in_use.append(f"{folder} ({holder_text(holder)} has the store open)")


def _remove_staged_index(about: Cleaned) -> None:
    """Remove staged files while holding the store's lock, so that no writer begins meanwhile."""
    files = DiskFiles.as_owned_by(os.stat(about.path), about.path)
    try:
        release = files.lock(LOCK)
    except StoreInUse as error:
        about.in_use.append(str(error))
        about.staged_index = []
        return
    try:
        for folder in about.staged_index:
            shutil.rmtree(folder, ignore_errors=True)
            about.failed += [folder] * os.path.lexists(folder)
    finally:
        release()


def _installs(about: Cleaned, dry_run: bool) -> None:
    """Finish or undo killed installs, unless a broker or another install has the store."""
    try:
        about.foreign += [p for p in foreign_installs(about.path) if p not in about.foreign]
        about.installs = finish_killed(about.path, dry_run)
    except StoreInUse as error:
        about.in_use.append(str(error))


# --- the command ---------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument(
        "path", metavar="PATH", help="an output, a store, or a folder that was a --staging"
    )
    parser.add_argument(
        "--idle", action="store_true",
        help="you know that no job is running for PATH: on object stores, where reput cannot find "
        "that out, everything that runs have left is removed",
    )  # fmt: skip
    add_consent(parser)
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    about = clean(
        arguments.path, idle=arguments.idle, dry_run=arguments.dry_run,
        confirm=consent(arguments.yes),
    )  # fmt: skip
    whole = {"needed": about.needed, **asdict(about)}
    found = (about.leftovers, about.installs, about.in_use, about.unknown, about.foreign)
    local = isinstance(storage_for(arguments.path), LocalStorage)
    if local and not any(found) and not os.path.lexists(about.path):
        raise StoreError(f"{about.path}: no such folder, and no run has left anything beside it")
    show(arguments, whole, about.text(), good=not about.failed)
    if about.failed:
        return FAILED
    return DAMAGE if about.needed and not about.done else DONE
