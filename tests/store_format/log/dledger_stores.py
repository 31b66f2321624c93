"""Stores that real DLedger groups left (`python -m tests.rocketmq.dledger` writes them anew).

clean: a member's of a group that was stopped as an operator does. failed_over: a leader's after
its group has lost two leaders. killed: a leader's that had entries that no other member had.
rejoined: the same one's after it came back as a follower and was stopped. mixed: a plain broker's
that went on as a group of one. Those that are not AS_DERIVED have in `expect/` what a broker
derives from the log alone: a member that was killed and came back lacks messages in its own queues.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

ARCHIVES = Path(__file__).parent / "dledger"
SUFFIX = ".tar.xz"
NAMES = ("clean", "failed_over", "killed", "mixed", "rejoined")
AS_DERIVED = ("clean", "killed", "mixed")  # those whose own queues and index are whole
INDEX_KEPT = 1 << 13  # bytes of a member's index files: its first 256 entries


def unpack(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The store, and what is known of it: rocketmq, sizes (settings) and what was `sent`."""
    with tarfile.open(ARCHIVES / f"{name}_5.3.3{SUFFIX}") as packed:
        packed.extractall(folder, filter="data")
    about: dict[str, Any] = json.loads((folder / "about.json").read_text())
    (folder / "about.json").unlink()
    return folder, about
