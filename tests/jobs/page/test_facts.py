"""What a report knows of a store: each part by itself, so that one that fails hides no other."""

from functools import partial
from pathlib import Path

import pytest

from reput.jobs.opening.plan import make_plan
from reput.jobs.page import facts as module
from reput.jobs.page.facts import DiskPart, Facts, look_at
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader
from reput.store_format.notes import Progress
from reput.store_format.release.profiles import UnknownRelease
from tests import golden_stores
from tests.damaged import START, damaged, messages
from tests.in_process import Session, as_text
from tests.jobs.sources.reading import write


def looked(store: Path, rocketmq: str | None = None) -> Facts:
    settings = {"maxHashSlotNum": "7"}
    return look_at(
        str(store), engine=None, rocketmq=rocketmq, settings=settings, staging_folder=None,
        now=START, progress=Progress(),
    )  # fmt: skip


def test_an_error_of_a_part_is_why_it_is_not_known_and_a_bug_stays_a_bug() -> None:
    facts = Facts("s", 0, 0, 0, 0)
    for error in (StoreError("gone"), OSError(5, "no answer"), UnknownRelease("9.9")):
        fails(facts, error)
        assert facts.not_known("index") == f"not known: {error}"
    with facts.part("queues"):
        pass
    assert "queues" not in facts.unknown
    with pytest.raises(ZeroDivisionError):
        fails(facts, ZeroDivisionError())


def fails(facts: Facts, error: Exception) -> None:
    with facts.part("index"):
        raise error


@pytest.mark.parametrize(
    ("lines", "last"), [(0, ""), (50, "49"), (51, "... and 1 more"), (1250, "... and 1,200 more")]
)
def test_fifty_notes_of_a_part_are_kept_and_the_others_counted(lines: int, last: str) -> None:
    facts = Facts("s", 0, 0, 0, 0)
    facts.note("put", [str(n) for n in range(lines)])
    facts.note("put", ["0"][:lines])  # not twice
    assert len(facts.notes["put"]) == min(lines, 51)
    assert facts.notes["put"][-1:] == [last][: min(lines, 1)]


def test_a_store_is_told_as_it_is(tmp_path: Path) -> None:
    log = damaged(messages(30))
    store = write(log.log, tmp_path / "store")
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text("{}")
    (store / "abort").write_text("1")
    facts = looked(store)
    assert len(log.segments) == 1
    assert (facts.log_start, facts.log_end, facts.segments) == (0, 4096, 1)
    assert facts.queues is not None
    assert [(row.queue_id, row.messages) for row in facts.queues] == [(0, 10), (1, 10), (2, 10)]
    assert (facts.given, facts.settings, facts.crashed) == ((), ("maxHashSlotNum=7",), True)
    assert facts.disk == [
        DiskPart("commitlog/", 1, 4096), DiskPart("config/", 1, 2), DiskPart("other files", 1, 1),
    ]  # fmt: skip
    assert facts.unknown["check"] == "--no-check left the check of the log out"
    assert "was not stopped cleanly" in facts.unknown["expired"]


def test_what_was_not_asked_has_the_reason_of_what_failed_before(tmp_path, monkeypatch) -> None:
    def unreadable(*_: object) -> None:
        raise StoreError("topics.json: is a folder")

    monkeypatch.setattr("reput.jobs.page.facts.batch_topics", unreadable)
    facts = looked(write(damaged(messages(3)).log, tmp_path / "store"))
    assert (facts.put, facts.fates) == (None, None)
    assert facts.not_known("fates") == facts.not_known("put")


@pytest.mark.parametrize(("name", "walks"), [
    ("small_all_5.3.3", False), ("small_odd_4.9.7", False), ("small_expired_5.3.3", False),
    ("small_lmq_batch_5.5.0", True), ("middle_crc_5.3.3", True),
])  # fmt: skip
def test_what_the_scan_of_a_check_has_counted_is_what_a_walk_counts(
    name: str, walks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden, steps = golden_stores.unpack(name), LogReader.steps_past_damage
    walked: list[int] = []
    monkeypatch.setattr(
        LogReader, "steps_past_damage", lambda *words: walked.append(1) or steps(*words)
    )
    monkeypatch.setattr(module, "make_plan", partial(make_plan, split_bytes=1 << 13))
    look = partial(
        look_at, str(golden.input), rocketmq=golden.version, settings=as_text(golden.settings),
        staging_folder=None, now=0, progress=Progress(),
    )  # fmt: skip
    by_walk = look(engine=None)
    walked.clear()
    by_check = look(engine=Session())
    assert bool(walked) == walks  # of a damaged log, or one whose times fall
    assert by_check.check is not None
    assert by_walk.put is not None
    assert sum(row.messages for row in by_walk.put.topics) > 5
    for part in ("put", "fates"):
        assert repr(getattr(by_check, part)) == repr(getattr(by_walk, part))
        assert by_check.notes[part] == by_walk.notes[part]


def test_a_wrong_release_is_told_at_once_and_one_part_that_cannot_be_read_leaves_the_others(
    tmp_path,
) -> None:
    store = write(damaged(messages(9)).log, tmp_path / "store")
    with pytest.raises(UnknownRelease):
        looked(store, "9.9")
    (store / "consumequeue").write_bytes(b"no folder")
    facts = looked(store)
    assert facts.crashed is False
    assert facts.put is not None
    assert facts.index == []
    assert facts.disk == [DiskPart("commitlog/", 1, 4096), DiskPart("other files", 1, 9)]


def test_without_a_log_there_is_nothing_to_tell(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        looked(tmp_path)
