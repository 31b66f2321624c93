"""Where a repository may be, whose its files are, and that one command at a time writes there."""

import json
import os
import stat
from pathlib import Path

import pytest

from reput.jobs.backup import backup
from reput.jobs.outputs.output import OverlapsInput
from reput.jobs.repository import repository
from reput.jobs.repository.repository import Claim, Claimed, Repository
from reput.store_format.faults import StoreError
from tests.built import Built
from tests.jobs.repository.backing import run, store
from tests.local_time import with_sleep


@pytest.mark.parametrize("inside", ["store/repo", ".", "store/commitlog/x", "store"])
def test_a_repository_in_a_store_or_around_it_is_refused(tmp_path: Path, inside: str) -> None:
    path = store(tmp_path, Built().put())
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OverlapsInput):
        backup(path, str(tmp_path / inside), settings=Built().given())
    assert sorted(tmp_path.rglob("*")) == before


def test_a_repository_by_a_link_or_of_others_is_refused(tmp_path: Path) -> None:
    built = Built().put(count=3)
    run(tmp_path, built)
    log = tmp_path / "repo/store/log"
    log.rename(tmp_path / "elsewhere")
    log.symlink_to(tmp_path / "store/commitlog")
    with pytest.raises(StoreError, match=r"nothing is written there|is a link"):
        run(tmp_path, built.put(count=3))
    log.unlink()
    (tmp_path / "elsewhere").rename(log)
    (tmp_path / "repo").chmod(0o777)
    with pytest.raises(StoreError, match=r"is shared: .*chmod go-w"):
        run(tmp_path)
    (tmp_path / "repo").chmod(0o700)
    (tmp_path / "file").write_text("")
    for wrong, said in (("file", "not a folder"), ("store/../full", "is not a backup repository")):
        (tmp_path / "full").mkdir(exist_ok=True)
        (tmp_path / "full/x").write_text("")
        with pytest.raises(StoreError, match=said):
            backup(str(tmp_path / "store"), str(tmp_path / wrong), settings=built.given())


def test_files_are_this_users_alone_and_two_at_once_leave_a_repository_as_it_was(tmp_path) -> None:
    there = backed_up(tmp_path)
    claim = Claim(there, "store", "forget")
    claim.take()
    with pytest.raises(Claimed, match=r"a forget \(process \d+ on .*\) writes"):
        run(tmp_path)
    claim.release()
    assert run(tmp_path).run == 2
    modes = {stat.S_IMODE(os.lstat(each).st_mode) for each in (tmp_path / "repo").rglob("*")}
    assert modes == {0o600, 0o700}  # this user's alone


def test_a_dead_process_claims_nothing(tmp_path: Path) -> None:
    run(tmp_path, Built().put(count=3))
    path = tmp_path / "repo/store/claim.json"
    import socket

    dead = {"what": "backup", "host": socket.gethostname(), "process": 1 << 30, "id": "x",
            "boot": repository._boot()}  # fmt: skip
    restarted, earlier = {**dead, "process": 1, "boot": "x"}, {**dead, "process": os.getpid()}
    for about in (dead, restarted, earlier, {**dead, "host": "other"}):
        path.write_text(json.dumps(about))
        os.utime(path, (0, 0) if about["host"] == "other" else None)
        assert run(tmp_path).run is not None
    path.write_text("half of it")
    with pytest.raises(Claimed):
        run(tmp_path)


def backed_up(folder: Path) -> Repository:
    run(folder, Built().put(count=3))
    return Repository.at(str(folder / "repo"))


def test_of_two_that_remove_a_dead_claim_one_writes(tmp_path: Path, monkeypatch) -> None:
    there = backed_up(tmp_path)
    path = tmp_path / "repo/store/claim.json"
    path.write_text("{}")
    os.utime(path, (0, 0))
    late = Claim(there, "store", "backup")

    def meanwhile(_: float) -> None:
        monkeypatch.undo()
        path.unlink()  # as the other does, that had seen the same dead claim
        late.take()

    monkeypatch.setattr(repository, "time", with_sleep(meanwhile))
    with pytest.raises(Claimed, match="took this one for dead"):
        Claim(there, "store", "forget").take()
    late.check()


def test_another_containers_process_is_not_judged_by_its_number(tmp_path, monkeypatch) -> None:
    """Containers of one host name have one boot id, and in each the process may be number 1."""
    there = backed_up(tmp_path)
    boot = repository._boot()
    monkeypatch.setattr(repository, "_boot", lambda: f"{boot.split()[0]} pid:[1]")
    monkeypatch.setattr(repository.os, "getpid", lambda: 1 << 30)
    Claim(there, "store", "backup").take()
    monkeypatch.undo()
    with pytest.raises(Claimed):
        run(tmp_path)


def test_a_forget_that_was_stopped_for_long_removes_nothing_more(tmp_path, monkeypatch) -> None:
    there = backed_up(tmp_path)
    path = tmp_path / "repo/store/claim.json"
    claim = Claim(there, "store", "forget")
    claim.take()
    path.unlink()
    Claim(there, "store", "backup").take()  # which took it for dead
    (tmp_path / "repo/store/log/x").write_text("")
    now = repository._awake()
    monkeypatch.setattr(repository, "_awake", lambda: now + 700)
    with pytest.raises(Claimed, match="took this one for dead"):
        claim.remove(f"{tmp_path}/repo/store/log/x")
    assert (tmp_path / "repo/store/log/x").exists()


@pytest.mark.parametrize("name", ["", ".x", "a/b", "x" * 101, "ü", ".."])
def test_a_name_that_is_no_folders_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="--store NAME gives one"):
        run(tmp_path, Built().put(), name=name)
