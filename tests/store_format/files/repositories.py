"""Catalogues of repositories, made by hand."""

import json
from pathlib import Path
from typing import Any

from reput.store_format.files.catalogue import MARKER, Catalogue
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.runs import (
    FORMAT,
    Forget,
    LastRecord,
    Piece,
    Run,
    StateEntry,
    as_bytes,
)

SHA = "ab" * 32


def piece(offset: int, end: int) -> Piece:
    return Piece(offset, end - offset, SHA, 10, 2, (1000, 2000))


def run_of(number: int, parent: int | None, begin: int, *ends: int, **more: Any) -> Run:
    borders = [begin, *ends]
    pieces = tuple(piece(a, b) for a, b in zip(borders, ends, strict=False))
    values = {"run": number, "parent": parent, "started": number * 1000,
        "ended": number * 1000 + 500, "reput": "0", "rocketmq": "5.3.3",
        "settings": {"mappedFileSizeCommitLog": "4096"}, "first": 0, "begins": 0, "begin": begin,
        "end": borders[-1], "last": LastRecord(begin, SHA, 1), "pieces": pieces,
        "state": (StateEntry("config/topics.json", SHA, 3, 0o600),)}  # fmt: skip
    return Run(**{**values, **more})


def repository(folder: Path, *objects: Run | Forget) -> Catalogue:
    runs = folder / "b" / "runs"
    runs.mkdir(parents=True)
    (folder / MARKER).write_text(json.dumps({"format": FORMAT}))
    for each in objects:
        (runs / f"{each.run:08d}.json").write_bytes(as_bytes(each.as_json()))
    return Catalogue(LocalStorage(), str(folder), "b")
