"""A repository that is checked: what is damaged is named, with the moments that it costs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput import check_repository
from reput.jobs import cli
from reput.jobs.repository.checking import CheckedStore
from tests.backed_up import made
from tests.in_process import Session
from tests.reference.repository import Repository
from tests.trees import flip

__all__ = ["made"]  # a fixture


def checked(repository: Repository, restore: int = 0) -> CheckedStore:
    (found,) = check_repository(Session(), str(repository.root), restore=restore).stores
    return found


def pieces(repository: Repository) -> list[Path]:
    return sorted((repository.folder / "log").iterdir())


def test_a_sound_repository_is_whole(made: Repository) -> None:
    about = checked(made, restore=3)
    assert about.good
    assert about.runs == {"1": "whole", "2": "whole", "3": "whole"}
    assert sorted(about.pieces) == [path.name for path in pieces(made)]
    assert [each["verdict"] for each in about.restored] == ["whole"] * 3
    (file,) = (made.folder / "checks").iterdir()
    assert str(file) == about.written
    kept = json.loads(file.read_text())
    assert (kept["format"], kept["runs"]) == ("reput-repository-1", about.runs)


def second(change: Callable[[bytes], bytes]) -> Callable[[Repository], object]:
    return lambda made: pieces(made)[1].write_bytes(change(pieces(made)[1].read_bytes()))


def told(name: str, change: Callable[[Any], Any]) -> Callable[[Repository], None]:
    """Another word of the second run's piece."""

    def harm(repository: Repository) -> None:
        piece = repository.runs[2]["pieces"][0]
        piece[name] = change(piece[name])
        repository.write(2)

    return harm


@pytest.mark.parametrize(("harm", "reason"), [
    (second(lambda raw: raw[:40] + bytes([raw[40] ^ 1]) + raw[41:]), "frame"),
    (lambda made: pieces(made)[1].unlink(), "is missing"),
    (second(lambda raw: raw[:-1]), "the tables"),
    (lambda made: shutil.copy(pieces(made)[0], pieces(made)[1]), "seek table"),
    (told("records", lambda many: many + 1), "has 11 records, not the 12"),
    (told("sha256", lambda text: text[:-1] + "01"[text[-1] == "0"]), "SHA-256"),
])  # fmt: skip
def test_a_damaged_piece_costs_the_moments_after_it(made: Repository, harm, reason: str) -> None:
    begin, end = made.runs[2]["from"], made.runs[2]["end"]
    harm(made)
    about = checked(made)
    assert not about.good
    assert about.runs == {"1": "whole", "2": "damaged", "3": "damaged"}
    (line,) = about.damaged
    assert reason in line
    assert f"the log from {begin:,} to {end:,}, " in line
    assert f"of runs 2 to 3 no moment after {begin:,} is whole" in line


def test_a_damaged_file_of_state_costs_the_runs_that_have_it(made: Repository) -> None:
    name = made.runs[2]["state"][1]["sha256"]
    flip(made.folder / "state" / f"{name}.zst", 12)
    (made.folder / "state" / f"{made.runs[3]['state'][1]['sha256']}.zst").unlink()
    about = checked(made)
    assert about.runs == {"1": "whole", "2": "damaged", "3": "damaged"}
    assert [line.rpartition(": ")[2] for line in sorted(about.damaged)] == sorted(
        [f"config/consumerOffset.json of run {run}" for run in (2, 3)],
        key=lambda text: made.runs[int(text[-1])]["state"][1]["sha256"],
    )


def test_a_hole_that_no_run_names_and_a_missing_run_are_named(made: Repository) -> None:
    first = made.folder / "runs/00000001.json"
    first.rename(made.folder / "away")
    about = checked(made)
    assert (about.good, set(about.runs.values())) == (False, {"damaged"})
    assert all("00000001.json: is missing: of run" in line for line in about.damaged)
    (made.folder / "away").rename(first)
    made.runs[3] |= {"from": made.runs[3]["pieces"][1]["offset"],
                     "pieces": made.runs[3]["pieces"][1:]}  # fmt: skip
    made.write(3)
    about = checked(made)
    assert about.runs == {"1": "whole", "2": "whole", "3": "damaged"}
    assert "a hole that it does not name" in about.damaged[0]


def test_the_command_says_what_was_found(made: Repository, capsys) -> None:
    assert cli.main(["check", str(made.root), "--restore", "1"]) == 0
    assert capsys.readouterr().out.startswith("checked broker-a: whole\n")
    pieces(made)[1].unlink()
    assert cli.main(["check", str(made.root), "--store", "broker-a", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["stores"][0]["runs"] == {"1": "whole", "2": "damaged", "3": "damaged"}
    assert cli.main(["check", str(made.root), "--restore", "1", "--to-offset", "500"]) == 2
    assert "is of a backup repository, as a whole" in capsys.readouterr().err
