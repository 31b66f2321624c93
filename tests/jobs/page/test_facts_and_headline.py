"""What a report knows of a store: each part by itself, so that one that fails hides no other."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.judging.report import CheckReport, Difference
from reput.jobs.opening.plan import make_plan
from reput.jobs.page import facts as module
from reput.jobs.page.facts import DiskPart, Facts, look_at
from reput.jobs.page.headline import bytes_text, figures, headline, verdict
from reput.store_format.fate.rows import FateSums
from reput.store_format.faults import StoreError
from reput.store_format.log.reader import LogReader
from reput.store_format.log.segments import Finding
from reput.store_format.notes import Progress
from reput.store_format.query.inventory import GroupRow
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


def test_a_wrong_release_is_told_one_part_that_cannot_be_read_leaves_the_others(tmp_path) -> None:
    store = write(damaged(messages(9)).log, tmp_path / "store")
    with pytest.raises(UnknownRelease):
        looked(store, "9.9")
    (store / "consumequeue").write_bytes(b"no folder")
    facts = looked(store)
    assert facts.crashed is False
    assert facts.put is not None
    assert facts.index == []
    assert facts.disk == [DiskPart("commitlog/", 1, 4096), DiskPart("other files", 1, 9)]
    with pytest.raises(StoreError):
        looked(tmp_path)


# --- The top of the page: the verdict with its numbers, and the command that comes next.
NONE = {"range_count": 0, "bytes_lost": 0, "messages_missing": 0, "causes": []}
DAMAGE = {"range_count": 2, "bytes_lost": 9, "messages_missing": 3,
          "causes": [{"bytes": 500}, {"bytes": 21}]}  # fmt: skip
DIFFERS = [Difference("index/1", 0, "x", 1, 2)]


def checked(damage: dict[str, Any] = NONE, **more: Any) -> CheckReport:
    given = {"derived_files": 5, **more}
    return CheckReport("s", "5.3.3", 0, 900, 1000, [0], messages=1234, damage=damage, **given)


def facts(check: CheckReport | None = None, **more: Any) -> Facts:
    return Facts("/data/my store", 0, 100, 1000, 1, check=check, **more)


@pytest.mark.parametrize(("found", "kind", "text", "command"), [
    (facts(unknown={"check": "no\x1b"}), "unknown", "Not checked: no\\x1b", "reput check "),
    (facts(checked()), "sound", "Sound: 1,234 messages and 5 derived files are as they", ""),
    (facts(checked(derived_files=None)), "sound", "no queue and no index file", "reput rebuild "),
    (facts(checked(DAMAGE)), "bad", "Not sound: 2 damaged ranges of 521 bytes, 3 messages missing",
     "reput repair "),
    (facts(checked(differences=DIFFERS)), "bad", "1 of 5 derived files do not match the log",
     "reput rebuild "),
    (facts(checked(DAMAGE, differences=DIFFERS)), "bad", "missing; 1 of 5", "reput repair "),
    (facts(checked(findings=[Finding("x", "y")])), "bad", "1 file of the log in doubt",
     "reput repair "),
    (facts(checked(crashed=True), crashed=True), "crashed",
     "Needs recovery: abort is there and nobody holds the lock", "reput recover "),
    (facts(checked(crashed=True, lock_unknown=True), crashed=True), "crashed",
     "was killed, or it runs", "reput recover "),
    (facts(checked(differences=DIFFERS), crashed=True), "bad", "1 of 5", "reput recover "),
    (facts(checked(DAMAGE), crashed=True), "bad", "2 damaged ranges", "reput repair "),
    (facts(checked(DAMAGE, looks_like="5.4.0")), "bad", "looks like RocketMQ 5.4.0, not 5.3.3",
     "--rocketmq 5.4.0"),
])  # fmt: skip
def test_what_is_found_leads_to_a_command(found: Facts, kind: str, text: str, command: str) -> None:
    said = verdict(found)
    assert said.kind == kind
    assert text in said.text
    assert command in said.command
    assert bool(command) == bool(said.command)


def test_a_command_can_be_pasted_a_store_s_name_is_printable_and_key_figures_are_shown() -> None:
    found = facts(checked(DAMAGE), given=(("--rocketmq", "5.3.3"),), settings=("a=1 2",))
    assert verdict(found).command == (
        "reput repair '/data/my store' --output repaired --rocketmq 5.3.3 --set 'a=1 2'"
    )
    assumed = facts(checked(DAMAGE, releases="5.3.3, assumed"))
    assert verdict(assumed).command.endswith(" --rocketmq VERSION")
    to_look = facts(checked(DAMAGE | {"bytes_lost": 0}, releases="5.3.3, assumed"), crashed=True)
    assert verdict(to_look).command == "reput recover '/data/my store' --dry-run"
    found = facts(checked(), release="5.3.3")
    found.store = "/data/a\u202e/"
    top = headline(found)
    assert top["name"] == "a\\u202e"
    assert top["about"] == "RocketMQ 5.3.3 · /data/a\\u202e/"
    groups = [GroupRow("g", "T", 0, 5, 9, 4), GroupRow("g", "T", 1, 5, 5, 0),
              GroupRow("h", "T", 0, 0, 9, 9)]  # fmt: skip
    delayed = {("level", "waiting"): 3, ("timer", "waiting"): 1, ("level", "delivered"): 50}
    fates = FateSums({"pending": 2, "committed": 9}, [], delayed, [], 0)
    found = {
        each.name: each for each in figures(facts(checked(DAMAGE), groups=groups, fates=fates))
    }
    assert (found["Log"].value, found["Log"].note) == ("800 bytes", "in 1 segment")
    assert (found["Damage"].value, found["Damage"].alarm) == ("521 bytes", True)
    assert found["Damage"].note == "2 ranges, 3 messages missing"
    assert (found["Derived files"].value, found["Derived files"].alarm) == ("5", False)
    assert (found["Waiting"].value, found["Waiting"].note) == ("6", "4 delayed, 2 half")
    assert (found["Not yet consumed"].value, found["Not yet consumed"].note) == (
        "13",
        "by 2 groups",
    )


@pytest.mark.parametrize(("size", "text"), [
    (0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 kB"), (99_900, "99.9 kB"),
    (100_000, "100 kB"), (1_900_000_000, "1.9 GB"), (999 * 10**12, "999 TB"), (99_949, "99.9 kB"),
    (99_950, "100 kB"), (999_499, "999 kB"), (999_500, "1.0 MB"), (99_960_000_000, "100 GB"),
    (999_999_999, "1.0 GB"), ((1 << 63) - 1, "9.2 EB"),
])  # fmt: skip
def test_sizes(size: int, text: str) -> None:
    assert bytes_text(size) == text
