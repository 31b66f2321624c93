"""What people are told of a recovery: whether it is needed, and its steps in their order."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.check import check
from reput.jobs.in_place.recover import Recovered, Renewal, change, examine, renewal, staged_job
from reput.jobs.judging.report import CheckReport
from reput.jobs.judging.shown import next_step
from reput.jobs.judging.verdict import judge
from reput.jobs.opening.held import HeldStore, held_store
from reput.jobs.pipeline.job import find_store
from reput.store_format.derived.checkpoint import Checkpoint, decode, encode
from reput.store_format.discover.purpose import RECOVER
from reput.store_format.faults import REFUSE, StoreError
from tests import built
from tests.damaged import START, Damaged, damaged
from tests.in_process import STORE, Session, as_text
from tests.logs import Message
from tests.logs.encoder import properties
from tests.store_format.damage.generator import INDEX_NAME, derived_of


def about(**more: Any) -> Recovered:
    return Recovered("s", "5.3.3", 1000, "zeros", **more)


def test_people_are_told_its_steps_in_their_order() -> None:
    for more in ({}, {"warnings": ["w"], "notes": ["n"], "expired": ["e"], "done": True}):
        assert (about(**more).needed, about(**more).steps()) == (False, "")
    for given, steps in [
        ({"crashed": True}, "remove abort"), ({"cut_bytes": 1234}, "cut 1,234 bytes after 1,000"),
        ({"checkpoint": True, "crashed": True, "removed": ["a"], "written": ["b"], "cut_bytes": 1},
         "cut 1 byte after 1,000, write 1 derived file, remove 1 derived file, write checkpoint, "
         "remove abort"),
    ]:  # fmt: skip
        assert about(**given).needed
        assert about(**given).steps() == steps
        assert f"  change    {steps}" in about(**given).text().splitlines()


# --- A recovery examines first, and then makes of a store what a clean stop leaves.
END = (damaged().places[59], damaged().size(59))
KNOWN = Checkpoint(START + 59, START + 59, START + 59, 100, END[0])


@cache
def derived() -> dict[str, bytes]:
    return derived_of(damaged().log)


def write(store: Path, log: Damaged, checkpoint: Checkpoint | None = KNOWN) -> Path:
    """A store with the log as it is now, and with what the whole log gives."""
    files = {path.removeprefix(f"{STORE}/"): raw for path, raw in derived().items()}
    files |= {f"commitlog/{start:020d}": bytes(raw) for start, raw in log.segments.items()}
    if checkpoint is not None:
        files["checkpoint"] = encode(checkpoint)
    return built.write(store, files)


def recovered(
    store: Path, on_damage: str = REFUSE, changes: bool = True
) -> tuple[Recovered, Checkpoint]:
    with held_store(str(store), dry_run=not changes) as held:
        at = held.at("5.3.3", as_text(damaged().settings))
        found = find_store(Session(), at, replace(RECOVER, agrees=False))
        with staged_job(found, held) as job:
            assert job.staging.folder.startswith(f"{store}/") == changes
            recovery, about = examine(found, held, job, on_damage)
            if changes:
                change(held, recovery, about, job.staging.folder.removeprefix(f"{store}/"))
    assert not [path for path in store.iterdir() if path.name.startswith(".reput")]
    return about, decode(recovery.checkpoint)


def checked(store: Path, log: Damaged) -> CheckReport:
    settings = as_text(log.settings)
    return check(Session(), str(store), rocketmq="5.3.3", settings=settings)  # type: ignore[arg-type]


def test_a_lost_checkpoint_is_written_anew(tmp_path: Path) -> None:
    store = write(tmp_path, damaged(), None)
    about, known = recovered(store)
    assert (about.needed, about.steps()) == (True, "write checkpoint")
    assert decode((store / "checkpoint").read_bytes()) == known
    assert known._replace(master_flushed_offset=100) == KNOWN


YEAR_2100 = 4_102_444_800_000


@pytest.mark.parametrize(
    "claim",
    [{"physic_msg_timestamp": YEAR_2100}, {"logics_msg_timestamp": YEAR_2100},
     {"confirm_phy_offset": 1 << 40}, {"logics_physical_offset": 1 << 40}],
)  # fmt: skip
def test_a_checkpoint_that_claims_more_than_the_log_has_is_written_anew(claim, tmp_path) -> None:
    """#6703; check says the same of it, before and afterwards."""
    log = damaged()
    store = write(tmp_path, log)
    recovered(store)
    path = store / "checkpoint"
    path.write_bytes(encode(decode(path.read_bytes())._replace(**claim)))
    wrong = checked(store, log)
    assert [each.path for each in wrong.findings] == [str(path)]
    assert "reput recover" in next_step(wrong)
    about, _ = recovered(store)
    assert about.checkpoint
    assert any("checkpoint: knows of a message" in warning for warning in about.warnings)
    assert about.lost_past_end == 0
    assert checked(store, log).sound
    assert not recovered(store)[0].needed


def test_what_queues_name_past_the_logs_end_is_said_before_it_is_cut(tmp_path: Path) -> None:
    store = write(tmp_path, log := damaged())
    recovered(store)
    (store / f"commitlog/{max(log.segments):020d}").unlink()
    about, _ = recovered(store)
    gone = sum(place >= max(log.segments) for place in log.places)
    assert about.lost_past_end == gone
    assert any(f"queues name {gone} messages of" in warning for warning in about.warnings)
    assert recovered(store)[0].lost_past_end == 0


@pytest.mark.parametrize(("flushed", "left"), [(100, 100), (1 << 40, sum(END)), (0, 0)])
def test_what_the_master_flushed_is_kept_up_to_the_logs_end(flushed, left: int, tmp_path) -> None:
    known = KNOWN._replace(master_flushed_offset=flushed)
    assert recovered(write(tmp_path, damaged(), known), changes=False)[1][3] == left


# --- Which derived files a recovery writes anew or removes: those that the log contradicts.
RENEWAL_SEGMENT, QUEUE_FILE = 4096, 200  # ten entries a queue file


WHOLE = damaged([
    Message("T", 0, n, b"body", properties(("KEYS", f"k{n}")), START + n) for n in range(120)
], RENEWAL_SEGMENT)  # fmt: skip
"""120 messages of one queue, with three index files."""


DERIVED = {path.removeprefix(f"{STORE}/"): raw for path, raw in derived_of(WHOLE.log).items()}


def queue(number: int) -> str:
    return f"consumequeue/T/0/{number * QUEUE_FILE:020d}"


def index(number: int, name: int = INDEX_NAME) -> str:
    return f"index/{name + number}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with all that its log gives."""
    files = {f"commitlog/{start:020d}": bytes(raw) for start, raw in WHOLE.segments.items()}
    return built.write(tmp_path, files | DERIVED)


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
