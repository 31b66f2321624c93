"""Stores that the real RocketMQ wrote, unpacked for tests that must only read them.

`tests/golden/` holds the archives that are committed; a folder named by `REPUT_GOLDEN`, or one
beside the checkout, may add others. They unpack once into a cache folder, `REPUT_CACHE` or
`~/.cache/reput`."""

import hashlib
import json
import mmap
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ARCHIVES = Path(__file__).parent / "golden"
# Beside the checkout, where all who work on it find them.
SHARED = Path(__file__).parents[2] / "shared" / "golden"
SUFFIX = ".tar.xz"
DERIVED = ("consumequeue", "batchconsumequeue", "index")


@dataclass(frozen=True)
class GoldenStore:
    """One store: `input/` as found, and `expect/`, what RocketMQ derived from that log."""

    root: Path
    version: str
    settings: dict[str, int | str]
    topic_attributes: dict[str, dict[str, str]]

    @property
    def input(self) -> Path:
        return self.root / "input"

    @property
    def expect(self) -> Path:
        return self.root / "expect"

    @contextmanager
    def segments(self) -> Iterator[dict[int, bytes | mmap.mmap]]:
        """The CommitLog's segments by first offset, mapped: one of a GiB is not read."""
        paths = sorted((self.input / "commitlog").iterdir())
        maps: dict[int, bytes | mmap.mmap] = {}
        try:
            for path in paths:
                with path.open("rb") as file:
                    empty = path.stat().st_size == 0
                    maps[int(path.name)] = (
                        b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                    )
            yield maps
        finally:
            for mapped in maps.values():
                if isinstance(mapped, mmap.mmap):
                    mapped.close()


def read(root: Path) -> GoldenStore:
    """An unpacked store: its `golden.json`, and the topics' attributes where it has any."""
    golden = json.loads((root / "golden.json").read_text())
    topics = root / "input" / "config" / "topics.json"
    table = json.loads(topics.read_text())["topicConfigTable"] if topics.exists() else {}
    return GoldenStore(
        root=root, version=golden["rocketmq"], settings=golden["sizes"],
        topic_attributes={
            topic: config["attributes"] for topic, config in table.items()
            if config.get("attributes")
        },
    )  # fmt: skip


def _archives() -> dict[str, Path]:
    folders = [ARCHIVES]
    folders.append(Path(os.environ.get("REPUT_GOLDEN") or SHARED))
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("*" + SUFFIX)):
            found.setdefault(path.name.removesuffix(SUFFIX), path)
    return found


def names() -> list[str]:
    """All stores there are: those committed, and those of the other folder."""
    return sorted(_archives())


def cache_folder() -> Path:
    return Path(os.environ.get("REPUT_CACHE") or Path.home() / ".cache" / "reput") / "golden"


def _check(archive: Path) -> str:
    """The archive's SHA-256, compared with the one committed, if it is."""
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    for line in (ARCHIVES / "SHA256SUMS").read_text().splitlines():
        expected, name = line.split()
        if name == archive.name and expected != digest:
            raise ValueError(f"{archive.name} has SHA-256 {digest}, should have {expected}")
    return digest


def unpack(name: str, folder: Path | None = None) -> GoldenStore:
    """The store, unpacked under `folder` (the cache, unless asked) if it is not there already."""
    archives = _archives()
    if name not in archives:
        raise KeyError(f"no golden store {name!r}; there are {', '.join(archives)}")
    digest = _check(archives[name])
    # The digest in the name keeps a cache from serving a store that has changed since.
    target = (folder or cache_folder()) / f"{name}-{digest[:12]}"
    if not target.is_dir():
        _unpack_to(archives[name], name, target)
    return read(target)


def _unpack_to(archive: Path, name: str, target: Path) -> None:
    """Unpacks beside the target and renames: of two test runs at once, the first one wins."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".unpack-") as temporary:
        # GNU tar keeps the holes: an index file of 420 MB takes a few blocks.
        options = ["--no-same-owner", "--no-same-permissions"]
        subprocess.run(["tar", "-xf", str(archive), *options, "-C", temporary], check=True)
        try:
            (Path(temporary) / name).rename(target)
        except OSError:
            if not target.is_dir():
                raise


def copy_input(store: GoldenStore, target: Path) -> Path:
    """A writable copy of `input/`, sparse where it was: for tests that write to a store."""
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-r", "--sparse=always", str(store.input), str(target)], check=True)
    return target


def whole(name: str, folder: Path, parts: Sequence[str] = DERIVED) -> tuple[Path, GoldenStore]:
    """A writable store of the golden log, and of what RocketMQ derived from it these parts."""
    golden = unpack(name)
    store = copy_input(golden, folder / "store")
    for part in {*DERIVED, *parts}:
        subprocess.run(["rm", "-rf", str(store / part)], check=True)
        if part in parts and (golden.expect / part).exists():
            copy = ["cp", "-r", "--sparse=always", str(golden.expect / part), str(store / part)]
            subprocess.run(copy, check=True)
    return store, golden


def as_left(name: str, folder: Path) -> Path:
    """A golden store as its broker left it: the log, and what was derived from it."""
    kept = (unpack(name).input / "checkpoint").exists()
    return whole(name, folder, DERIVED if kept else (*DERIVED, "checkpoint"))[0]
