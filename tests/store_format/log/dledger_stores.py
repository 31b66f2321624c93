"""Stores that real DLedger groups left (`python -m tests.rocketmq.dledger` writes them anew).

clean: a member's of a group that was stopped as an operator does. failed_over: a leader's after
its group has lost two leaders. killed: a leader's that had entries that no other member had.
rejoined: the same one's after it came back as a follower and was stopped. mixed: a plain broker's
that went on as a group of one. Those that are not AS_DERIVED have in `expect/` what a broker
derives from the log alone: a member that was killed and came back lacks messages in its own queues.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import DLEDGER_HEAD, DLEDGER_HEAD_BYTES
from reput.store_format.log.groups import log_folders
from reput.store_format.log.segments import Segment, find_segments
from reput.store_format.release.settings import settings_from
from tests.in_process import as_text
from tests.unpacking import unpack as unpack_archive

LOCAL = LocalStorage()
ARCHIVES = Path(__file__).parent / "dledger"
SUFFIX = ".tar.xz"
NAMES = ("clean", "failed_over", "killed", "mixed", "rejoined")
AS_DERIVED = ("clean", "killed", "mixed")  # those whose own queues and index are whole
INDEX_KEPT = 1 << 13  # bytes of a member's index files: its first 256 entries


def unpack(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The store, and what is known of it: rocketmq, sizes (settings) and what was `sent`."""
    unpack_archive(ARCHIVES / f"{name}_5.3.3{SUFFIX}", folder)
    about: dict[str, Any] = json.loads((folder / "about.json").read_text())
    (folder / "about.json").unlink()
    return folder, about


def segments_of(store: Path, about: dict[str, Any]) -> list[Segment]:
    settings = settings_from(as_text(about["sizes"]))
    folders = log_folders(Folder(LOCAL, str(store)), settings)
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
