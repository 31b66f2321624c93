"""A repository that is written to: whether it may be, its folders, and who writes there now."""

import json
import os
import socket
import stat
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reput.jobs.outputs.output import refuse_overlap
from reput.store_format.faults import StoreError
from reput.store_format.files import catalogue
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import PART, Storage, put_as
from reput.store_format.files.runs import FORMAT, as_bytes
from reput.store_format.files.system import is_ours


@dataclass(frozen=True)
class Repository:
    """A repository by its path or URL. root: as `storage` resolves it."""

    storage: Storage
    root: str

    @classmethod
    def at(cls, path: str) -> "Repository":
        storage = storage_for(path)
        return cls(storage, storage.resolve(path).rstrip("/"))

    def check(self, inputs: tuple[Place, ...], store: str) -> None:
        """Raises StoreError if nothing may be written there: it is no repository, overlaps what is
        backed up, or others could change it; OSError.
        """
        if not catalogue.NAME.fullmatch(store):
            raise StoreError(
                f"{store!r} is not a name for a store in a repository: 1 to 100 of A-Z a-z 0-9 . _ "
                f"-, and no dot in front; --store NAME gives one"
            )
        folders = (catalogue.RUNS, catalogue.LOG, catalogue.STATE, catalogue.CHECKS)
        own = [f"{self.root}/{store}", *(f"{self.root}/{store}/{each}" for each in folders)]
        for path in (self.root, *own):
            refuse_overlap(Place(self.storage, path), inputs)
            if isinstance(self.storage, LocalStorage) and os.path.lexists(path):
                _refuse_others(path)
        try:
            there = self.storage.list(self.root)
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise StoreError(f"{self.root}: is there and is not a folder") from None
        if not all(name.endswith(PART) for name, _ in there):
            catalogue.stores_of(self.storage, self.root)

    def make(self, store: str) -> None:
        """Make the repository, and the folders for a store. Raises OSError, StoreError."""
        self._make_folder(self.root)
        path = f"{self.root}/{catalogue.MARKER}"
        self.storage.put_new(path, as_bytes({"format": FORMAT}))
        # raises if another version has made it meanwhile
        catalogue.stores_of(self.storage, self.root)
        for name in (catalogue.LOG, catalogue.STATE, catalogue.RUNS):
            self._make_folder(f"{self.root}/{store}/{name}")

    def _make_folder(self, path: str) -> None:
        if type(self.storage) is LocalStorage:  # with durable names, before a run is there
            DiskFiles("", 0o600, 0o700).make_folder(path.lstrip("/"))
        else:
            self.storage.make_folders(path)

    def catalogue(self, store: str) -> catalogue.Catalogue:
        return catalogue.Catalogue(self.storage, self.root, store)


def _refuse_others(path: str) -> None:
    about = os.lstat(path)
    if stat.S_ISLNK(about.st_mode):
        raise StoreError(f"{path}: is a link; give the folder that it leads to")
    if not is_ours(about):
        whose = f"belongs to user {about.st_uid}" if about.st_uid != os.geteuid() else "is shared"
        raise StoreError(
            f"{path}: {whose}: others could change the backups; a repository's folder is this "
            f"user's alone (chmod go-w)"
        )


# ---
# The claim: one command at a time writes to a store's part of a repository.
#
# A run is written by `put_new`, so two backups at once could not harm the catalogue. But a forget
# removes what no run names, which may be what a backup has just written.

_held_here: set[str] = set()  # ids of the claims that this process holds
_RENEW, _STALE = 60.0, 600.0  # seconds: after so long without a word the claim's holder is dead
_SETTLES = 0.5  # seconds in which others that saw the same dead claim have removed it too


class Claimed(StoreError):
    """Another command writes to the repository."""


class Claim:
    """What this process holds, and says again from time to time while it lives."""

    def __init__(self, repository: Repository, store: str, what: str) -> None:
        self.storage, self.path = repository.storage, f"{repository.root}/{store}/{catalogue.CLAIM}"
        self._id, self._checked = uuid.uuid4().hex, 0.0
        self._about = {"format": FORMAT, "what": what, "host": socket.gethostname(),
                       "process": os.getpid(), "boot": _boot(), "id": self._id}  # fmt: skip

    def _content(self) -> bytes:
        return as_bytes({**self._about, "time": time.time_ns() // 1_000_000})

    def take(self) -> None:
        """Raises Claimed that names who holds it."""
        for removed in (False, True):
            if self.storage.put_new(self.path, self._content()):
                if removed:
                    time.sleep(_SETTLES)
                    self.check()
                _held_here.add(self._id)
                self._checked = _awake()
                return
            there = self._read()
            if there is not None and not self._is_dead(there):
                raise Claimed(
                    f"{self.path}: a {there.get('what')} (process {there.get('process')} on "
                    f"{there.get('host')}) writes to the repository; if it is dead, this works "
                    f"{_STALE / 60:.0f} minutes after its last word"
                )
            self.storage.remove(self.path)
        raise Claimed(f"{self.path}: others begin to write to the repository at the same time")

    def renew(self) -> None:
        """Say again that this process is alive. Raises Claimed, OSError."""
        self.check()
        if isinstance(self.storage, LocalStorage):
            os.utime(self.path)
        elif not put_as(self.storage, self.path, self._content()):  # HDFS replaces nothing
            self.storage.remove(self.path)
            self.storage.put_new(self.path, self._content())

    def check(self) -> None:
        """Raise Claimed if another command has taken this one for dead."""
        there = self._read()
        if there is None or there.get("id") != self._id:
            raise Claimed(f"{self.path}: another command took this one for dead; nothing was lost")
        self._checked = _awake()

    def remove(self, path: str) -> None:
        """Remove a file of the repository. Raises Claimed where this process was stopped for long,
        and another may already use what was to go; OSError.
        """
        if _awake() - self._checked > 2 * _RENEW:
            self.check()
        self.storage.remove(path)

    def said(self) -> int:
        """When the storage was last told, by its own clock, in nanoseconds."""
        reader = self.storage.open(self.path)
        found = reader.state.mtime
        reader.close()
        return found

    def release(self) -> None:
        _held_here.discard(self._id)
        there = self._read()
        if there is not None and there.get("id") == self._id:
            self.storage.remove(self.path)

    def _read(self) -> dict[str, Any] | None:
        try:
            found = json.loads(self.storage.read_bytes(self.path))
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _is_dead(self, there: dict[str, Any]) -> bool:
        """Whether its process has ended on this machine, or has said nothing for long."""
        process, (boot, _, names) = there.get("process"), str(there.get("boot")).partition(" ")
        if there.get("host") == socket.gethostname() and type(process) is int:
            own, _, own_names = _boot().partition(" ")
            if boot != own or (names == own_names and not _lives(process, there.get("id"))):
                return True
        try:
            return time.time() - self.said() / 1e9 > _STALE
        except FileNotFoundError:
            return False


def _lives(process: int, claim: Any) -> bool:
    """Whether a process of this machine runs, and has the claim if it is this one."""
    if process == os.getpid():
        return claim in _held_here
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _boot() -> str:
    """What differs after this machine was started again; then what differs between containers of
    one host name, in which a process's number says nothing of another's.
    """
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _awake() -> float:
    """Seconds, also those in which this machine or process was stopped."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@contextmanager
def claimed(repository: Repository, store: str, what: str) -> Iterator[Claim]:
    """Hold the claim while the block runs. Raises Claimed."""
    claim, ended = Claim(repository, store, what), threading.Event()
    claim.take()

    def renew() -> None:
        while not ended.wait(_RENEW):
            with suppress(OSError, StoreError):  # whoever needs the claim checks it
                claim.renew()

    renewing = threading.Thread(target=renew, daemon=True)
    renewing.start()
    try:
        yield claim
    finally:
        ended.set()
        renewing.join()
        claim.release()
