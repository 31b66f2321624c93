"""One builder of stores for tests: messages, what is derived of them, and what is wrong with it.

    store = Built().put("T", count=9, keys="k").derive().flip("index", 150).write(tmp_path)

Each step gives the builder back. What is derived is the slow reference's, never our own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from reput.store_format.names import segment_name
from tests.logs import Log, Message, build_log, properties
from tests.logs.damage import record_places
from tests.memory_storage import MemoryStorage
from tests.reference import derive

T0 = 1_700_000_000_000
SIZES: dict[str, Any] = {"mappedFileSizeCommitLog": 2048, "mappedFileSizeConsumeQueue": 200,
                         "maxHashSlotNum": 7, "maxIndexNum": 50}  # fmt: skip


@dataclass
class Built:
    """A store in the making. files: by their paths below its folder, without the log's."""

    settings: dict[str, Any] = field(default_factory=lambda: dict(SIZES))
    version: str = "5.3.3"
    start: int = 0  # the log's physical start, a multiple of a segment
    extra_segments: int = 0  # at the log's end, of zeros
    messages: list[Message] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    over: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)  # what is written over

    def put(
        self, topic: str = "T", queue_id: int = 0, count: int = 1, keys: str = "", **more: Any
    ) -> Self:
        """Messages one after the other, at the queue's next positions, a second apart.

        keys: each has its own of this name and its number. more: fields of `Message`."""
        for _ in range(count):
            number = len(self.messages)
            made = Message(topic, queue_id, self._next(topic, queue_id), b"body %d" % number,
                           properties(("KEYS", f"{keys}{number}")) if keys else b"",
                           T0 + 1000 * number)  # fmt: skip
            self.messages.append(replace(made, **more))
        return self

    def add(self, messages: Sequence[Message]) -> Self:
        """These messages, as they are."""
        self.messages += messages
        return self

    def derive(self) -> Self:
        """Queues and index of all messages so far."""
        for path, (raw, length) in derive(*self.log()).files.items():
            folder, _, name = path.rpartition("/")
            name = f"{20260101000000000 + int(name)}" if folder == "index" else name
            self.files[f"{folder}/{name}" if folder else name] = raw.ljust(length, b"\0")
        return self

    def file(self, path: str, content: bytes | str) -> Self:
        """A file of the store, such as one of config/."""
        self.files[path] = content.encode() if isinstance(content, str) else content
        return self

    def damage(self, path: str, at: int, raw: bytes) -> Self:
        """Write over a file, or the first one below a folder."""
        self.over.setdefault(path, []).append((at, raw))
        return self

    def flip(self, path: str, at: int, bit: int = 0) -> Self:
        """Flip a bit of a file, or of the first one below a folder."""
        there = self.contents()
        return self.damage(path, at, bytes([there[_first(there, path)][at] ^ 1 << bit]))

    def remove(self, path: str) -> Self:
        """Remove a file of the store, or all below a folder, but the log's."""
        self.files = {p: c for p, c in self.files.items() if not f"{p}/".startswith(f"{path}/")}
        return self

    def log(self) -> Log:
        """The log without damage, as `derive` and rebuilds of it take it."""
        size = self.settings["mappedFileSizeCommitLog"]
        segments = build_log(self.messages, size, self.start, extra_segments=self.extra_segments)
        return Log(segments, self.settings, self.version, {})

    def places(self) -> list[int]:
        """Where the messages stand: physical offsets."""
        return record_places(self.log().segments)

    def contents(self) -> dict[str, bytes]:
        """All files by their paths below the store's folder."""
        size = self.settings["mappedFileSizeCommitLog"]
        log = {f"commitlog/{segment_name(start)}": raw.ljust(size, b"\0")
               for start, raw in self.log().segments.items()}  # fmt: skip
        found = {**log, **self.files}
        for path, changes in self.over.items():
            name = _first(found, path)
            for at, raw in changes:
                found[name] = found[name][:at] + raw + found[name][at + len(raw) :]
        return found

    def given(self) -> dict[str, str]:
        """The settings as a user gives them."""
        return {name: str(value) for name, value in self.settings.items()}

    def storage(self, store: str = "s") -> MemoryStorage:
        """The store in memory, in a folder of that name."""
        return MemoryStorage({f"{store}/{path}": raw for path, raw in self.contents().items()})

    def write(self, folder: Path) -> Path:
        """The store on this machine's disk; its folder."""
        return write(folder, self.contents())

    def _next(self, topic: str, queue_id: int) -> int:
        there = [m.queue_offset
                 for m in self.messages if (m.topic, m.queue_id) == (topic, queue_id)]  # fmt: skip
        return max(there, default=-1) + 1


def write(folder: Path, files: Mapping[str, bytes | bytearray]) -> Path:
    """Files by their paths below a folder; the folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def write_log(store: Path, segments: Mapping[int, bytes | bytearray]) -> Path:
    """A log in a store's folder; the store."""
    (store / "commitlog").mkdir(parents=True, exist_ok=True)
    return write(store, {f"commitlog/{segment_name(at)}": raw for at, raw in segments.items()})


def _first(files: dict[str, bytes], path: str) -> str:
    if path in files:
        return path
    return min(name for name in files if name.startswith(f"{path}/"))
