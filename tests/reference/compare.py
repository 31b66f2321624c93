"""Compares a Derivation with a folder of RocketMQ's own files."""

from collections.abc import Iterator
from pathlib import Path

from tests.reference.derive import Derivation

CHUNK = 1 << 22


def compare(derivation: Derivation, folder: Path) -> str | None:
    """The first difference, in words; None where every byte agrees.

    Index files are compared in the order of their names; the names are clock times.
    """
    there = dict(derived_files(folder))
    if missing := sorted(derivation.files.keys() - there.keys()):
        return f"{missing[0]} is missing, and {len(missing) - 1} more"
    if extra := sorted(there.keys() - derivation.files.keys()):
        return f"{extra[0]} should not be there, and {len(extra) - 1} more"
    for name in sorted(derivation.files):
        content, length = derivation.files[name]
        if there[name].stat().st_size != length:
            return f"{name}: {there[name].stat().st_size} bytes, should be {length}"
        if difference := _compare_file(content, there[name]):
            return f"{name}: {difference}"
    return None


def derived_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Index files go by their order: RocketMQ's names for them are times of the wall clock."""
    for root in ("consumequeue", "batchconsumequeue"):
        for path in sorted((folder / root).rglob("*")):
            if path.is_file():
                yield path.relative_to(folder).as_posix(), path
    if (folder / "index").is_dir():
        for number, path in enumerate(sorted((folder / "index").iterdir())):
            yield f"index/{number}", path


def _compare_file(content: bytes, path: Path) -> str | None:
    """Chunk by chunk: an index file of 420 MB is nearly all zeros."""
    zeros = bytes(CHUNK)
    with path.open("rb") as file:
        at = 0
        while chunk := file.read(CHUNK):
            expected = content[at : at + len(chunk)]
            expected += zeros[: len(chunk) - len(expected)]
            if chunk != expected:
                place = next(i for i in range(len(chunk)) if chunk[i] != expected[i])
                around = slice(place // 20 * 20, place // 20 * 20 + 20)
                return (f"differs at byte {at + place}: there {chunk[around].hex()}, "
                    f"should be {expected[around].hex()}")  # fmt: skip
            at += len(chunk)
    return None
