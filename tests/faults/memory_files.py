"""Files in memory that note every operation, fail on demand, and show what a crash may leave.

What a disk may do is `reput.store_format.files.protocol`'s list of assumptions, and nothing kinder:

- bytes not synced are there or not, sector by sector, in any order of the sectors;
- a length not synced is there or not; names not synced are there or not, folder by folder;
- after a failed sync what was not durable never becomes so, though it can still be read."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from reput import StoreChanged, StoreInUse
from reput.store_format.files.protocol import SECTOR_BYTES


class Op(NamedTuple):
    """One operation: on an inode (write, length, sync, failed sync) or on a name."""

    kind: str
    path: str
    inode: int = -1
    at: int = 0
    data: bytes = b""
    # Which folders it is in, and goes to: a folder's names go with it when it is moved.
    parents: tuple[int, ...] = ()


class MemoryFile:
    """An open file; the inode stays when its name goes."""

    def __init__(self, files: MemoryFiles, path: str, inode: int) -> None:
        self.files, self.path, self.inode = files, path, inode

    @property
    def bytes(self) -> bytearray:
        return self.files.contents[self.inode]

    def write_at(self, at: int, data: Any) -> None:
        raw = bytes(data)
        self.files.note(Op("write", self.path, self.inode, at, raw))
        _write(self.bytes, at, raw)

    def read_at(self, at: int, buffer: np.ndarray) -> None:
        part = self.bytes[at : at + len(buffer)]
        if len(part) < len(buffer):
            raise StoreChanged(f"{self.path}: ends before offset {at + len(buffer)}")
        buffer[:] = np.frombuffer(bytes(part), np.uint8)

    def sync(self) -> None:
        self.files.note(Op("sync", self.path, self.inode))

    def set_length(self, length: int) -> None:
        self.files.note(Op("length", self.path, self.inode, length))
        _set_length(self.bytes, length)

    def length(self) -> int:
        return len(self.bytes)

    def lock_pages(self, length: int) -> Callable[[], None]:
        return lambda: None

    def close(self) -> None:
        pass


@dataclass
class MemoryFiles:
    """A folder tree in memory. `fail` says which operations raise OSError(error).

    torn: a write that fails has taken the first half of its data."""

    fail: Callable[[Op], bool] = lambda op: False
    error: int = errno.EIO
    torn: bool = False
    names_of: dict[str, int] = field(default_factory=dict)
    folders: set[str] = field(default_factory=lambda: {""})
    contents: dict[int, bytearray] = field(default_factory=dict)
    folder_ids: dict[str, int] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    locked: bool = False
    used: float = 0.0

    def __post_init__(self) -> None:
        for number, folder in enumerate(sorted(self.folders - self.folder_ids.keys()), 1):
            self.folder_ids[folder] = -number

    def note(self, op: Op) -> None:
        if op.kind == "sync folder":
            op = op._replace(parents=(self.folder_ids[op.path],))
        elif op.kind in ("folder", "create", "remove", "rename", "exchange"):
            places = [op.path, op.data.decode()] if op.data else [op.path]
            op = op._replace(parents=tuple(self.folder_ids[_folder(path)] for path in places))
        if self.fail(op):
            if op.kind == "sync":
                self.ops.append(op._replace(kind="failed sync"))
            if op.kind == "write" and self.torn:
                half = op._replace(data=op.data[: len(op.data) // 2])
                self.ops.append(half)
                _write(self.contents[op.inode], op.at, half.data)
            raise OSError(self.error, f"{op.kind} {op.path}: {os.strerror(self.error)}")
        self.ops.append(op)

    def open(self, path: str) -> MemoryFile:
        if path not in self.names_of:
            raise FileNotFoundError(errno.ENOENT, path)
        return MemoryFile(self, path, self.names_of[path])

    def open_read(self, path: str) -> MemoryFile:
        return self.open(path)

    def create(self, path: str, length: int = 0, own: bool = False) -> MemoryFile:
        """As on a file system where each file has a name: a kill may leave it empty."""
        if path in self.names_of:
            raise FileExistsError(errno.EEXIST, path)
        if _folder(path) not in self.folders:
            raise FileNotFoundError(errno.ENOENT, path)
        inode = max(self.contents, default=0) + 1
        self.note(Op("create", path, inode))
        self.contents[inode] = bytearray()
        self.names_of[path] = inode
        file = MemoryFile(self, path, inode)
        if length:
            file.set_length(length)
        return file

    def exists(self, path: str) -> bool:
        return path in self.names_of or path in self.folders

    def is_folder(self, path: str) -> bool:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, path)
        return path in self.folders

    def is_ours(self, path: str) -> bool:
        return self.exists(path)

    def inode(self, path: str) -> int:
        return self.folder_ids[path] if path in self.folders else self.names_of[path]

    def names(self, folder: str) -> list[str]:
        inside = [p for p in (*self.names_of, *self.folders) if p and _folder(p) == folder]
        return sorted(p.rpartition("/")[2] for p in inside)

    def make_folder(self, path: str) -> None:
        parts = path.split("/") if path else []
        for depth in range(1, len(parts) + 1):
            here = "/".join(parts[:depth])
            if here not in self.folders:
                self.add_folder(here)
                self.sync_folder(_folder(here))

    def add_folder(self, path: str, like: str | None = None, own: bool = False) -> None:
        if self.exists(path):
            raise FileExistsError(errno.EEXIST, path)
        if _folder(path) not in self.folders:
            raise FileNotFoundError(errno.ENOENT, path)
        op = Op("folder", path, max(self.folder_ids.values(), default=0) + 1)
        self.note(op)
        _apply_name(self.names_of, self.folders, op)
        _apply_name({}, self.folder_ids, op)

    def rename(self, path: str, to: str) -> None:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, path)
        if self.names(to):
            raise OSError(errno.ENOTEMPTY, to)
        op = Op("rename", path, data=to.encode())
        self.note(op)
        _apply_name(self.names_of, self.folders, op)
        _apply_name({}, self.folder_ids, op)

    def exchange(self, path: str, to: str) -> None:
        for name in (path, to):
            if not self.exists(name):
                raise FileNotFoundError(errno.ENOENT, name)
        op = Op("exchange", path, data=to.encode())
        self.note(op)
        _apply_name(self.names_of, self.folders, op)
        _apply_name({}, self.folder_ids, op)

    def link(self, path: str, to: str) -> None:
        if self.exists(to):
            raise FileExistsError(errno.EEXIST, to)
        self.note(Op("create", to, self.names_of[path]))
        self.names_of[to] = self.names_of[path]

    def remove(self, path: str) -> None:
        if path in self.folders and self.names(path):
            raise OSError(errno.ENOTEMPTY, path)
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, path)
        self.note(Op("remove", path))
        self.folders.discard(path)
        self.names_of.pop(path, None)

    def sync_folder(self, path: str) -> None:
        self.note(Op("sync folder", path))

    def used_share(self) -> float:
        return self.used

    def sync_all(self, path: str) -> None:
        self.note(Op("sync all", path))

    def lock(self, path: str) -> Callable[[], None]:
        if self.locked:
            raise StoreInUse(path)
        self.locked = True
        if path not in self.names_of:
            self.create(path)

        def release() -> None:
            self.locked = False

        return release

    def tree(self) -> dict[str, bytes]:
        """Every file's bytes by name."""
        return {path: bytes(self.contents[inode]) for path, inode in self.names_of.items()}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _write(content: bytearray, at: int, data: bytes) -> None:
    if at > len(content):
        content.extend(bytes(at - len(content)))
    content[at : at + len(data)] = data


def _set_length(content: bytearray, length: int) -> None:
    if length < len(content):
        del content[length:]
    else:
        content.extend(bytes(length - len(content)))


class _Disk:
    """What is durable after some operations, and what is only pending."""

    def __init__(self, start: MemoryFiles) -> None:
        self.names = dict(start.names_of)
        self.folders = set(start.folders)
        self.folder_ids = dict(start.folder_ids)
        self.contents = {inode: bytearray(c) for inode, c in start.contents.items()}
        self.pending: dict[int, list[Op]] = {}
        self.doomed: dict[int, list[Op]] = {}  # not durable, and no sync will make them so
        self.pending_names: list[Op] = []
        # Of these, what was synced in a folder whose own name is pending: it comes with the folder.
        self.bound: set[int] = set()

    def apply(self, op: Op) -> None:
        if op.kind in ("write", "length"):
            self.pending.setdefault(op.inode, []).append(op)
        elif op.kind == "sync":
            content = self.contents.setdefault(op.inode, bytearray())
            for done in self.pending.pop(op.inode, []):
                _apply(content, done)
        elif op.kind == "failed sync":
            self.doomed.setdefault(op.inode, []).extend(self.pending.pop(op.inode, []))
        elif op.kind == "sync folder":
            self.bound |= {id(n) for n in self.pending_names if op.parents[0] in n.parents}
            self._arrive()
        elif op.kind == "sync all":
            for done in self.pending_names:
                self._name(done)
            self.pending_names = []
            for inode, writes in self.pending.items():
                for done in writes:
                    _apply(self.contents.setdefault(inode, bytearray()), done)
            self.pending = {}
        else:
            self.contents.setdefault(op.inode, bytearray())
            self.pending_names.append(op)

    def _arrive(self) -> None:
        """Let names that were synced be durable, in all folders that are."""
        last = -1
        while last != (last := len(self.pending_names)):
            for op in list(self.pending_names):
                if id(op) in self.bound and {*op.parents} <= {*self.folder_ids.values()}:
                    self._name(op)
                    self.pending_names = [n for n in self.pending_names if n is not op]

    def _name(self, op: Op) -> None:
        op = _where_it_is(op, self.folder_ids)
        _apply_name(self.names, self.folders, op)
        _apply_name({}, self.folder_ids, op)

    def image(
        self, keep: Callable[[Op], Iterator[Op]], keep_name: Callable[[Op], bool]
    ) -> MemoryFiles:
        """The tree with what `keep` leaves of each pending operation."""
        names, folders, ids = dict(self.names), set(self.folders), dict(self.folder_ids)
        for op in self.pending_names:
            if keep_name(op) or id(op) in self.bound:
                op = _where_it_is(op, ids)
                _apply_name(names, folders, op)
                _apply_name({}, ids, op)
        files = MemoryFiles(names_of=names, folders=folders, folder_ids=ids)
        for inode in set(names.values()):
            content = bytearray(self.contents.get(inode, b""))
            for op in (*self.doomed.get(inode, ()), *self.pending.get(inode, ())):
                for part in keep(op):
                    _apply(content, part)
            files.contents[inode] = content
        return files


def _apply(content: bytearray, op: Op) -> None:
    if op.kind == "write":
        _write(content, op.at, op.data)
    else:
        _set_length(content, op.at)


def _apply_name(names: dict[str, int], folders: Any, op: Op) -> None:
    """Apply an operation on names; folders: a set, or a dict by name. Without the folder that a
    name is in, or the name itself, nothing happens: what was lost before takes this along."""
    to = op.data.decode()
    if op.kind == "folder":
        if _folder(op.path) in folders:
            folders |= {op.path} if isinstance(folders, set) else {op.path: op.inode}
    elif op.kind == "create":
        if _folder(op.path) in folders:
            names[op.path] = op.inode
    elif op.kind == "remove":
        for table in (names, folders):  # a folder takes along what a lost removal left in it
            for name in [n for n in table if n == op.path or n.startswith(op.path + "/")]:
                table.remove(name) if isinstance(table, set) else table.pop(name)
    elif op.kind == "rename" and _there(names, folders, op.path) and _folder(to) in folders:
        for table in (names, folders):
            _move(table, op.path, to)
    elif op.kind == "exchange" and all(_there(names, folders, p) for p in (op.path, to)):
        for table in (names, folders):
            _move(table, op.path, _ASIDE)
            _move(table, to, op.path)
            _move(table, _ASIDE, to)


def _where_it_is(op: Op, ids: dict[str, int]) -> Op:
    """The operation with the paths that its folders have now; one that is gone leads nowhere."""
    paths = {number: path for path, number in ids.items()}

    def now(path: str, parent: int) -> str:
        name = path.rpartition("/")[2]
        folder = paths.get(parent, _NOWHERE)
        return f"{folder}/{name}" if folder else name

    path = now(op.path, op.parents[0])
    to = now(op.data.decode(), op.parents[1]).encode() if op.data else b""
    return op._replace(path=path, data=to)


_NOWHERE = "\0nowhere"  # no path
_ASIDE = "\0aside"  # no path


def _there(names: dict[str, int], folders: Any, path: str) -> bool:
    return path in names or path in folders


def _move(table: Any, path: str, to: str) -> None:
    """Rename a name with all below it."""
    for name in [n for n in table if n == path or n.startswith(path + "/")]:
        new = to + name.removeprefix(path)
        if isinstance(table, set):
            table.remove(name)
            table.add(new)
        else:
            table[new] = table.pop(name)


def _sectors(op: Op) -> Iterator[Op]:
    """A write cut at sector boundaries; a length as it is."""
    if op.kind != "write":
        yield op
        return
    at = op.at
    while at < op.at + len(op.data):
        end = min(at - at % SECTOR_BYTES + SECTOR_BYTES, op.at + len(op.data))
        yield op._replace(at=at, data=op.data[at - op.at : end - op.at])
        at = end


class Crash(NamedTuple):
    """One state that a crash may leave: after so many operations, and how."""

    after: int
    how: str
    files: MemoryFiles


def crash_states(
    start: MemoryFiles, ops: list[Op], seed: int, mixtures: int, every: int = 1
) -> Iterator[Crash]:
    """The states after each operation (or `every` so many): killed, power lost, and mixtures.

    killed: all is there. lost: nothing that was not synced. last lost, last torn: all but the
    last write, or half of it. mixtures: each sector, length and name there or not, by chance."""
    disk = _Disk(start)
    rng = random.Random(seed)
    for number in range(len(ops) + 1):
        if number:
            disk.apply(ops[number - 1])
        if number % every:
            continue
        yield Crash(number, "killed", disk.image(_whole, lambda op: True))
        yield Crash(number, "lost", disk.image(_nothing, lambda op: False))
        yield Crash(number, "names only", disk.image(_nothing, lambda op: True))
        last = ops[number - 1] if number else None
        if last is not None and last.kind == "write":
            yield Crash(number, "last lost", disk.image(_all_but(last), lambda op: True))
            for cut in sorted({1, 8, len(last.data) // 2, len(last.data) - 1}):
                torn = disk.image(_torn(last, cut), lambda op: True)
                yield Crash(number, f"last torn at {cut}", torn)
        for mixture in range(mixtures):
            share = rng.random()
            image = disk.image(_by_chance(rng, share), lambda op, s=share: rng.random() < s)
            yield Crash(number, f"mixture {mixture}", image)


def _whole(op: Op) -> Iterator[Op]:
    yield op


def _nothing(op: Op) -> Iterator[Op]:
    return iter(())


def _all_but(last: Op) -> Callable[[Op], Iterator[Op]]:
    return lambda op: iter(() if op is last else (op,))


def _torn(last: Op, cut: int) -> Callable[[Op], Iterator[Op]]:
    """All, but of the last write only its first bytes. Within one sector it is all or nothing for
    what relies on that (the checkpoint, the lock's word); elsewhere a cut anywhere is harder."""

    def keep(op: Op) -> Iterator[Op]:
        if op is last and op.path.rpartition("/")[2] not in ("checkpoint", "lock"):
            yield op._replace(data=op.data[:cut])
        else:
            yield op

    return keep


def _by_chance(rng: random.Random, share: float) -> Callable[[Op], Iterator[Op]]:
    """Some of it. The system writes a sector with all that was written to it by then, so no write
    is there without those before it in the same sector."""
    gone: set[tuple[int, int]] = set()

    def keep(op: Op) -> Iterator[Op]:
        for part in _sectors(op):
            sector = (part.inode, part.at // SECTOR_BYTES)
            there = rng.random() < share
            if part.kind == "write":
                there = there and sector not in gone
                gone.update(() if there else (sector,))
            if there:
                yield part

    return keep
