"""What is told of a store whose files expire, and the stores of which nothing may be deleted."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.broker.change.expire import FileToDelete
from reput.jobs.cli import main
from reput.jobs.expire import expire
from reput.jobs.in_place.expire import Even, Expired, Needed, When, expire_store, plan_expiry
from reput.jobs.opening.held import held_store
from reput.store_format.faults import StoreChanged, StoreError
from reput.store_format.notes import Progress
from reput.store_format.release.settings import SettingError
from tests.damaged import SEGMENT, damaged, messages
from tests.in_process import as_text

HOUR = 3_600_000
NOW = 1_800_000_000_000
LOG = damaged(messages(100))  # three segments


def to_delete(many: int, length: int = 10) -> list[FileToDelete]:
    return [FileToDelete(f"f{n}", length, "72 hours") for n in range(many)]


def about(**more: Any) -> Expired:
    return Expired("s", "5.3.3", more.pop("occasion", "it is 04h"), 4096, **more)


def test_an_archive_has_a_name() -> None:
    with pytest.raises(SettingError, match="--archive: expected a folder or URL"):
        expire("s", archive="")


@pytest.mark.parametrize(
    ("files", "done", "code"), [(0, False, 0), (1, False, 1), (1, True, 0), (0, True, 0)]
)
def test_the_exit_code_says_whether_there_was_something_to_delete(
    files: int, done: bool, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "commitlog").mkdir()
    told = about(files=to_delete(files), done=done)
    monkeypatch.setattr("reput.jobs.expire.expire", lambda _: told)
    assert main(["expire", str(tmp_path), "--dry-run"]) == code


def test_nothing_to_delete_has_a_reason() -> None:
    assert about(occasion="").text().splitlines() == [
        "nothing to delete in s",
        "  occasion  none: not the hour of deleteWhen, the disk has room",
        "  log       begins at 4,096",
    ]
    assert (about().needed, about().bytes) == (False, 0)


@pytest.mark.parametrize(
    ("segments", "files", "lines", "more"),
    [(1, 0, 1, None), (15, 5, 20, None), (20, 1, 21, "1 more file"), (1, 29, 21, "10 more files")],
)
def test_twenty_files_are_named_and_the_others_counted(
    segments: int, files: int, lines: int, more: str | None
) -> None:
    told = about(segments=to_delete(segments), files=to_delete(files, 1))
    shown = [line for line in told.text().splitlines() if line.startswith("  goes ")]
    assert len(shown) == lines
    assert shown[0] == "  goes      f0: 10 bytes; 72 hours"
    assert (f"  goes      ... and {more}" in shown) == (more is not None)
    assert told.text().startswith("would delete ")
    assert told.bytes == 10 * segments + files
    assert told.needed


def test_who_needs_a_segment_and_where_copies_are_is_told() -> None:
    told = about(kept=[Needed(7, "a"), Needed(9000, "b")], kept_segments=1, archive="there",
                 segments=to_delete(1), warnings=["w"])  # fmt: skip
    assert told.text().splitlines()[-4:] == [
        "  kept      1 expired segment, which somebody needs:",
        "            a, from 7 on", "            b, from 9,000 on", "  warning   w",
    ]  # fmt: skip
    told.done = True
    assert "  archived  in there, each copy read back and compared" in told.text().splitlines()
    assert told.text().startswith("deleted 1 segment and 0 queue or index files of s: 10 bytes")


def test_programs_get_fields_by_name() -> None:
    told = about(segments=to_delete(1), kept=[Needed(7, "a")]).as_json()
    assert json.loads(json.dumps(told)) == told
    assert told["segments"] == [{"path": "f0", "length": 10, "why": "72 hours"}]
    assert told["kept"] == [{"offset": 7, "who": "a"}]
    assert (told["bytes"], told["needed"]) == (10, True)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A log of which the first segment is 200 hours old, and the others are of now."""
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    for start, raw in LOG.segments.items():
        path = tmp_path / "store" / "commitlog" / f"{start:020d}"
        path.write_bytes(raw)
        os.utime(path, ns=((NOW - (200 * HOUR if not start else 0)) * 1_000_000,) * 2)
    return tmp_path / "store"


def expired(
    store: Path, dry_run: bool, even: Even, confirm: Callable[[str], None] = lambda _: None,
    **more: str,
) -> Expired:  # fmt: skip
    with held_store(str(store), dry_run) as held:
        planned = plan_expiry(held, held.at("5.3.3", as_text(LOG.settings) | more))
        when = When(True, NOW, lambda path: 0.1)
        return expire_store(held, planned, even, None, when, Progress(), confirm)


def test_a_dry_run_deletes_nothing_and_a_run_what_it_has_named(store: Path) -> None:
    even = Even(unread=True)
    names = sorted(path.name for path in (store / "commitlog").iterdir())
    planned = expired(store, True, even)
    assert ([each.path for each in planned.segments], planned.done, planned.log_start) == (
        [f"commitlog/{0:020d}"], False, SEGMENT,
    )  # fmt: skip
    assert sorted(path.name for path in (store / "commitlog").iterdir()) == names
    assert expired(store, False, even).done
    assert sorted(path.name for path in (store / "commitlog").iterdir()) == names[1:]
    assert not expired(store, False, even).needed
    assert not expired(store, False, even, fileReservedTime="1").needed


@pytest.mark.parametrize("locked", [False, True])
def test_what_somebody_needs_since_the_question_stays(store: Path, locked: bool) -> None:
    """Nobody holds a store without a lock file meanwhile; in one with it no broker can have run."""
    if locked:
        (store / "lock").touch()

    def read_again(_: str) -> None:
        offsets = store / "config" / "consumerOffset.json"
        offsets.parent.mkdir(exist_ok=True)
        offsets.write_text('{"offsetTable": {"T@g": {"0": 0, "1": 0}}}')

    if locked:
        assert expired(store, False, Even(), read_again).done
        return
    with pytest.raises(StoreChanged, match="nothing is deleted: run it again"):
        expired(store, False, Even(), read_again)
    assert len(list((store / "commitlog").iterdir())) == 3


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda store: (store / "abort").touch(), "use `reput recover` first"),
        (lambda store: (store / "index").symlink_to(store / "commitlog"), "link"),
    ],
)
def test_of_a_store_that_crashed_or_has_links_nothing_is_deleted(
    break_it: Any, why: str, store: Path
) -> None:
    break_it(store)
    with pytest.raises(StoreError, match=why):
        expired(store, False, Even(unread=True))
    assert len(list((store / "commitlog").iterdir())) == 3


def test_a_setting_that_no_broker_takes_is_refused(store: Path) -> None:
    with pytest.raises(SettingError):
        expired(store, True, Even(), fileReservedTime="soon")
