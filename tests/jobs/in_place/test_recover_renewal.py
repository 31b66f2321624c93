"""Which derived files a recovery writes anew or removes: those that the log contradicts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reput.jobs.in_place.recover import Renewal, renewal, staged_job
from reput.jobs.judging.verdict import judge
from reput.jobs.opening.held import HeldStore, held_store
from reput.jobs.pipeline.job import find_store
from reput.store_format.discover.purpose import RECOVER
from reput.store_format.faults import StoreError
from tests.damaged import START, Damaged, damaged
from tests.in_process import STORE, Session, as_text
from tests.logs import Message
from tests.logs.encoder import properties
from tests.store_format.damage.generator import INDEX_NAME, derived_of

SEGMENT, QUEUE_FILE = 4096, 200  # ten entries a queue file


def log_of() -> Damaged:
    """120 messages of one queue, with three index files."""
    made = [
        Message("T", 0, n, b"body", properties(("KEYS", f"k{n}")), START + n) for n in range(120)
    ]
    return damaged(made, SEGMENT)


WHOLE = log_of()
DERIVED = {path.removeprefix(f"{STORE}/"): raw for path, raw in derived_of(WHOLE.log).items()}


def queue(number: int) -> str:
    return f"consumequeue/T/0/{number * QUEUE_FILE:020d}"


def index(number: int, name: int = INDEX_NAME) -> str:
    return f"index/{name + number}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with all that its log gives."""
    files = {f"commitlog/{start:020d}": bytes(raw) for start, raw in WHOLE.segments.items()}
    for path, raw in (files | DERIVED).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(raw)
    return tmp_path


@contextmanager
def held(store: Path) -> Iterator[tuple[HeldStore, Renewal]]:
    with held_store(str(store), dry_run=False) as holding:
        at = holding.at("5.3.3", as_text(WHOLE.settings))
        found = find_store(Session(), at, RECOVER)
        with staged_job(found, holding) as job:
            verdict = judge(job, job.scan(), holding.folder)
            yield holding, renewal(holding, job, verdict)


def renewed(store: Path) -> tuple[dict[str, bytes], list[str]]:
    """(the new content of files by path, the paths of files that are removed)."""
    with held(store) as (holding, found):
        placed = {f.path: Path(holding.path, f.staged).read_bytes() for f in found.placed}
        assert len(placed) == len(found.placed)
        return placed, found.removed


def test_a_sound_store_keeps_its_files(store: Path) -> None:
    assert renewed(store) == ({}, [])


@pytest.mark.parametrize("raw", [None, b"", bytes(QUEUE_FILE), b"\1" * QUEUE_FILE, b"short"])
def test_a_queue_file_that_is_wrong_or_gone_is_written_alone(
    raw: bytes | None, store: Path
) -> None:
    if raw is None:
        (store / queue(3)).unlink()
    else:
        (store / queue(3)).write_bytes(raw)
    assert renewed(store) == ({queue(3): DERIVED[queue(3)]}, [])


def test_a_file_that_the_log_does_not_give_is_removed(store: Path) -> None:
    entry = DERIVED[queue(0)]
    (store / queue(12)).write_bytes(entry)
    (store / "consumequeue/T/1").mkdir()
    (store / f"consumequeue/T/1/{0:020d}").write_bytes(entry)
    assert renewed(store) == ({}, [queue(12), f"consumequeue/T/1/{0:020d}"])


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_index_files_are_renewed_from_the_first_wrong_one_on(wrong: int, store: Path) -> None:
    raw = bytearray(DERIVED[index(wrong)])
    raw[40] ^= 1  # a slot
    (store / index(wrong)).write_bytes(raw)
    placed, removed = renewed(store)
    contents = [DERIVED[index(n)] for n in range(wrong, 3)]
    assert [placed[path] for path in sorted(placed)] == contents
    kept = [
        path.name for path in (store / "index").iterdir() if f"index/{path.name}" not in removed
    ]
    names = sorted({*kept, *(path.partition("/")[2] for path in placed)})
    assert len(names) == 3
    assert names[:wrong] == [str(INDEX_NAME + n) for n in range(wrong)]


def test_names_of_two_time_zones_are_no_fault(store: Path) -> None:
    """A broker that has moved to the west names files below the older ones."""
    (store / index(0)).rename(store / index(0, INDEX_NAME + 8_00_00_000))
    assert renewed(store) == ({}, [])
    raw = bytearray(DERIVED[index(2)])
    raw[40] ^= 1  # a slot
    (store / index(2)).write_bytes(raw)
    placed, removed = renewed(store)
    (path,) = placed
    assert (placed[path], removed) == (DERIVED[index(2)], [index(2)])
    assert path > index(0, INDEX_NAME + 8_00_00_000)  # the last file for a broker, too


def test_new_index_files_are_named_above_those_that_stay(store: Path) -> None:
    late = 20990101000000000
    (store / index(0)).rename(store / index(0, late))
    (store / index(1)).rename(store / index(1, late))
    (store / index(2)).unlink()
    placed, removed = renewed(store)
    assert (list(placed), removed) == ([index(2, late)], [])
    assert placed[index(2, late)] == DERIVED[index(2)]


def test_a_file_of_expired_messages_is_not_removed_for_its_length(store: Path) -> None:
    """Its entries alone may tell the queue's next position."""
    (store / "commitlog" / f"{0:020d}").unlink()
    assert renewed(store) == ({}, [])
    (store / queue(0)).write_bytes(DERIVED[queue(0)][:-20])
    with pytest.raises(StoreError, match="holds expired messages, which recover cannot derive"):
        renewed(store)
