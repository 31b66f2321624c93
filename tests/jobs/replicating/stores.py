"""Small stores to replicate, disks that kill, and what a replica must be at every moment."""

import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from reput.jobs.opening import held
from reput.jobs.replicate import replicate
from reput.jobs.replicating.target import Replicated
from reput.store_format.files.disk import DiskFile, DiskFiles
from tests.logs.encoder import Message, build_log, properties

SEGMENT_BYTES = 2048
SETTINGS = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES), "mappedFileSizeConsumeQueue": "100",
            "maxHashSlotNum": "7", "maxIndexNum": "12"}  # fmt: skip
_MAGIC = (0xDAA320A7, 0xDAA320AB)
_BLANK = 0xCBD43194


def messages(count: int) -> list[Message]:
    return [Message(topic=f"T{number % 2}", queue_offset=number // 2,
                    body=bytes([number % 251 + 1]) * (number * 37 % 300),
                    store_timestamp=1_700_000_000_000 + 900 * number,
                    properties=properties(("KEYS", f"k{number} a"), ("UNIQ_KEY", f"U{number}"))
                    if number % 5 else b"") for number in range(count)]  # fmt: skip


def make_store(root: Path, count: int = 40) -> Path:
    """A store with a log, in segments of 2 KiB, and files of config/."""
    put_log(root, build_log(messages(count), SEGMENT_BYTES))
    (root / "config").mkdir(exist_ok=True)
    (root / "config/topics.json").write_text('{"topicConfigTable":{}}')
    (root / "config/consumerOffset.json").write_text('{"offsetTable":{"T0@g":{0:1}}}')
    (root / "config/timercheck").write_text("{}")
    return root


def put_log(root: Path, segments: dict[int, bytes]) -> None:
    (root / "commitlog").mkdir(parents=True, exist_ok=True)
    for path in (root / "commitlog").iterdir():
        if int(path.name) not in segments:
            path.unlink()
    for start, data in segments.items():
        (root / f"commitlog/{start:020d}").write_bytes(data.ljust(SEGMENT_BYTES, b"\0"))


def log_of(root: Path) -> dict[int, bytes]:
    folder = root / "commitlog"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return {int(path.name): path.read_bytes() for path in paths}


def record_starts(segments: dict[int, bytes]) -> tuple[list[int], int]:
    """Where records start, and where the last one, or its segment's BLANK, ends."""
    starts, end = [], min(segments, default=0)
    for start, data in sorted(segments.items()):
        if end != start:
            break
        at = 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">II", data, at)
            if magic == _BLANK:
                at = len(data)
            elif magic in _MAGIC and at + size <= len(data):
                starts.append(start + at)
                at += size
            else:
                break
        end = start + at
    return starts, end


def check_prefix(source: Path, target: Path) -> int:
    """The target's log is a beginning of the source's, by whole records; where it ends."""
    theirs, ours = log_of(source), log_of(target)
    whole = {s: d for s, d in ours.items() if len(d) == SEGMENT_BYTES}
    _, end = record_starts(whole)
    first = min(whole, default=0)
    for start, data in whole.items():
        within = max(min(end - start, SEGMENT_BYTES), 0)
        assert data[:within] == theirs[start][:within], f"segment {start} differs"
    at = end - end % SEGMENT_BYTES
    if end > first and at in whole:
        magic = whole[at][end - at + 4 : end - at + 8]
        assert not any(magic), "more than a size where the next record begins"
    return end


def run(source: Path, target: Path, **options: Any) -> Replicated:
    options.setdefault("rocketmq", "5.3.3")
    return replicate(str(source), str(target), settings=SETTINGS, **options)


class Killed(BaseException):
    """The process ends here: nothing after it reaches the disk."""


class Kills:
    """Counts what is done to a disk, and ends the process at operation number `at`.

    A write that is the last one has taken half of its data.
    """

    def __init__(self, at: int = -1) -> None:
        self.at, self.count = at, 0

    def step(self, data: Any = None, write: Any = None) -> None:
        self.count += 1
        if 0 <= self.at < self.count:
            if self.count == self.at + 1 and write is not None:
                write(memoryview(data).cast("B")[: len(data) // 2])
            raise Killed


@contextmanager
def killing(kills: Kills) -> Iterator[Kills]:
    """Let `kills` see each change that is made below a target; a process that ends has no files."""
    opened: set[DiskFile] = set()

    class File(DiskFile):
        def close(self) -> None:
            opened.discard(self)
            super().close()

        def write_at(self, at: int, data: Any) -> None:
            kills.step(data, lambda part: super(File, self).write_at(at, part))
            super().write_at(at, data)

        def set_length(self, length: int) -> None:
            kills.step()
            super().set_length(length)

        def sync(self) -> None:
            kills.step()

    class Killing(DiskFiles):
        def _open(self, *words: Any, **more: Any) -> DiskFile:
            file = super()._open(*words, **more)
            file.__class__ = File
            opened.add(file)
            return file

        def create(self, path: str, length: int = 0, own: bool = False) -> DiskFile:
            kills.step()
            return super().create(path, length, own)

        def rename(self, path: str, to: str) -> None:
            kills.step()
            super().rename(path, to)

        def exchange(self, path: str, to: str) -> None:
            kills.step()
            super().exchange(path, to)

        def remove(self, path: str) -> None:
            kills.step()
            super().remove(path)

        def make_folder(self, path: str) -> None:
            kills.step()
            super().make_folder(path)

        def sync_folder(self, path: str) -> None:
            kills.step()

    with mock.patch.object(held, "DiskFiles", Killing):
        yield kills
    for file in list(opened):
        file.close()


def derived(root: Path) -> dict[str, Any]:
    """Queue files by name; index files, which a clock names, by their order."""
    found: dict[str, Any] = {str(path.relative_to(root)): path.read_bytes()
                             for path in sorted(root.glob("consumequeue/*/*/*"))}  # fmt: skip
    found["index"] = [path.read_bytes() for path in sorted(root.glob("index/*"))]
    return found


def clear(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def put_end(source: Path, end: int) -> None:
    """Cut a log off."""
    for start, data in log_of(source).items():
        path = source / f"commitlog/{start:020d}"
        if start >= end:
            path.unlink()
        else:
            path.write_bytes(data[: end - start].ljust(SEGMENT_BYTES, b"\0"))
