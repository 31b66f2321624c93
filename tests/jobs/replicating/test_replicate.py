"""A whole replication: what is asked first, and what a dry run says of it."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from reput.broker.change.replica import NOTE
from reput.jobs.replicate import Replicate, ReplicateFrom
from reput.jobs.replicating import replicate
from reput.jobs.replicating.from_master import MasterSays
from reput.jobs.replicating.replicate import _agree, from_master, from_store
from reput.jobs.replicating.target import Replicated
from reput.store_format.discover.store import StoreAt, store_at
from reput.store_format.faults import StoreError
from tests.jobs.replicating.stores import SETTINGS, log_of, make_store, record_starts

HERE = ("127.0.0.1", 10912)


class Asked(Exception):
    """The user was asked, and says no."""


def no(question: str) -> None:
    raise Asked(question)


def at(root: Path) -> StoreAt:
    return store_at(str(root), "5.3.3", SETTINGS)


def run(source: Path, target: Path, **more: Any) -> Replicated:
    asked = Replicate(source=str(source), target=str(target), confirm=no, **more)
    return from_store(asked, at(source), str(target))


def test_a_dry_run_tells_where_it_would_end_and_makes_nothing(source: Path, tmp_path: Path) -> None:
    starts, end = record_starts(log_of(source))
    limits = {starts[n] + 5: starts[n] for n in (0, 1, 20, 39)}
    for limit, wanted in {**limits, None: end}.items():
        about = run(source, tmp_path / "target", dry_run=True, to_offset=limit)
        assert (about.start, about.resumed_at, about.end) == (0, 0, wanted)
        assert about.dry_run
        assert not (tmp_path / "target").exists()
    target = make_store(tmp_path / "target", 12)
    end = record_starts(log_of(target))[1]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    about = run(source, target, dry_run=True, to_offset=end - 1)
    assert (about.resumed_at, about.end) == (end, end)  # never back
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(tmp_path_factory.mktemp("made") / "source")


def test_a_log_that_no_replication_has_made_is_asked_about_first(source: Path, tmp_path) -> None:
    target = make_store(tmp_path / "target", 12)
    log = log_of(target)
    with pytest.raises(Asked, match="which has a log already"):
        run(source, target)
    assert log_of(target) == log
    assert not (target / "lock").exists()
    target = make_store(tmp_path / "target", 12)
    (target / NOTE).touch()
    _agree(str(target), no)


def test_what_is_given_goes_before_what_a_master_says(tmp_path, monkeypatch) -> None:
    says = MasterSays(release="4.9.7", settings={"maxIndexNum": "7", "maxHashSlotNum": "5"})
    monkeypatch.setattr(replicate, "Asking", lambda _: Mock(says=lambda: says))
    made = Mock(side_effect=Asked)
    monkeypatch.setattr(replicate, "ReplicaTarget", made)
    asked = ReplicateFrom(
        rocketmq="5.3.3", settings={"maxIndexNum": "9"}, confirm=no, from_offset=0
    )
    with pytest.raises(Asked):
        from_master(asked, HERE, ("127.0.0.1", 10911), str(tmp_path / "target"))
    _, rules, known, _ = made.call_args.args
    assert rules.profile.release == "5.3.3"
    assert (known["maxIndexNum"], known["maxHashSlotNum"]) == ("9", "5")


@pytest.mark.parametrize("start", [None, -1])
def test_a_master_of_whose_start_nobody_tells_is_refused_before_anything_is_made(
    tmp_path: Path, start: int | None
) -> None:
    asked = ReplicateFrom(confirm=no, from_offset=start)
    with pytest.raises(StoreError, match=r"10912: nobody tells where .* begins: --from-offset"):
        from_master(asked, HERE, None, str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()
