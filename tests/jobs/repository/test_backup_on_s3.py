"""Backups to an object store that fails at any request, in any way.

Whatever it did or said, each run of the catalogue has its whole log; and the next backup, with an
object store that is sound, has all that is there.
"""

from hashlib import sha256
from pathlib import Path

import pytest

from reput.jobs.backup import backup
from reput.jobs.repository import log_pieces
from reput.store_format.faults import StoreError
from reput.store_format.files.catalogue import Catalogue
from reput.store_format.files.frames import decode_all
from reput.store_format.files.s3 import S3Storage
from tests.built import Built
from tests.jobs.repository.backing import store, whole_log
from tests.jobs.repository.failing_s3 import FAULTS, Fault, Killed, endpoint, failing
from tests.store_format.files.s3_server import BUCKET

__all__ = ["endpoint"]  # a fixture


def logs(name: str) -> list[bytes]:
    """The whole log of each run, read from the pieces; the state's files are there too."""
    there, found = Catalogue(S3Storage(), f"s3://{BUCKET}/{name}", "store"), []
    for run in there.backups():
        parts = [(there.storage.read_bytes(there.piece_path(piece)), piece, used)
                 for piece, used in there.chain(run)]  # fmt: skip
        found.append(b"".join(
            b"".join(decode_all(raw, piece.length))[:used] for raw, piece, used in parts
        ))  # fmt: skip
        for entry in run.state:
            raw = there.storage.read_bytes(there.state_path(entry))
            assert sha256(b"".join(decode_all(raw, entry.length))).hexdigest() == entry.sha256
    return found


def run(store: str, name: str) -> None:
    backup(store, f"s3://{BUCKET}/{name}", settings=Built().given(), rocketmq="5.3.3")


@pytest.mark.parametrize(
    ("for_ever", "step"),
    [(False, 9), pytest.param(False, 1, marks=pytest.mark.long),
     pytest.param(True, 1, marks=pytest.mark.long)],
)  # fmt: skip
@pytest.mark.parametrize("fault", FAULTS)
def test_each_run_is_whole_whatever_fails(
    fault: Fault, for_ever: bool, step: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(log_pieces, "PIECE_BYTES", 2100)
    built = Built().put(count=35)
    old, store_of = whole_log(built), store(tmp_path, built)
    name = f"{fault.__name__}-{for_ever}-{step}"
    with failing(-1) as requests:
        run(store_of, f"{name}-none")
        first = len(requests)
    with failing(-1) as requests:
        run(store(tmp_path, built.put(count=25)), f"{name}-none")
    new, failed = whole_log(built), 0
    assert len([each for each in requests if each.startswith("PUT")]) > 3
    for at in range(len(fault.__name__) % step, first + len(requests), step):
        into = f"{name}-{at}"
        stores = [store(tmp_path / str(n), Built().put(count=n)) for n in (35, 60)]
        with failing(at, fault, for_ever):
            for path in stores:
                try:
                    run(path, into)
                except (StoreError, OSError, Killed):
                    failed += 1
        assert set(logs(into)) <= {old, new}, at
        run(stores[1], into)
        assert logs(into)[-1] == new
    assert failed
