"""Drivers killed at each step, and what the next run makes of what they left."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.outputs.publish import leftovers, staging_folder
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from tests.built import write_log
from tests.faults.killing import killed_at
from tests.in_process import run
from tests.logs.encoder import build_log
from tests.logs.small import SETTINGS, messages
from tests.trees import contents


class Kills:
    """One rebuild over an older set or none, again and again, each time killed later."""

    def __init__(self, folder: Path, replace: bool) -> None:
        self.folder, self.replace = folder, replace
        self.older = write_log(folder / "older", build_log(messages(40), 4096))
        self.store = write_log(folder / "store", build_log(messages(), 4096))
        self.output = folder / "sets" / "output"
        self.old: dict[str, bytes] = {}
        if replace:
            self.rebuild(self.older)
            self.old = contents(self.output)
        else:
            (folder / "sets").mkdir()
        shutil.copytree(folder / "sets", folder / "before")
        self.rebuild(self.store)
        self.new = contents(self.output)

    def rebuild(self, store: Path) -> None:
        run(
            str(store), str(self.output), rocketmq="5.3.3", settings=SETTINGS,
            replace=self.output.exists(),
        )  # fmt: skip

    def kill(self, step: int) -> str | None:
        """Which set a kill before this step leaves; None where there is no such step."""
        shutil.rmtree(self.folder / "sets")
        shutil.copytree(self.folder / "before", self.folder / "sets")
        _, code = killed_at(step, lambda: self.rebuild(self.store))
        assert code in (0, -signal.SIGKILL), code
        found = contents(self.output)
        assert found in (self.old, self.new), sorted(found)
        again = [p.name for p in (self.folder / "sets").iterdir() if p != self.output]
        left = leftovers(Place(LocalStorage(), str(self.output)))
        assert [Path(path).name for path in left] == again  # all there is, is known to be dead
        self.rebuild(self.store)
        assert contents(self.output) == self.new
        assert [p.name for p in (self.folder / "sets").iterdir()] == ["output"]
        if code == 0:
            return None
        return "new" if found == self.new else "old"


@pytest.mark.parametrize("replace", [False, True], ids=["first", "replace"])
def test_a_driver_killed_at_any_step(tmp_path: Path, replace: bool) -> None:
    """A selection: some steps before publishing, all around it."""
    kills = Kills(tmp_path, replace)
    total, _ = killed_at(1 << 30, lambda: kills.rebuild(kills.store))
    seen = {"old": 0, "new": 0}
    for step in (*range(0, total - 40, 29), *range(total - 40, total, 3)):
        seen[kills.kill(step) or "new"] += 1
    assert min(seen.values()) > 1, (total, seen)


@pytest.mark.long
@pytest.mark.parametrize("replace", [False, True], ids=["first", "replace"])
def test_a_driver_killed_at_each_step(tmp_path: Path, replace: bool) -> None:
    kills = Kills(tmp_path, replace)
    seen, step = {"old": 0, "new": 0}, 0
    while (which := kills.kill(step)) is not None:
        seen[which] += 1
        step += 1
    print(f"{step} steps, {seen}")
    assert min(seen.values()) > 1


def test_what_is_in_use_is_no_leftover(tmp_path: Path) -> None:
    storage, output = LocalStorage(), str(tmp_path / "output")
    with staging_folder(Place(storage, str(tmp_path)), ".output.reput") as staging:
        assert leftovers(Place(storage, output)) == []
        held = Path(staging.folder)
        dead = tmp_path / f".output.reput-{'0' * 32}"
        for other in (f".output.reput-{'g' * 32}", f".other.reput-{'0' * 32}", dead.name):
            (tmp_path / other).mkdir()
        assert leftovers(Place(storage, output)) == [str(dead)]
    assert not held.exists()
    assert dead.exists()


def test_a_zombie_task_makes_no_new_file_where_staging_was(tmp_path: Path) -> None:
    storage = LocalStorage()
    with staging_folder(Place(storage, str(tmp_path)), ".output.reput") as staging:
        late = storage.create(staging.path("begun"))
    with pytest.raises(FileNotFoundError):
        storage.create(staging.path("late"))
    late.write(b"late")
    late.finish(4)
    assert list(tmp_path.iterdir()) == []


def test_tasks_of_other_machines_sync_what_is_to_be_published(tmp_path, monkeypatch) -> None:
    """The publisher's syncfs reaches its own machine's writes only."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for shared in (False, True):
        storage = storage_for(str(tmp_path), shared)
        for digest in (False, True):
            file = storage.create(str(tmp_path / f"{shared}{digest}"), digest)
            file.write(b"x")
            file.finish(1)
            assert len(synced) == (shared and digest)


def test_a_signal_while_the_folder_is_claimed_leaves_nothing(tmp_path: Path) -> None:
    class Interrupted(LocalStorage):
        def claim(self, folder: str) -> Callable[[], None] | None:
            release = super().claim(folder)
            assert release is not None
            release()
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        staging_folder(Place(Interrupted(), str(tmp_path)), ".x.reput"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
