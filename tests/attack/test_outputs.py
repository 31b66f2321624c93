"""Outputs that are, hold or lie inside an input, in every spelling, for each command that writes.

After each attempt all that was there is there: names, modes, links and bytes.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.backup import backup
from reput.jobs.catch_up import catch_up
from reput.jobs.check import check
from reput.jobs.cli import main
from reput.jobs.convert import convert
from reput.jobs.export import export
from reput.jobs.outputs.output import NewFile, OverlapsInput, inputs_of
from reput.jobs.recover import recover
from reput.jobs.repair import repair
from reput.jobs.replicate import replicate
from reput.jobs.report import report
from reput.jobs.verify import verify
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from tests.attack.worlds import LOGS, SETTINGS, World, everything, in_process, refused
from tests.in_process import run
from tests.processes import run_python

WRITERS: dict[str, Callable[[World, str, bool], Any]] = {
    "rebuild": lambda world, output, replace: run(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings, replace=replace),
    "repair": lambda world, output, replace: in_process(
        repair, str(world.store), output, settings=world.settings, replace_output=replace),
    "convert": lambda world, output, replace: in_process(
        convert, str(world.store), output, settings=world.settings, replace=replace),
    "export": lambda world, output, replace: in_process(
        export, str(world.store), output, settings=world.settings, replace=replace),
    "catch-up": lambda world, output, replace: catch_up(
        str(world.store), rocketmq="5.3.3", settings=world.settings, output=output,
        replace=replace),
    "replicate": lambda world, output, _: replicate(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings),
    "backup": lambda world, output, _: backup(
        str(world.store), output, rocketmq="5.3.3", settings=world.settings),
}  # fmt: skip


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
@pytest.mark.parametrize("name", WRITERS)
def test_no_output_is_in_an_input(world: World, name: str, replace: bool) -> None:
    refused(world, lambda output: WRITERS[name](world, output, replace))


def test_a_merge_into_a_store_that_is_merged(world: World) -> None:
    other = world.root / "work" / "other"
    (other / "commitlog").mkdir(parents=True)
    sizes = {n: v for n, v in world.settings.items() if n != LOGS}
    segment = Path(world.folders[0], f"{0:020d}").read_bytes()
    (other / "commitlog" / f"{0:020d}").write_bytes(segment)
    first = world.root / "work" / "first"
    (first / "commitlog").mkdir(parents=True)
    (first / "commitlog" / f"{0:020d}").write_bytes(segment)
    before = everything(world.root)
    for output in (other, other / "new", first, first / "commitlog", world.root / "work"):
        with pytest.raises(OverlapsInput):
            in_process(convert, str(first), str(output), merge=[str(other)], meet="renumber",
                       settings=sizes, replace=True)  # fmt: skip
    assert everything(world.root) == before


HOLDS = (
    "its parent", "the top", "the root", "relative, above", "what holds another folder of the log",
    "what holds that", "what will hold that",
)  # fmt: skip


@pytest.mark.parametrize("job", [verify, check], ids=["verify", "check"])
def test_staging(world: World, job: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder may hold a store, as /tmp does; it may not be in one."""
    outputs = {n: o for n, o in world.outputs().items() if n not in HOLDS}
    monkeypatch.setattr(
        world, "outputs", lambda: {**outputs, **{str(n): o for n, o in enumerate(outputs.values())}}
    )
    refused(world, lambda output: in_process(
        job, str(world.store), staging_folder=output, settings=world.settings,
    ))  # fmt: skip


def test_the_temporary_folder_is_no_part_of_the_store(world: World, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(world.store / "run"))
    before = everything(world.root)
    for job in (verify, check):
        with pytest.raises(OverlapsInput, match="lies inside"):
            in_process(job, str(world.store), settings=world.settings)
    with pytest.raises(StoreError):
        in_process(recover, str(world.store), settings=SETTINGS, dry_run=True)
    assert everything(world.root) == before


def test_against_is_an_input_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    against = world.root / "against"
    against.mkdir()
    with pytest.raises(OverlapsInput, match="against"):
        in_process(verify, str(world.store), against=str(against),
                   staging_folder=str(against / "x"), settings=world.settings)  # fmt: skip
    assert list(against.iterdir()) == []


def test_a_picture(world: World) -> None:
    storage = LocalStorage()
    inputs = tuple(inputs_of(Place(storage, str(world.store)), world.settings))
    refused(world, lambda path: NewFile(path, inputs).check())
    refused(world, lambda path: NewFile(path, inputs).write(b"svg"))
    picture = NewFile(str(world.root / "work" / "log.svg"), inputs)
    picture.check()
    (world.root / "work" / "log.svg").write_text("mine")  # meanwhile
    with pytest.raises(StoreError, match="is there already, and stays"):
        picture.write(b"svg")
    assert (world.root / "work" / "log.svg").read_text() == "mine"
    with pytest.raises(StoreError, match="no such folder"):
        NewFile(str(world.root / "none" / "log.svg"), inputs).check()


@pytest.mark.parametrize("replace", [False, True], ids=["", "replace"])
def test_a_report(world: World, replace: bool) -> None:
    refused(world, lambda path: report(
        str(world.store), path, settings=world.settings, replace=replace,
    ))  # fmt: skip
    page = world.root / "work" / "report.html"
    report(str(world.store), str(page), settings=world.settings, replace=replace)
    assert page.is_file()


@pytest.mark.parametrize("option", ["--picture", "--ranges"])
@pytest.mark.parametrize("where", ["store/log.svg", "store/commitlog/log.svg", "store/thesis.doc"])
def test_the_command_refuses_a_file_beside_before_it_begins(world, where, option, capsys) -> None:
    before = everything(world.root)
    path = str(world.root / "data" / where)
    assert main(["check", str(world.store), "--rocketmq", "5.3.3", option, path]) == 2
    assert f"{option} {path}: " in capsys.readouterr().err
    assert everything(world.root) == before


@pytest.mark.long
@pytest.mark.parametrize("command", ["rebuild", "repair"])
def test_real_processes(world: World, command: str) -> None:
    """The commands as users type them, with a session of their own."""
    words = [w for n, v in world.settings.items() for w in ("--set", f"{n}={v}")]
    before = everything(world.root)
    for name in ("the store", "its parent", "a link", "its log", "another folder of the log"):
        done = run_python("-m", "reput", command, world.store, "--output", world.outputs()[name],
                          "--replace", "--rocketmq", "5.3.3", *words)  # fmt: skip
        assert done.returncode == 2, done.stderr
        assert "which is read: nothing is written there" in done.stderr
        assert everything(world.root) == before
