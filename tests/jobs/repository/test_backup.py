"""A backup has the log's bytes and the broker's other files, of any store as it is at that time."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.backup import backup
from reput.jobs.backups import backups
from reput.jobs.outputs.output import OverlapsInput
from reput.jobs.repository import log_pieces
from reput.jobs.repository.repository import Claimed
from reput.store_format.faults import StoreError
from reput.store_format.files import runs
from tests.built import Built
from tests.jobs.repository.backing import (
    CONFIG,
    SEGMENT,
    catalogue,
    content,
    log_of,
    run,
    store,
    whole_log,
)


def test_a_first_backup_has_all_of_a_store_and_the_next_what_is_new(tmp_path: Path) -> None:
    built = Built().put(count=30)
    first = run(tmp_path, built)
    assert (first.run, first.begin, first.records, first.files) == (1, 0, 30, 2)
    more = run(tmp_path, built.put(count=30).file("config/topics.json", '{"topicConfigTable":{}}'))
    assert (more.run, more.begin, more.records, more.new_files) == (2, first.end, 30, 1)
    assert log_of(tmp_path, 2) == {0: whole_log(built)}
    made = catalogue(tmp_path).run(2)
    assert content(tmp_path, made, "config/topics.json") == b'{"topicConfigTable":{}}'
    old = content(tmp_path, catalogue(tmp_path).run(1), "config/topics.json")
    assert old == CONFIG["config/topics.json"].encode()
    again = run(tmp_path)
    assert (again.bytes, again.pieces, again.new_files, again.stored) == (0, 0, 0, 0)


def test_a_log_in_pieces_is_whole_and_each_ends_with_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_pieces, "PIECE_BYTES", 3000)
    monkeypatch.setattr(runs, "PIECE_BYTES", 3000)
    built = Built().put(count=20).put(body=b"x" * 1500).put(count=40, body=b"y" * 300)
    about = run(tmp_path, built)
    assert about.pieces > 5
    assert log_of(tmp_path, 1) == {0: whole_log(built)}
    pieces = catalogue(tmp_path).run(1).pieces
    borders = {*built.places(), about.end, *range(0, about.end, SEGMENT)}
    assert {piece.offset for piece in pieces} <= borders
    assert sum(piece.records for piece in pieces) == 61
    assert pieces[0].times[0] == built.messages[0].store_timestamp
    assert pieces[-1].times[1] == built.messages[-1].store_timestamp


@pytest.mark.parametrize("cut", [31, 25, 8])
def test_a_log_that_went_on_differently_becomes_a_branch(tmp_path: Path, cut: int) -> None:
    old = Built().put(count=20)
    run(tmp_path, old)
    run(tmp_path, old.put(count=15))
    before, end = log_of(tmp_path, 2), catalogue(tmp_path).run(2).end
    other = Built().put(count=cut).put(count=30, body=b"other")
    about = run(tmp_path, other)
    at = other.places()[cut]
    assert about.branch is not None
    assert (about.begin, about.branch.differs_at, about.branch.parent_end) == (at, at, end)
    assert log_of(tmp_path, 3) == {0: whole_log(other)}
    assert log_of(tmp_path, 2) == before
    assert [each.run for each in catalogue(tmp_path).heads()] == [2, 3]
    assert run(tmp_path, other.put(count=3)).branch is None
    assert log_of(tmp_path, 4) == {0: whole_log(other)}


def test_a_log_that_was_only_cut_back_is_a_branch_too(tmp_path: Path) -> None:
    old = Built().put(count=30)
    run(tmp_path, old)
    short = Built().put(count=9)
    about = run(tmp_path, short)
    assert (about.end, about.bytes) == (len(whole_log(short)), 0)
    assert about.branch is not None
    assert log_of(tmp_path, 2) == {0: whole_log(short)}
    assert run(tmp_path, short.put(count=1, body=b"new")).branch is None
    assert log_of(tmp_path, 3) == {0: whole_log(short)}


def test_segments_that_expired_first_are_a_named_gap_and_others_stay(tmp_path: Path) -> None:
    built = Built().put(count=20)
    kept = run(tmp_path, built)
    built.put(count=60)
    store(tmp_path, built)
    names = sorted(os.listdir(tmp_path / "store/commitlog"))
    for name in names[:-2]:
        (tmp_path / "store/commitlog" / name).unlink()
    about = run(tmp_path)
    begin = int(names[-2])
    assert about.gap == (kept.end, begin)
    log = whole_log(built)
    assert log_of(tmp_path, 2) == {0: log[: kept.end], begin: log[begin:]}
    assert catalogue(tmp_path).gaps(catalogue(tmp_path).run(2)) == [(kept.end, begin)]
    (row, _) = backups(str(tmp_path / "repo"))
    assert (row.gaps, row.first, row.end) == ([(kept.end, begin)], 0, len(log))


def test_damage_with_records_after_it_is_kept_and_named(tmp_path: Path) -> None:
    built = Built().put(count=40)
    places = built.places()
    name = f"commitlog/{0:020d}"
    built.damage(name, places[5] + 4, b"\0\0\0\0").damage(name, places[6] + 4, b"\1")
    about = run(tmp_path, built)
    assert about.damaged == [(places[5], places[7])]
    assert not about.good
    there = built.contents()
    raw = b"".join(there[each] for each in sorted(there) if each.startswith("commitlog/"))
    assert log_of(tmp_path, 1) == {0: raw[: about.end]}
    assert about.records == 38
    assert run(tmp_path).damaged == []  # of what is new


def test_a_torn_end_is_not_backed_up_until_it_is_whole(tmp_path: Path) -> None:
    built = Built().put(count=10)
    places, name = built.places(), f"commitlog/{0:020d}"
    end = len(whole_log(built))
    torn = Built().put(count=10).damage(name, places[-1] + 40, bytes(end - places[-1] - 40))
    about = run(tmp_path, torn)
    assert (about.end, about.good) == (places[-1], True)
    assert run(tmp_path, built).begin == places[-1]
    assert log_of(tmp_path, 2) == {0: whole_log(built)}


def test_a_record_that_was_completed_later_makes_a_branch_of_one_record(tmp_path: Path) -> None:
    """No CRC tells whether a broker had written all of a record's properties."""
    built = Built().put(count=10, keys="k")
    run(tmp_path, Built().put(count=10, keys="k").damage(
        f"commitlog/{0:020d}", len(whole_log(built)) - 2, b"?"))  # fmt: skip
    about = run(tmp_path, built.put(count=5))
    assert about.begin == built.places()[9]
    assert log_of(tmp_path, 2) == {0: whole_log(built)}


def test_another_store_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Built().put(count=30))
    other = Built().put("Other", count=30, body=b"other")
    with pytest.raises(StoreError, match=r"is not the log of which .*; --store NAME begins"):
        run(tmp_path, other)
    assert run(tmp_path, name="second").run == 1
    assert sorted(os.listdir(tmp_path / "repo")) == ["reput-repository.json", "second", "store"]


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


def test_files_are_this_users_alone(tmp_path: Path) -> None:
    run(tmp_path, Built().put(count=3))
    modes = {stat.S_IMODE(os.lstat(each).st_mode) for each in (tmp_path / "repo").rglob("*")}
    assert modes == {0o600, 0o700}


def test_secrets_are_kept_or_left_out_and_never_listed(tmp_path: Path) -> None:
    built = Built().put(count=3).file("broker.conf", "brokerName=broker-a\naclFile=s3cret\n")
    built.file("config/users/CURRENT", "MANIFEST-1\n").file("config/users/000001.log", "s3cret")
    built.file("plain_acl.yml", "s3cret").file("config/users/LOG", "chatter")
    about = run(tmp_path, built)
    assert about.name == "broker-a"
    there = catalogue(tmp_path, "broker-a").run(1)
    own = ["broker.conf", "config/consumerOffset.json", "config/topics.json",
           "config/users/000001.log", "config/users/CURRENT", "plain_acl.yml"]  # fmt: skip
    assert [each.path for each in there.state] == own
    without = run(tmp_path, secrets=False)
    there = catalogue(tmp_path, "broker-a").run(2)
    assert [each.path for each in there.state] == own[1:3]
    assert (without.without, there.without) == (["secrets"], ("secrets",))
    shown = json.dumps([row._asdict() for row in backups(str(tmp_path / "repo"))])
    assert "s3cret" not in shown
    assert "aclFile" not in shown


def test_files_that_change_meanwhile_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(store(tmp_path, Built().put(count=3)))
    from reput.jobs.repository import state

    real, changes = state.Snapshot._read, iter(range(3))

    def read(self: Any, there: Any, put: Any) -> None:
        real(self, there, put)
        if there.path.endswith("Offset.json") and (n := next(changes, None)) is not None:
            (path / "config/consumerOffset.json").write_text(f'{{"offsetTable":{{"n":{n}}}}}')

    monkeypatch.setattr(state.Snapshot, "_read", read)
    about = run(tmp_path)
    assert about.warnings == []
    kept = content(tmp_path, catalogue(tmp_path).run(1), "config/consumerOffset.json")
    assert kept == b'{"offsetTable":{"n":2}}'


def test_a_dry_run_says_the_same_and_writes_nothing(tmp_path: Path) -> None:
    built = Built().put(count=30)
    would = run(tmp_path, built, dry_run=True)
    assert not (tmp_path / "repo").exists()
    about = run(tmp_path)
    assert (would.begin, would.end, would.records, would.new_files, would.new) == (
        about.begin, about.end, about.records, about.new_files, True,
    )  # fmt: skip
    assert not run(tmp_path, dry_run=True).new
    assert [row.run for row in backups(str(tmp_path / "repo"))] == [1]


def test_two_at_once_leave_a_repository_as_it_was(tmp_path: Path) -> None:
    from reput.jobs.repository.repository import Claim, Repository

    run(tmp_path, Built().put(count=3))
    there = Repository.at(str(tmp_path / "repo"))
    claim = Claim(there, "store", "forget")
    claim.take()
    with pytest.raises(Claimed, match=r"a forget \(process \d+ on .*\) writes"):
        run(tmp_path)
    claim.release()
    assert run(tmp_path).run == 2


def test_a_dead_process_claims_nothing(tmp_path: Path) -> None:
    run(tmp_path, Built().put(count=3))
    path = tmp_path / "repo/store/claim.json"
    import socket

    dead = {"what": "backup", "host": socket.gethostname(), "process": 1 << 30, "id": "x"}
    for about in (dead, {**dead, "host": "other"}):
        path.write_text(json.dumps(about))
        os.utime(path, (0, 0) if about is not dead else None)
        assert run(tmp_path).run is not None
    path.write_text("half of it")
    with pytest.raises(Claimed):
        run(tmp_path)


def test_a_run_whose_number_was_taken_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@pytest.mark.parametrize("name", ["", ".x", "a/b", "x" * 101, "ü", ".."])
def test_a_name_that_is_no_folders_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="--store NAME gives one"):
        run(tmp_path, Built().put(), name=name)
