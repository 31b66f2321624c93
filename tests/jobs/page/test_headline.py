"""The top of the page: the verdict with its numbers, and the command that comes next."""

from typing import Any

import pytest

from reput.jobs.judging.report import CheckReport, Difference
from reput.jobs.page.facts import Facts
from reput.jobs.page.headline import bytes_text, figures, headline, verdict
from reput.store_format.fate.rows import FateSums
from reput.store_format.log.segments import Finding
from reput.store_format.query.inventory import GroupRow

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
