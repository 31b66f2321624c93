"""The moment that options name: which run and offset, and what is said where there is none."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import cli
from reput.jobs.console import voice
from reput.jobs.console.moment import Wanted, find_moment, take_moment
from reput.jobs.console.options import milliseconds
from reput.store_format.faults import StoreError
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from tests.backed_up import SEGMENT, TIMES, ends, log_of, made, messages, state
from tests.built import SIZES, T0, Built
from tests.reference.repository import Repository, records

__all__ = ["made"]  # a fixture


def find(repository: Repository, **wanted: Any) -> tuple[int, int, int, list[str]]:
    notes = Notes()
    moment = find_moment(LocalStorage(), str(repository.root), Wanted(**wanted), notes).moment
    return moment.log, moment.state, moment.end, notes.lines


def test_a_moment_is_a_run_and_an_offset(made: Repository) -> None:
    place = [p for p, _, t in records(log_of(messages(70)), 0, SEGMENT) if t >= 0][40]
    for wanted, count, state_run in [
        ({}, 70, 3), ({"at": T0}, 1, 1), ({"at": T0 + 9_499}, 10, 1), ({"at": T0 + 9_500}, 10, 1),
        ({"at": T0 + 20_499}, 21, 1), ({"at": T0 + 20_500}, 21, 2), ({"at": T0 + 69_000}, 70, 2),
        ({"at": T0 + 70_500}, 70, 3), ({"to_offset": ends()[9]}, 10, 1),
        ({"to_offset": ends()[10] + 1}, 11, 1),
        ({"to_message_id": f"7F00000100002A9F{place:016X}"}, 41, 2),
    ]:  # fmt: skip
        log, state_found, found, notes = find(made, **wanted)
        assert (log, state_found, found) == (3, state_run, ends()[count - 1])
        older = state_run == 1 and wanted.get("at", T0 + 9_500) < T0 + 9_500
        assert any("the oldest backup" in line for line in notes) == older


def test_what_no_backup_has_is_refused_with_what_is_near(made: Repository) -> None:
    for wanted, sides in [
        ({"at": T0 - 1}, "--at 2023-11-14T22:13:20.000Z is the nearest after"),
        ({"at": T0 + 70_501}, "--at 2023-11-14T22:14:30.500Z is the nearest before"),
        ({"to_offset": 1 << 40}, "--to-offset 7764 is the nearest before"),
        ({"to_message_id": "AB" * 16}, "no backed-up message"),
        ({"store": "other"}, "there are: broker-a"),
    ]:
        with pytest.raises(StoreError) as error:
            find(made, **wanted)
        assert sides in str(error.value)


def test_a_branch_is_named_and_the_newest_one_counts(made: Repository) -> None:
    cut = ends()[29]
    other = log_of(Built().put(count=30, keys="k").put("U", count=50))
    assert other[:cut] == log_of(messages(70))[:cut]
    made.run(other, TIMES[2] + 30_000, begin=cut, state=state(28),
             branch={"parent_end": ends()[-1], "differs_at": cut})  # fmt: skip
    log, state_run, end, notes = find(made, at=T0 + 40_000)
    assert (log, state_run) == (4, 2)
    assert any("run 3 has that moment too" in line for line in notes)
    log, state_run, end, notes = find(made, at=T0 + 25_000)  # before they part
    assert (log, end, notes) == (4, ends()[25], [])


def test_a_moment_in_a_gap_is_refused_with_both_sides(made: Repository) -> None:
    start = 6 * SEGMENT
    late = Built(start=start).put(count=9, store_timestamp=T0 + 500_000)
    made.run(log_of(late), T0 + 600_000, first=start, begin=start, gap=[ends()[-1], start])
    with pytest.raises(StoreError) as error:
        find(made, at=T0 + 100_000)
    assert "was deleted before it was backed up; --at" in str(error.value)
    assert "22:14:30.500Z is the nearest before" in str(error.value)
    assert "22:21:40.000Z is the nearest after" in str(error.value)
    assert find(made, at=T0 + 70_500)[2] == ends()[-1]
    assert "deleted before it was backed up" in find(made)[3][0]


def test_a_clock_that_was_set_back_and_a_lost_run_are_said(tmp_path, made: Repository) -> None:
    built = Built().put(count=10).put(store_timestamp=T0 - 5000).put(count=20)
    other = Repository(tmp_path / "other", settings=SIZES, piece=500)
    other.run(log_of(built), T0 + 90_000, state=state(0))
    _, _, end, notes = find(other, at=T0 + 3000)
    assert end == built.places()[4]
    assert any("a clock was set back" in line for line in notes)
    (made.folder / "runs/00000001.json").unlink()
    *_, notes = find(made)
    assert [note for note in notes if "00000001.json: is missing: the log before" in note]


def said(capsys: pytest.CaptureFixture[str], code: int, *words: object) -> tuple[str, str]:
    capsys.readouterr()
    assert cli.main([str(word) for word in words]) == code
    return capsys.readouterr()


def test_commands_read_a_repository_as_a_store(made: Repository, capsys) -> None:
    out, errors = said(capsys, 0, "groups", made.root, "--at", "2023-11-14T22:13:45Z", "--json")
    row = json.loads(out)
    assert (row["consumerOffset"], row["maxOffset"], row["lag"]) == (18, 26, 8)
    assert "config and offsets of run 2" in errors
    out, errors = said(capsys, 0, "topics", made.root, "--at", "2023-11-14 22:13:45", "--json")
    assert json.loads(out)["messages"] == 26
    assert "in the zone of this process" in errors
    late = ("--at", "2023-11-15 06:13:45", "--tz", "+8")
    out, errors = said(capsys, 0, "topics", made.root, *late, "--json")
    assert json.loads(out)["messages"] == 26
    assert "in the zone of this process" not in errors
    out, _ = said(capsys, 0, "check", made.root, "--to-offset", ends()[10], "--json")
    assert json.loads(out)["messages"] == 11
    # the group's offset is of a later moment: a restore cuts it, so it shows no loss
    out, _ = said(capsys, 0, "check", made.root, "--to-offset", ends()[3], "--json")
    assert json.loads(out)["messages"] == 4
    out, _ = said(capsys, 0, "check", made.root, "--at", "2023-11-14T22:13:45Z")
    named = f"{made.root} --at 2023-11-14T22:13:45.000Z"
    assert out.endswith(f"  next      reput restore {named} --output DIR\n")
    out, errors = said(capsys, 0, "topics", made.root, "--at", "now", "--json")
    assert json.loads(out)["messages"] == 70
    assert "in the zone of this process" not in errors
    out, _ = said(capsys, 0, "stats", f"backup:{made.root}/broker-a@1:{ends()[8]}", "--json")
    assert json.loads(out)["messages"] == 9


@pytest.mark.parametrize(
    ("tz", "at", "hours"), [(None, "2023-11-14T12:00", 7), ("+8", "2023-11-14T12:00", -8),
                            (None, "2023-11-14T12:00Z", 0)],
)  # fmt: skip
def test_a_time_without_a_zone_is_in_that_of_tz_or_of_this_process(
    tz: str | None, at: str, hours: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "XYZ7")  # seven hours behind
    time.tzset()
    voice.begin(zone=tz or "UTC")
    store = str(Built().put().write(tmp_path / "store"))
    given = argparse.Namespace(
        store=store, at=at, tz=tz, at_of_store=True, store_name=None, to_offset=None,
        to_message_id=None,
    )  # fmt: skip
    try:
        take_moment(given, milliseconds, lambda _: None)
    finally:
        monkeypatch.undo()
        time.tzset()
        voice.begin()
    assert given.at == T0 - T0 % 86_400_000 + (12 + hours) * 3_600_000


def test_options_of_a_repository_are_refused_for_a_store(made, tmp_path, capsys) -> None:
    store = Built().put(count=3).write(tmp_path / "store")
    _, errors = said(capsys, 2, "topics", store, "--at", "now")
    assert "is not a backup repository" in errors
    _, errors = said(capsys, 2, "topics", made.root, "--at", "now", "--to-offset", "3")
    assert "--at and --to-offset: name one moment" in errors
    _, errors = said(capsys, 2, "topics", made.root, "--at", "yesterday")
    assert "'yesterday' is not a time" in errors
