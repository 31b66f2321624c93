"""A backup has the log's bytes and the broker's other files, and writes its run last."""

from pathlib import Path
from typing import Any

import pytest

from reput import check_repository
from reput.jobs.backup import backup
from reput.store_format.discover.store import discover
from reput.store_format.faults import StoreChanged, StoreError
from tests.built import Built
from tests.in_process import Session
from tests.jobs.repository.backing import catalogue, run, store
from tests.trees import contents, flip


def _gone(path: Path) -> None:
    path.unlink()


def _flipped(path: Path) -> None:
    flip(path, 20)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("harm", [_gone, _flipped])
@pytest.mark.parametrize("folder", ["log", "state"])
def test_what_the_repository_has_lost_is_put_again(tmp_path, folder: str, harm: Any, check) -> None:
    """kopia #3492. What is damaged is seen by a check alone, as nothing is read otherwise."""
    built = Built().put(count=30)
    run(tmp_path, built)
    run(tmp_path, built.put(count=30).file("config/topics.json", '{"topicConfigTable":{}}'))
    before = contents(tmp_path / "repo")
    state = {each.name for each in catalogue(tmp_path).run(2).state}
    harmed = next(path for path in sorted((tmp_path / "repo/store" / folder).iterdir())
                  if folder == "log" or path.name in state)  # fmt: skip
    harm(harmed)
    if check:
        assert not check_repository(Session(), str(tmp_path / "repo")).good
    again = harm is _gone or check
    assert run(tmp_path, dry_run=True).new == again
    about = run(tmp_path)
    assert about.again == again
    assert ("put 1 file anew" in about.text()) == again
    after = contents(tmp_path / "repo")
    assert (before.items() <= after.items()) == again
    assert check_repository(Session(), str(tmp_path / "repo")).good == again
    assert not run(tmp_path).again or not again


def test_only_what_the_store_still_has_is_put_again(tmp_path: Path) -> None:
    built = Built().put(count=60)
    run(tmp_path, built)
    (piece,) = (tmp_path / "repo/store/log").iterdir()
    piece.unlink()
    store(tmp_path, Built().put(count=30, body=b"other").put(count=30))
    with pytest.raises(StoreError, match="is not the log of which"):
        run(tmp_path)
    store(tmp_path, built)
    (tmp_path / f"store/commitlog/{0:020d}").unlink()  # where the piece begins
    assert not run(tmp_path).again
    assert not piece.exists()


def test_a_run_whose_number_was_taken_is_not_written(tmp_path: Path, monkeypatch) -> None:
    run(tmp_path, Built().put(count=3))
    from reput.store_format.files.local import LocalStorage

    real = LocalStorage.put_new

    def put_new(self: Any, path: str, raw: bytes) -> bool:
        if path.endswith("00000002.json"):
            Path(path).write_bytes(b"another's")
        return real(self, path, raw)

    monkeypatch.setattr(LocalStorage, "put_new", put_new)
    with pytest.raises(StoreError, match="another backup has written it meanwhile"):
        run(tmp_path)
    assert (tmp_path / "repo/store/runs/00000002.json").read_bytes() == b"another's"


def test_an_index_that_changes_while_it_is_looked_at_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a running broker's does (StoreChanged, seen with 5.3.3 under load)."""
    looks: list[int] = []

    def once(*asked: Any) -> Any:
        looks.append(1)
        if len(looks) == 1:
            raise StoreChanged("changed while it was read")
        return discover(*asked)

    monkeypatch.setattr("reput.jobs.repository.backup.discover", once)
    built = Built().put("T", count=3)
    store = built.write(tmp_path / "store")
    backup(str(store), str(tmp_path / "repo"), settings=built.given(), rocketmq="5.3.3")
    assert len(looks) == 2
