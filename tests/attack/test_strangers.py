"""What others leave in a store's folders is left out of everything, named, and never touched."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reput.jobs.catch_up import catch_up
from reput.jobs.check import check
from reput.jobs.expire import expire
from reput.jobs.export import export
from reput.jobs.install import install_set, undo_install
from reput.jobs.opening.questions import open_store
from reput.jobs.rebuild import rebuild
from reput.jobs.recover import recover
from reput.jobs.repair import repair
from reput.jobs.verify import verify
from reput.store_format.derived.index_reader import IndexReader
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.message.message import Message
from reput.store_format.names import segment_name
from reput.store_format.release.settings import settings_from
from tests.broker.writer.stores import open_writer
from tests.built import Built
from tests.in_process import Session, run
from tests.jobs.opening.writing import SETTINGS
from tests.logs.encoder import encode
from tests.memory_storage import MemoryStorage
from tests.seeds import seeds

_HARMLESS = ("commitlog/lost+found/", "consumequeue/T/0/lost+found/", "consumequeue/.DS_Store",
             "consumequeue/T/notes", "index/.DS_Store", "index/.nfs00000000deadbeef",
             "index/._20230101000000000")  # fmt: skip
_FOLDER_OF_INDEX = "index/lost+found/"  # beside it, folders cannot be exchanged
_IN_THE_WAY = ("commitlog/.nfs01", "consumequeue/T/1/x.bak")


def written(root: Path, count: int = 200) -> Path:
    with open_writer(root, **SETTINGS) as writer:
        for number in range(count):
            writer.append(Message("T", bytes(60), number % 3, keys=f"k{number}"))
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return written(tmp_path / "store")


def litter(store: Path, *names: str) -> Callable[[], list[str]]:
    """Leave something under these names, and a copy of an index file; what is missing of it."""
    first = sorted(path for path in (store / "index").iterdir() if path.name.isdigit())[0]
    shutil.copy(first, f"{first}.bak")
    content = {f"index/{first.name}.bak": first.read_bytes()}
    for name in names:
        path = store / name
        if name.endswith("/"):
            path.mkdir()
            path, name = path / "kept", f"{name}kept"
        path.write_bytes(content.setdefault(name, name.encode()))

    def gone() -> list[str]:
        there = {name: store / name for name in content}
        return [n for n, at in there.items() if not at.exists() or at.read_bytes() != content[n]]

    return gone


def _recover(store: Path) -> Any:
    return recover(Session(), str(store), rocketmq="5.3.3", settings=SETTINGS)  # type: ignore[arg-type]


def _judged(store: Path, command: Any, **more: Any) -> Any:
    return command(Session(), str(store), rocketmq="5.3.3", settings=SETTINGS, **more)


def test_a_recovery_leaves_them_out_and_where_they_are(store: Path) -> None:
    """`recover` replaced ten sound index files, or removed the copy without a word."""
    index = {p.name: p.read_bytes() for p in (store / "index").iterdir()}
    gone = litter(store, *_HARMLESS, _FOLDER_OF_INDEX)
    (store / "abort").write_bytes(b"1")
    about = _recover(store)
    assert (about.done, about.written, about.removed) == (True, [], [])
    assert gone() == []
    assert {name: (store / "index" / name).read_bytes() for name in index} == index
    said = " ".join(about.warnings)
    for name in ("commitlog/lost+found", "T/0/lost+found", "index/.DS_Store", ".nfs", ".bak"):
        assert name in said


def test_a_torn_last_segment_is_completed_beside_them(store: Path) -> None:
    last = sorted((store / "commitlog").iterdir())[-1]
    gone = litter(store, *_HARMLESS)
    os.truncate(last, 40_000)
    (store / "abort").write_bytes(b"1")
    assert _recover(store).done
    assert last.stat().st_size == int(SETTINGS["mappedFileSizeCommitLog"])
    assert gone() == []


@pytest.mark.parametrize("more", [(), (_FOLDER_OF_INDEX,)])
def test_a_writer_goes_on_beside_them(store: Path, more: tuple[str, ...]) -> None:
    gone = litter(store, *_HARMLESS, *more)
    written(store, 150)
    assert gone() == []
    report = _judged(store, check)
    assert report.sound, report.differences
    assert report.messages == 350
    files = IndexReader(Folder(LocalStorage(), str(store)), settings_from(SETTINGS)).files
    assert all(Path(path).name.isdigit() for path, _ in files)


def test_a_catch_up_goes_on_beside_them(store: Path) -> None:
    with open_writer(store, dispatches=False, **SETTINGS) as writer:
        for number in range(100):
            writer.append(Message("T", bytes(60), number % 3, keys=f"k{number}"))
    gone = litter(store, *_HARMLESS)
    assert catch_up(str(store), rocketmq="5.3.3", settings=SETTINGS).done
    assert gone() == []
    assert _judged(store, verify).same


def test_what_expires_goes_and_they_stay(store: Path) -> None:
    written(store, 1500)
    gone = litter(store, *_HARMLESS, _FOLDER_OF_INDEX)
    for path in (store / "commitlog").iterdir():
        os.utime(path, (1e9, 1e9))
    about = expire(str(store), rocketmq="5.3.3", settings=SETTINGS, any_hour=True)
    assert about.done
    assert len(about.segments) > 1
    assert len(about.files) > 1
    assert gone() == []
    assert _judged(store, check).sound


def test_an_installation_and_its_undoing_leave_them_where_they_are(store: Path, tmp_path) -> None:
    run(str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    gone = litter(store, *_HARMLESS, _FOLDER_OF_INDEX)
    about = install_set(str(store), str(tmp_path / "set"))
    assert (about.done, about.in_the_way, gone()) == (True, [], [])
    about = undo_install(str(store))
    assert (about.done, about.in_the_way, gone()) == (True, [], [])


def test_what_stops_a_broker_is_named_by_who_publishes_and_installs(store: Path, tmp_path) -> None:
    """`rebuild` exited 0 beside it, and `install` kept it without a word."""
    gone = litter(store, *_IN_THE_WAY, "index/1")
    done = run(str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    assert [line.split()[5].removeprefix(f"{store}/") for line in done.left_out] == [
        "commitlog/.nfs01", "index/1"]  # fmt: skip
    for change in (lambda: install_set(str(store), str(tmp_path / "set")),
                   lambda: undo_install(str(store))):  # fmt: skip
        todo = [line.split()[1].removeprefix(f"{store}/") for line in change().in_the_way]
        assert sorted(todo) == [*_IN_THE_WAY, "index/1"]
        assert gone() == []


def test_a_copy_of_a_queue_under_another_name_is_not_taken_for_one(store: Path) -> None:
    """`recover` removed it, as a file that the log does not give."""
    shutil.copytree(store / "consumequeue/T/0", store / "consumequeue/T/0.bak")
    (store / "abort").write_bytes(b"1")
    about = _recover(store)
    assert (about.done, about.written, about.removed) == (True, [], [])
    assert any("T/0.bak: is neither a file" in line for line in about.warnings)
    assert sorted((store / "consumequeue/T/0.bak").iterdir())
    assert _judged(store, check).sound


def test_readers_leave_them_out_and_name_them(store: Path, tmp_path: Path) -> None:
    gone = litter(store, *_HARMLESS, _FOLDER_OF_INDEX)
    report = _judged(store, check)
    assert (report.sound, report.messages) == (True, 200)
    assert any("lost+found: is neither a file" in each for each in report.warnings)
    assert any(".bak: is not a file of RocketMQ's" in each for each in report.warnings)
    assert _judged(store, verify).same
    run(str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    done = export(Session(), str(store), str(tmp_path / "e"), rocketmq="5.3.3", settings=SETTINGS)  # type: ignore[arg-type]
    assert done.messages == 200
    copy = _judged(store, repair, output=str(tmp_path / "copy"))
    assert copy.messages == 200
    with open_store(str(store), settings=SETTINGS) as opened:
        assert sum(row.messages for row in opened.queues()) == 200
        assert len(list(opened.query("T", "k7"))) == 1
    assert gone() == []


def test_what_stops_a_broker_is_a_finding_with_what_to_do(store: Path) -> None:
    litter(store, *_IN_THE_WAY)
    report = _judged(store, check)
    assert not report.sound
    assert [each.path.removeprefix(f"{store}/") for each in report.findings] == list(_IN_THE_WAY)
    assert report.findings[0].todo.startswith(f"move {store}/commitlog/.nfs01 out of the store")


def test_before_5_1_0_a_folder_among_them_stops_a_broker(store: Path) -> None:
    litter(store, "commitlog/lost+found/")
    report = check(Session(), str(store), rocketmq="4.9.7", settings=SETTINGS)  # type: ignore[arg-type]
    assert any("before 5.1.0 does not start" in each.reason for each in report.findings)


@pytest.mark.parametrize(
    ("release", "beside", "said"),
    [
        ("5.3.3", "", ""), ("5.3.3", ".lost", ""),  # what sorts before it is no matter
        ("5.3.3", "lost+found", "does not start with it, as lost+found sorts behind it"),
        ("5.5.0", "lost+found", "does not start with it, as lost+found sorts behind it"),
        ("4.9.7", "", "before 5.1.3 does not start with it"),
    ],
)  # fmt: skip
def test_an_empty_last_segment_is_named_where_no_broker_removes_it(
    store: Path, release: str, beside: str, said: str
) -> None:
    """As those releases did: MappedFileQueue.doLoad removes it only as the last of all names."""
    (store / "commitlog" / f"{1 << 16:020}").touch()
    if beside:
        (store / "commitlog" / beside).mkdir()
    report = check(Session(), str(store), rocketmq=release, settings=SETTINGS)  # type: ignore[arg-type]
    assert [said in each.reason for each in report.findings] == [True] * bool(said)
    assert [each.todo[:7] for each in report.findings] == ["remove "] * bool(said)


def linked(store: Path, disk: Path) -> tuple[Path, bytes]:
    """Move the second segment to another disk, and leave a link in its place."""
    written(store, 1000)
    second = sorted((store / "commitlog").iterdir())[1]
    disk.mkdir()
    second.rename(disk / "moved")
    second.symlink_to(disk / "moved")
    return second, (disk / "moved").read_bytes()


def test_a_segment_that_is_a_link_is_read_where_it_leads(store: Path, tmp_path: Path) -> None:
    """RocketMQ maps what it leads to; it was left out, and 321 messages with it."""
    link, _ = linked(store, tmp_path / "disk2")
    report = _judged(store, check)
    assert (report.sound, report.messages) == (True, 1200)
    assert any("1 of 4 segments are links" in line for line in report.notes)
    done = run(str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    assert (done.messages, done.left_out) == (1200, [])
    with open_store(str(store), settings=SETTINGS) as opened:
        assert sum(row.messages for row in opened.queues()) == 1200
        assert [row.messages for row in opened.stats(["topic"])] == [1200]
    assert _judged(store, repair, output=str(tmp_path / "copy")).messages == 1200
    link.unlink()
    link.symlink_to("nowhere")
    with pytest.raises(StoreError, match="nor a link to one"):
        run(str(store), str(tmp_path / "set2"), rocketmq="5.3.3", settings=SETTINGS)


def test_what_would_change_a_linked_segment_refuses(store: Path, tmp_path: Path) -> None:
    link, content = linked(store, tmp_path / "disk2")
    run(str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    last = link.with_name(f"{4 << 16:020}")
    last.symlink_to(tmp_path / "disk2" / "moved")

    def expired() -> None:
        expire(str(store), rocketmq="5.3.3", settings=SETTINGS, any_hour=True)

    for change in (expired, lambda: _recover(store), lambda: written(store, 1),
                   lambda: install_set(str(store), str(tmp_path / "set"))):  # fmt: skip
        with pytest.raises(StoreError, match="link"):
            change()
    assert link.is_symlink()
    assert (tmp_path / "disk2" / "moved").read_bytes() == content


def test_an_empty_file_behind_all_segments_is_one_that_a_broker_removes(store: Path) -> None:
    """#3257, as 5.3.3 did; before 5.1.3 no broker starts with it."""
    (store / "commitlog/the-bad-empty-file").touch()
    report = _judged(store, check)
    assert (report.sound, report.findings) == (True, [])
    assert any("a broker removes it" in line for line in report.warnings)
    report = check(Session(), str(store), rocketmq="4.9.7", settings=SETTINGS)  # type: ignore[arg-type]
    assert [each.todo[:7] for each in report.findings] == ["remove "]


def test_folders_with_names_of_files_are_passed_over(store: Path, tmp_path: Path) -> None:
    """As 5.3.3 passes them over: check said NOT sound of one, and failed of the other."""
    for name in (f"commitlog/{5 << 16:020}", f"consumequeue/T/0/{4000:020}"):
        (store / name).mkdir()
    report = _judged(store, check)
    assert (report.sound, report.findings, len(report.warnings)) == (True, [], 2)
    done = run(str(store), str(tmp_path / "set"), rocketmq="5.3.3", settings=SETTINGS)
    assert (done.messages, done.left_out) == (200, [])
    report = check(Session(), str(store), rocketmq="4.9.7", settings=SETTINGS)  # type: ignore[arg-type]
    assert len(report.findings) == 2


def test_a_number_of_another_length_is_a_file_to_a_broker(store: Path) -> None:
    """Long.parseLong reads 19 digits as well: 5.3.3 starts, with one segment more."""
    (store / "commitlog" / f"{5 << 16:019}").write_bytes(bytes(1 << 16))
    (finding,) = _judged(store, check).findings
    assert "takes it for a file of its own" in finding.reason


# --- Drawn stores, changed as disks and people change them: what a command leaves out, it says.
SEGMENT = 2048


def _log(start: int) -> str:
    return f"s/commitlog/{segment_name(start)}"


def _flip(storage: MemoryStorage, at: int, bit: int) -> None:
    path, raw = _log(at // SEGMENT * SEGMENT), bytearray()
    raw += storage.files.get(path, b"")
    if at % SEGMENT < len(raw):
        raw[at % SEGMENT] ^= 1 << bit
        storage.files[path] = bytes(raw)


def _change(storage: MemoryStorage, places: list[int], rng: Random) -> str:
    """Change a store in one of nine ways; the name of the way."""
    starts = sorted(int(path[-20:]) for path in storage.files if path.startswith("s/commitlog/"))
    start, other = rng.choice(starts), rng.choice(starts)
    kind = rng.choice(["flip", "sysFlag", "zeros", "cut", "short", "gone", "renamed", "moved",
                       "swapped"])  # fmt: skip
    raw, at = storage.files[_log(start)], rng.choice(places)
    if kind == "flip":
        _flip(storage, at + rng.randrange(90), rng.randrange(8))
    elif kind == "sysFlag":
        _flip(storage, at + 39, 2)  # MessageSysFlag.TRANSACTION_PREPARED_TYPE
    elif kind == "zeros":
        storage.files[_log(start)] = raw[: rng.randrange(len(raw))].ljust(len(raw), b"\0")
    elif kind in ("cut", "short"):
        less = rng.randrange(1, len(raw)) if kind == "cut" else rng.randrange(1, 8)
        storage.files[_log(start)] = raw[:-less]
    elif kind == "gone" and len(starts) > 1:
        del storage.files[_log(start)]
    elif kind in ("renamed", "moved"):
        to = start + (rng.randrange(1, SEGMENT) if kind == "renamed" else 9 * SEGMENT)
        storage.files[_log(to)] = storage.files.pop(_log(start))
    elif kind == "swapped":
        storage.files[_log(start)], storage.files[_log(other)] = storage.files[_log(other)], raw
    return kind


def _in_queues(storage: MemoryStorage, folder: str, built: Built) -> set[int]:
    """The places of the messages that a set's queues have at their queueOffsets."""
    found = set()
    for place, message in zip(built.places(), built.messages, strict=True):
        at = message.queue_offset * 20
        path = f"{folder}/consumequeue/{message.topic}/{message.queue_id}/{at // 200 * 200:020}"
        entry = storage.files.get(path, b"")[at % 200 :][:12]
        if entry == struct.pack(">qi", place, len(encode(message, place))):
            found.add(place)
    return found


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("seed", seeds(range(120)))
def test_what_a_changed_store_loses_is_said(seed: int) -> None:
    rng = Random(seed)
    built = Built(version=rng.choice(["4.9.7", "5.3.3", "5.5.1"]))
    for _ in range(rng.choice([9, 30, 90])):
        built.put(rng.choice("AB"), rng.randrange(2), keys="k", body=rng.randbytes(rng.choice([
            0, 5, 60, 200])))  # fmt: skip
    storage, places = built.derive().storage(), built.places()
    kinds = [_change(storage, places, rng) for _ in range(rng.choice([1, 1, 2]))]
    log = {path: raw for path, raw in storage.files.items() if path.startswith("s/commitlog/")}
    whole, readable = set(), set()  # those in their place, and those in some file
    for place, message in zip(places, built.messages, strict=True):
        raw, there = encode(message, place), log.get(_log(place // SEGMENT * SEGMENT), b"")
        whole |= {place} if there[place % SEGMENT :].startswith(raw) else set()
        readable |= {place} if any(raw in each for each in log.values()) else set()
    given: dict[str, Any] = {
        "rocketmq": built.version, "settings": built.given(), "storage": storage}  # fmt: skip
    report = check(Session(seed), "s", **given)
    if report.sound and report.log_start == 0:  # else its first segments may have expired
        assert set(places) == whole or not set(kinds) - {"flip", "short"}, kinds
    copied = repair(Session(seed), "s", "copy", **given)
    said = copied.not_filled or copied.left_out or copied.damage["past_end"]
    if not (said or copied.damage["left_out"]):
        assert readable <= _in_queues(storage, "copy", built), kinds
    try:
        told = rebuild(Session(seed), "s", "set", **given)
    except StoreError:
        return
    if not (told.left_out or told.in_no_queue or report.damage["range_count"]):
        assert readable <= _in_queues(storage, "set", built), kinds
