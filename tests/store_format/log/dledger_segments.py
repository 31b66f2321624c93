"""Segments with DLedger's heads, and bytes of them changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reput.store_format.layouts import DLEDGER_HEAD, DLEDGER_HEAD_BYTES
from reput.store_format.log.dledger import log_folders
from reput.store_format.log.segments import Segment, find_segments
from reput.store_format.release.settings import settings_from
from reput.store_format.storage.local import LocalStorage
from tests.in_process import as_text

LOCAL = LocalStorage()


def segments_of(store: Path, about: dict[str, Any]) -> list[Segment]:
    settings = settings_from(as_text(about["sizes"]))
    folders = log_folders(LOCAL, str(store), settings)
    return find_segments(LOCAL, folders, settings.mapped_file_size_commit_log)


def heads(store: Path, about: dict[str, Any]) -> list[tuple[Path, int, Any]]:
    """The DLedger heads of a store: file, offset in it, fields. Read by the layout alone."""
    found = []
    for segment in segments_of(store, about):
        if not segment.has_heads:
            continue
        raw, at = Path(segment.path).read_bytes(), 0
        while at + DLEDGER_HEAD_BYTES <= len(raw):
            head = np.frombuffer(raw, DLEDGER_HEAD, 1, at)[0]
            if head["magic"] != 1 or head["pos"] != segment.start + at:
                break
            found.append((Path(segment.path), at, head))
            at += int(head["size"])
    return found


def change(path: Path, at: int, raw: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(raw)
