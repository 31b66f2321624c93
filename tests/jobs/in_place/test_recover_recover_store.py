"""A recovery examines first, and then makes of a store what a clean stop leaves."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from reput.jobs.check import check
from reput.jobs.in_place.recover import Recovered, change, examine, staged_job
from reput.jobs.judging.report import CheckReport
from reput.jobs.judging.shown import next_step
from reput.jobs.opening.held import held_store
from reput.jobs.pipeline.job import find_store
from reput.store_format.derived.checkpoint import Checkpoint, decode, encode
from reput.store_format.discover.purpose import RECOVER
from reput.store_format.faults import REFUSE, TRUNCATE, DamageFound
from tests import built
from tests.damaged import SEGMENT, START, Damaged, damaged
from tests.in_process import STORE, Session, as_text
from tests.store_format.damage.generator import derived_of
from tests.trees import contents

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


def test_a_store_that_was_stopped_needs_nothing(tmp_path: Path) -> None:
    store = write(tmp_path, damaged())
    before = contents(store)
    about, known = recovered(store, changes=False)
    assert (about.needed, about.log_end, about.crashed) == (False, sum(END), False)
    assert known == KNOWN
    assert contents(store) == before


def test_after_a_crash_abort_goes_and_all_else_stays(tmp_path: Path) -> None:
    store = write(tmp_path, damaged())
    before = contents(store)
    (store / "abort").write_bytes(b"1")
    about, _ = recovered(store)
    assert about.steps() == "write checkpoint, remove abort"
    after = contents(store)
    after.pop("lock")
    assert after == before


def test_bytes_behind_the_logs_end_are_cut_and_kept(tmp_path: Path) -> None:
    log = damaged()
    log.put(sum(END), b"\0\0\0\x7ftail")
    store = write(tmp_path, log)
    (store / "abort").touch()
    about, _ = recovered(store)
    assert about.cut_bytes == 8  # zeros too
    assert about.cut_kept == f"{store}/reput-cut"
    assert (store / f"commitlog/{SEGMENT:020d}").read_bytes() == damaged().segments[SEGMENT]
    kept = b"".join(contents(store / "reput-cut").values())
    assert b"\x7ftail" in kept


YEAR_2100 = 4_102_444_800_000


@pytest.mark.parametrize(
    "claim",
    [{"physic_msg_timestamp": YEAR_2100}, {"logics_msg_timestamp": YEAR_2100},
     {"confirm_phy_offset": 1 << 40}, {"logics_physical_offset": 1 << 40}],
)  # fmt: skip
def test_a_checkpoint_that_claims_more_than_the_log_has_is_written_anew(
    claim: dict[str, int], tmp_path: Path
) -> None:
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


def test_damage_with_live_records_behind_it_is_refused_or_cut(tmp_path: Path) -> None:
    log = damaged()
    log.flip(50, 5)
    store = write(tmp_path, log)
    before = contents(store)
    with pytest.raises(DamageFound, match="`reput repair` makes a copy that keeps") as refused:
        recovered(store, changes=False)
    assert refused.value.plain.endswith("keeps the messages behind it.")
    assert "salvage" not in str(refused.value)
    assert contents(store) == before
    about, known = recovered(store, TRUNCATE)
    assert about.log_end == log.places[50]
    assert known.physic_msg_timestamp == START + 49
    assert {path.split("/")[0] for path in about.written} == {"consumequeue", "index"}


@pytest.mark.parametrize(("flushed", "left"), [(100, 100), (1 << 40, sum(END)), (0, 0)])
def test_what_the_master_flushed_is_kept_up_to_the_logs_end(
    flushed: int, left: int, tmp_path: Path
) -> None:
    known = KNOWN._replace(master_flushed_offset=flushed)
    assert recovered(write(tmp_path, damaged(), known), changes=False)[1][3] == left


def test_a_lost_checkpoint_is_written_anew(tmp_path: Path) -> None:
    store = write(tmp_path, damaged(), None)
    about, known = recovered(store)
    assert (about.needed, about.steps()) == (True, "write checkpoint")
    assert decode((store / "checkpoint").read_bytes()) == known
    assert known._replace(master_flushed_offset=100) == KNOWN


def test_wrong_files_are_listed_and_replaced(tmp_path: Path) -> None:
    store = write(tmp_path, damaged())
    path = store / f"consumequeue/T/1/{0:020d}"
    whole = path.read_bytes()
    path.write_bytes(bytes(200))
    (store / "consumequeue/T/7").mkdir()
    (store / f"consumequeue/T/7/{0:020d}").write_bytes(whole)
    about, _ = recovered(store)
    assert about.written == [f"consumequeue/T/1/{0:020d}"]
    assert about.removed == [f"consumequeue/T/7/{0:020d}"]
    assert path.read_bytes() == whole
    assert not (store / f"consumequeue/T/7/{0:020d}").exists()
