"""Small logs of single queues that RocketMQ 5.3.3 wrote (tests/rocketmq/queue_log_stores.py).

Below `queue_logs`: `compaction/` and `config/` of a store, and `tiered/judge/TOPIC/QUEUE`.
"""

import shutil
import struct
from pathlib import Path

import pytest

from tests.unpacking import unpack as unpack_archive

ARCHIVE = Path(__file__).parent / "stores" / "queue_logs_5.3.3.tar.xz"
TOPIC, PLAIN = "Compacted", "Plain"
_BATCH, _QUEUE, _TIERED_NAME = struct.Struct(">qiqqqhii"), struct.Struct(">qiq"), 28


def unpack(folder: Path) -> Path:
    """Unpack the archive; its root."""
    unpack_archive(ARCHIVE, folder)
    return folder / "queue_logs"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("queue_logs"))


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """One that may be spoilt."""
    return Path(shutil.copytree(root, tmp_path / "copy"))


def compacted_url(root: Path, queue: int = 0) -> str:
    return f"compacted:{root}/compaction/compactionLog/{TOPIC}/{queue}"


def tiered_url(root: Path, topic: str = PLAIN, queue: int = 0) -> str:
    return f"tiered:{root}/tiered/judge/{topic}/{queue}"


def compacted_entries(root: Path, queue: int = 0) -> list[tuple[int, int, int]]:
    """(offset, size, queueOffset) of each message that a broker would give."""
    found = []
    for path in sorted((root / "compaction" / "compactionCq" / TOPIC / str(queue)).iterdir()):
        for at, size, _, _, base, batch, _, _ in _BATCH.iter_unpack(path.read_bytes()):
            if at >= 0 and size > 0 and batch > 0:
                found.append((at, size, base))
    return found


def tiered_entries(root: Path, topic: str = PLAIN, queue: int = 0) -> list[tuple[int, int, int]]:
    """The same of a tiered queue."""
    folder = root / "tiered" / "judge" / topic / str(queue) / "CONSUME_QUEUE"
    raw = b"".join(path.read_bytes() for path in sorted(folder.iterdir(), key=lambda p: p.name[8:]))
    return [(at, size, n) for n, (at, size, _) in enumerate(_QUEUE.iter_unpack(raw))]
