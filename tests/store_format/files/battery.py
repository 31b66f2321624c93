"""What every Storage must do, checked against the real thing; and rebuilds to and from one."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from reput.jobs.judging.report import Report
from reput.jobs.pipeline import job
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.verify import verify
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.protocol import FileState, Storage
from reput.store_format.names import MANIFEST, UNFINISHED
from tests import golden_stores
from tests.golden_stores import GoldenStore
from tests.in_process import Session, as_text, run
from tests.rocketmq.judge import difference

NAME = "tiny_5.3.3"
CUT = Cut(100_000, 3, 3)


def write(storage: Storage, path: str, content: bytes) -> None:
    storage.make_folders(path.rpartition("/")[0])
    output = storage.create(path)
    output.write(content)
    output.finish(len(content))


def read(storage: Storage, path: str, offset: int, length: int) -> bytes:
    buffer = np.empty(length, np.uint8)
    with closing(storage.open(path)) as reader:
        reader.read_into(offset, buffer)
    return buffer.tobytes()


def walk(storage: Storage, folder: str, below: str = "") -> Iterator[str]:
    """Paths of all files below a folder."""
    for name, state in storage.list(folder):
        if state is None:
            yield from walk(storage, f"{folder}/{name}", f"{below}{name}/")
        else:
            yield f"{below}{name}"


def check_files(storage: Storage, root: str) -> None:
    """Names, ranges, large files, moves and removals, below `root`, which is absent or empty."""
    write(storage, f"{root}/a/ü %+?#.txt", b"0123456789")
    write(storage, f"{root}/a/b/empty", b"")
    assert [(name, state and state.size) for name, state in storage.list(f"{root}/a")] == [
        ("b", None), ("ü %+?#.txt", 10)]  # fmt: skip
    assert storage.has_folder(f"{root}/a")
    assert storage.read_bytes(f"{root}/a/ü %+?#.txt") == b"0123456789"
    assert storage.read_bytes(f"{root}/a/b/empty") == b""
    assert read(storage, f"{root}/a/ü %+?#.txt", 3, 4) == b"3456"
    for offset in (8, 10, 1000):
        with pytest.raises(StoreChanged):
            read(storage, f"{root}/a/ü %+?#.txt", offset, 3)
    with pytest.raises(FileNotFoundError):
        storage.list(f"{root}/none")
    with pytest.raises(NotADirectoryError):
        storage.list(f"{root}/a/b/empty")
    with pytest.raises(FileNotFoundError):
        _ = storage.open(f"{root}/a/none").state
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(f"{root}/a/none")
    _check_large(storage, f"{root}/a/large")
    storage.make_folders(f"{root}/c")
    storage.move_all([(f"{root}/a/ü %+?#.txt", f"{root}/c/x"), (f"{root}/a/large", f"{root}/c/y")])
    assert storage.read_bytes(f"{root}/c/x") == b"0123456789"
    storage.remove(f"{root}/c/x")
    storage.remove(f"{root}/c/x")
    assert [name for name, _ in storage.list(f"{root}/c")] == ["y"]
    storage.remove_tree(f"{root}/a")
    storage.remove_tree(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        storage.list(f"{root}/a")
    assert list(walk(storage, f"{root}/c")) == ["y"]
    check_put_new(storage, f"{root}/new")


def _is(storage: Storage, folder: str) -> bool:
    try:
        storage.list(folder)
    except FileNotFoundError:
        return False
    return True


def _check_large(storage: Storage, path: str) -> None:
    """More than any buffer holds, in odd portions, filled up with zeros, under a digest."""
    content = np.random.default_rng(1).integers(0, 256, 17_000_003, np.uint8)
    output = storage.create(path, digest=True)
    for part in np.array_split(content, 7):
        output.write(part)
    written = output.finish(len(content) + 3_000_000)
    whole = content.tobytes() + bytes(3_000_000)
    assert written == (len(whole), hashlib.sha256(content).hexdigest(), len(content))
    with closing(storage.open(path)) as reader:
        assert reader.state.size == len(whole)
    assert hashlib.sha256(storage.read_bytes(path)).digest() == hashlib.sha256(whole).digest()
    assert read(storage, path, 8_388_600, 17) == whole[8_388_600:8_388_617]


def check_put_new(storage: Storage, root: str) -> None:
    """A new file is whole, and of several that put one of a name at once a single one is told so,
    where `puts_once` says that; below `root`, which is absent or empty.
    """
    storage.make_folders(f"{root}/once")
    content = bytes(range(256)) * 40_000  # more than a part of S3's uploads
    path = f"{root}/once/a b+c"
    assert storage.put_new(path, content)
    assert not storage.put_new(path, content[1:])
    assert read(storage, path, 0, len(content)) == content
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda n: storage.put_new(f"{root}/once/x", b"%d" % n), range(4)))
    assert told.count(True) == 1 or not storage.puts_once
    if storage.puts_once:
        assert storage.read_bytes(f"{root}/once/x") == b"%d" % told.index(True)
    assert sorted(walk(storage, f"{root}/once")) == ["a b+c", "x"]


def check_changes(storage: Storage, root: str, tick: float = 0) -> None:
    """A file that is another than the listed one is an error, also with the same size.

    tick: seconds that the storage's times of change count in, where it tells no versions.
    """
    for change in (b"new one!!!", b"long" * 10, b"x"):
        path = f"{root}/file"
        storage.remove(path)
        write(storage, path, b"0123456789")
        (listed,) = storage.list(root)
        _read_as(storage, path, listed.state)
        storage.remove(path)
        time.sleep(tick)
        write(storage, path, change)
        with pytest.raises(StoreChanged):
            _read_as(storage, path, listed.state)
        assert storage.list(root)[0].state != listed.state


def _read_as(storage: Storage, path: str, state: FileState | None) -> None:
    with closing(storage.open(path, state)) as reader:
        reader.read_into(0, np.empty(1, np.uint8))


def golden() -> GoldenStore:
    return golden_stores.unpack(NAME)


def upload(folder: Path, storage: Storage, to: str) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            write(storage, f"{to}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def download(storage: Storage, folder: str, to: Path) -> Path:
    for name in walk(storage, folder):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        (to / name).write_bytes(storage.read_bytes(f"{folder}/{name}"))
    return to


def rebuild(store: str, output: str, **more: Any) -> Any:
    """In this process; storages by the URLs."""
    about = golden()
    settings = as_text(about.settings)
    return run(store, output, rocketmq=about.version, settings=settings, cut=CUT, **more)


def look(store: str, against: str, **more: Any) -> Report:
    about = golden()
    return verify(Session(), store, against=against, rocketmq=about.version,
        settings=as_text(about.settings), cut=CUT, **more)  # fmt: skip


def check_output(output: str, tmp_path: Path) -> None:
    """RocketMQ's bytes and a manifest are at `output`, and nothing of the job beside them."""
    storage = storage_for(output)
    parent, _, name = storage.resolve(output).rpartition("/")
    beside = [other for other, _ in storage.list(parent) if other.startswith(f".{name}.")]
    assert beside == []
    there = download(storage, storage.resolve(output), tmp_path / "downloaded")
    assert (there / MANIFEST).is_file()
    assert not (there / UNFINISHED).exists()
    assert difference(there, golden().expect) is None


def check_all(storage: Storage, url: str, tmp_path: Path, tick: float = 0) -> None:
    """Files and changes are seen, and a set is published and replaced, below a URL."""
    check_files(storage, f"{url}/files")
    check_changes(storage, f"{url}/changes", tick)
    upload(golden().input, storage, f"{url}/store")
    rebuild(f"{url}/store", f"{url}/out")
    check_output(f"{url}/out", tmp_path)
    rebuild(f"{url}/store", f"{url}/out", replace=True)
    assert look(f"{url}/store", f"{url}/out").same


# A rebuild that kills itself: in the place that its first word names.
_KILLED = """
import os, signal, sys
from tests.store_format.files import battery
from reput.store_format.files.by_url import storage_for

where, store, output = sys.argv[1:]
kind = type(storage_for(output))

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(kind, where, die)
battery.rebuild(store, output, replace=True)
"""


def kill(where: str, store: str, output: str) -> None:
    """A driver that gets as far as its storage's method `where`, and no further."""
    program = [sys.executable, "-c", _KILLED, where, store, output]
    done = subprocess.run(program, env=os.environ, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def check_kills(store: str, output: str, tmp_path: Path) -> None:
    """Killed before it publishes, and just before its manifest: no set; the next run is."""
    storage = storage_for(output)
    folder = storage.resolve(output)
    parent, _, name = folder.rpartition("/")

    def beside() -> list[str]:
        return [other for other, _ in storage.list(parent) if other.startswith(f".{name}.reput-")]

    kill("begin_set", store, output)
    assert len(beside()) == 1
    assert not _is(storage, folder)
    kill("publish", store, output)
    assert len(beside()) == 1  # of the second; the first is gone
    names = {name for name, _ in storage.list(folder)}
    assert UNFINISHED in names
    assert MANIFEST not in names
    assert len(names) > 2  # files have got their names
    rebuild(store, output)  # without --replace: it is no set
    check_output(output, tmp_path)
    before = set(walk(storage, folder))
    with pytest.raises(Exception, match="is not empty; --replace"):
        rebuild(store, output)
    rebuild(store, output, replace=True)
    assert set(walk(storage, folder)) == before


def check_replaces_only_its_own(store: str, output: str, **more: Any) -> None:
    """A set with anything besides stays as it is, and so does what is no set."""
    storage = storage_for(output)
    folder = storage.resolve(output)
    other = f"{folder}/consumequeue/Old/0/00000000000000000000"
    write(storage, other, b"not ours")
    before = {path: storage.read_bytes(f"{folder}/{path}") for path in walk(storage, folder)}
    with pytest.raises(StoreError, match=r"consumequeue/Old/.*: is not in its manifest"):
        rebuild(store, output, replace=True, **more)
    storage.remove(f"{folder}/{MANIFEST}")
    for marker in (None, b"a note"):
        with pytest.raises(StoreError, match=r"and stays|is not empty, and has no manifest"):
            rebuild(store, output, replace=True, **more)
        if marker is None:
            write(storage, f"{folder}/{UNFINISHED}", marker or b"a note")
    after = {path: storage.read_bytes(f"{folder}/{path}") for path in walk(storage, folder)}
    assert after == {**{p: c for p, c in before.items() if p != MANIFEST}, UNFINISHED: b"a note"}


def check_overlaps(store: str, outputs: list[str], **more: Any) -> None:
    """Each of these spellings is, holds or lies inside the store, which stays as it was."""
    storage = storage_for(store)
    root = storage.resolve(store)
    before = {path: storage.read_bytes(f"{root}/{path}") for path in walk(storage, root)}
    find_store, found = job.find_store, []

    def find_once(*given: Any, **options: Any) -> Any:
        """The store is the same each time, and listing it is what takes long."""
        found.append(found[0] if found else find_store(*given, **options))
        return found[0]

    with mock.patch.object(job, "find_store", find_once):
        for output in outputs:
            for replace in (False, True):
                with pytest.raises(StoreError):
                    rebuild(store, output, replace=replace, **more)
    assert len(found) == 2 * len(outputs)
    assert {path: storage.read_bytes(f"{root}/{path}") for path in walk(storage, root)} == before
