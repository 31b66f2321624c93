"""Stores that change between backups, and the log that a repository has of them."""

import shutil
from pathlib import Path
from typing import Any

from reput.jobs.backup import backup
from reput.jobs.repository.backup import BackedUp
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.frames import decode_all
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.runs import Run
from tests.built import Built

SEGMENT = 2048
CONFIG = {"config/topics.json": '{"topicConfigTable":{"T":{"topicName":"T"}}}',
          "config/consumerOffset.json": '{"offsetTable":{"T@G":{"0":3}}}'}  # fmt: skip


def store(folder: Path, built: Built) -> str:
    """The store as it is now, in the place of the one before."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    for path, content in CONFIG.items():
        if path not in built.files:
            built.file(path, content)
    return str(built.write(folder / "store"))


def run(folder: Path, built: Built | None = None, **more: Any) -> BackedUp:
    """Back the store up, as it is or as it was just built."""
    if built is not None:
        store(folder, built)
    return backup(
        str(folder / "store"), str(folder / "repo"), settings=(built or Built()).given(),
        rocketmq="5.3.3", **more,
    )  # fmt: skip


def catalogue(folder: Path, name: str = "store") -> Catalogue:
    return Catalogue(LocalStorage(), str(folder / "repo"), name)


def log_of(folder: Path, number: int, name: str = "store") -> dict[int, bytes]:
    """The log of a run: its bytes, by where each stretch without a gap begins."""
    there = catalogue(folder, name)
    found: dict[int, bytearray] = {}
    begin = end = -1
    for piece, used in there.chain(there.run(number)):
        raw = Path(there.piece_path(piece)).read_bytes()
        plain = decode_all(raw, piece.length).tobytes()[:used]
        if piece.offset != end:
            begin = piece.offset
        found.setdefault(begin, bytearray()).extend(plain)
        end = piece.offset + used
    return {at: bytes(raw) for at, raw in found.items()}


def whole_log(built: Built) -> bytes:
    """The log as a broker has it, up to the end of its last record."""
    segments, last = built.log().segments, built.places()[-1]
    whole = b"".join(segments[at].ljust(SEGMENT, b"\0") for at in sorted(segments))
    return whole[: last + int.from_bytes(whole[last : last + 4])]


def content(folder: Path, made: Run, path: str) -> bytes:
    """A file of a run's state."""
    there = catalogue(folder)
    entry = next(each for each in made.state if each.path == path)
    return decode_all(Path(there.state_path(entry)).read_bytes(), entry.length).tobytes()
