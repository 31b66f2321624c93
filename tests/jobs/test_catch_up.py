"""A catch-up, whatever the steps, writes the bytes that a full rebuild and RocketMQ write."""

import json
import os
import random
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reput.broker.writer.queue_writer import QueueWriter
from reput.jobs.catch_up import Follow, catch_up, follow
from reput.jobs.cli import main
from reput.jobs.in_place.catch_up import CaughtUp
from reput.jobs.in_place.follow import one_round
from reput.jobs.in_place.follow_stream import follow_stream
from reput.jobs.install import install_set
from reput.jobs.opening.held import held_store
from reput.jobs.outputs.output import OutputInUse, OverlapsInput
from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import StoreInUse
from reput.store_format.log.rules import reaches_queue
from reput.store_format.notes import Progress
from tests import golden_stores
from tests.broker.writer.stores import stored_records
from tests.golden_stores import GoldenStore
from tests.in_process import as_text
from tests.logs import Message, build_log
from tests.memory_storage import MemoryStorage
from tests.rocketmq.judge import difference
from tests.trees import contents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = ("small_all_4.1.0", "small_lmq_batch_5.5.0", "small_odd_4.9.7", "small_expired_5.3.3")
STORES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.long)
          for name in golden_stores.names()
          if not name.startswith(("default_", "broker_", "middle_", "many_", "mixed_4", "odd_4"))
          and name not in ("mixed_5.4.0", "mixed_5.5.0", "odd_5.3.3")]  # fmt: skip


def record_ends(store: GoldenStore) -> list[int]:
    return [r.physical_offset + r.size for r in stored_records(store.input / "commitlog")]


def grown(store: GoldenStore, to: Path, end: int) -> None:
    """The store's log as it was when it ended at `end`."""
    (to / "commitlog").mkdir(parents=True, exist_ok=True)
    for path in sorted((store.input / "commitlog").iterdir()):
        start, data = int(path.name), path.read_bytes()
        kept = max(0, min(end - start, len(data)))
        if kept or start <= end:
            (to / "commitlog" / path.name).write_bytes(data[:kept].ljust(len(data), b"\0"))
    if (store.input / "config").is_dir():
        shutil.copytree(store.input / "config", to / "config", dirs_exist_ok=True)


def caught_up(store: GoldenStore, to: Path | str, **more: Any) -> CaughtUp:
    return catch_up(str(to), rocketmq=store.version, settings=as_text(store.settings), **more)


def queued(store: GoldenStore, end: int) -> list[Any]:
    """The log's records up to there that are in queues."""
    found = stored_records(store.input / "commitlog")
    return [r for r in found if reaches_queue(r.sys_flag) and r.physical_offset < end]


@pytest.mark.parametrize("name", STORES)
def test_a_golden_store_in_steps(name: str, tmp_path: Path) -> None:
    store = golden_stores.unpack(name)
    ends = record_ends(store)
    rng = random.Random(name)
    to = tmp_path / "store"
    for end in sorted(rng.sample(ends, min(4, len(ends)))):
        grown(store, to, end)
        about = caught_up(store, to)
        assert about.done
        again = caught_up(store, to)
        assert not again.needed
        assert about.lacking == again.lacking == []
    shutil.rmtree(to / "commitlog")
    shutil.copytree(store.input / "commitlog", to / "commitlog")
    assert caught_up(store, to).lacking == []
    assert difference(to, store.expect) is None


SMALL = "small_all_5.3.3"


def half(to: Path) -> tuple[GoldenStore, Path, list[int]]:
    """A store whose derived files hold half of its log."""
    store = golden_stores.unpack(SMALL)
    ends = record_ends(store)
    grown(store, to, ends[len(ends) // 2])
    caught_up(store, to)
    return store, to, ends


@pytest.mark.parametrize("how", ["gone", "empty", "random"])
def test_a_queue_that_has_lost_its_last_file_is_named(how: str, tmp_path: Path) -> None:
    """Else its next entries take the place of those that it has lost."""
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])
    folder = max((to / "consumequeue").glob("*/*"), key=lambda at: (len(list(at.iterdir())), at))
    last = max(folder.iterdir())
    if how == "gone":
        last.unlink()
    else:
        last.write_bytes(b"" if how == "empty" else bytes([255]) * last.stat().st_size)
    before = contents(to)
    with pytest.raises(StoreError, match=f"{folder.parent.name}/{folder.name}: ends before its"):
        caught_up(store, to)
    assert contents(to) == before


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize("how", ["folder gone", "zeroed", "file gone"])
@pytest.mark.parametrize("more", [True, False])
def test_a_queue_that_lacks_what_the_log_has_is_named(how, more, tmp_path, capsys) -> None:
    """Its older messages stay lost, as for a broker (but for the last of all): that is said."""
    store, to, ends = half(tmp_path / "store")
    if more:
        grown(store, to, ends[-1])
    old = queued(store, ends[len(ends) // 2])
    topic, queue_id = old[-1].topic, old[-1].queue_id
    mine = [r for r in old if (r.topic, r.queue_id) == (topic, queue_id)]
    folder = to / "consumequeue" / topic / str(queue_id)
    assert len(list(folder.iterdir())) == 1
    for path in folder.iterdir():
        zeroed(path) if how == "zeroed" else path.unlink()
    if how == "folder gone":
        folder.rmdir()
    words = ["--rocketmq", store.version, "--yes", str(to)]
    for name, value in store.settings.items():
        words += ["--set", f"{name}={value}"]
    code = main(["catch-up", "--dry-run", *words])
    said = capsys.readouterr().out
    assert main(["catch-up", *words]) == code == 1
    assert [line for line in capsys.readouterr().out.splitlines() if line[:8] == "  lacks "] == [
        f"  lacks     consumequeue/{topic}/{queue_id}: {len(mine) - 1:,} messages, the first at "
        f"physical offset {mine[0].physical_offset}, are in the log and not in the queue; "
        "`reput rebuild` has all (unless the topic was deleted: config/topics.json, which would "
        "show it, is missing)"
    ]
    assert "  lacks  " in said


def test_a_queue_without_files_and_without_new_messages_is_named(tmp_path: Path) -> None:
    """It is looked for in the end of what the queues hold; one of a deleted topic lacks nothing."""
    store, to, ends = half(tmp_path / "store")
    old = queued(store, ends[len(ends) // 2])
    first, mine = old[0], []
    mine = [r for r in old if (r.topic, r.queue_id) == (first.topic, first.queue_id)]
    assert mine[-1] is not old[-1]
    name = f"consumequeue/{first.topic}/{first.queue_id}"
    shutil.rmtree(to / name)
    about = caught_up(store, to)
    assert not about.needed
    assert about.lacking == [
        f"{name}: {len(mine):,} messages, the first at physical offset {first.physical_offset}, "
        "are in the log and not in the queue; `reput rebuild` has all"
    ]
    shutil.rmtree((to / name).parent)
    lacking = caught_up(store, to).lacking
    assert lacking  # the topic may have been deleted: a list of topics would tell
    assert all("(unless the topic was deleted: config/topics.json, wh" in each for each in lacking)
    topics = {"topicConfigTable": {"Another": {"topicName": "Another"}}}
    (to / "config").mkdir(exist_ok=True)
    (to / "config" / "topics.json").write_text(json.dumps(topics))
    assert caught_up(store, to).lacking == []


def test_a_topic_that_was_deleted_and_made_anew_lacks_nothing(tmp_path: Path) -> None:
    messages = [
        Message(topic=topic, queue_offset=offset, properties=b"")
        for topic, offset in
        [("T", 0), ("T", 1), ("O", 0), ("Q", 7), ("T", 0), ("T", 1), ("O", 1), ("P", 5), ("Q", 8)]
    ]  # fmt: skip
    (tmp_path / "commitlog").mkdir()
    settings = {"mappedFileSizeCommitLog": "8192", "mappedFileSizeConsumeQueue": "40",
                "maxHashSlotNum": "7", "maxIndexNum": "20"}  # fmt: skip
    for count in (3, len(messages)):
        for start, raw in build_log(messages[:count], 8192).items():
            (tmp_path / "commitlog" / f"{start:020d}").write_bytes(raw)
        about = catch_up(str(tmp_path), rocketmq="5.3.3", settings=settings)
        assert (about.done, about.lacking) == (True, [])
        shutil.rmtree(tmp_path / "consumequeue" / "T")


def test_a_killed_catch_up_goes_on_only_with_consent(tmp_path, monkeypatch) -> None:
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])

    def killed(_: QueueWriter) -> None:
        raise OSError("killed")

    with monkeypatch.context() as broken:
        broken.setattr(QueueWriter, "sync", killed)
        with pytest.raises(OSError, match="killed"):
            caught_up(store, to)
    assert (to / "abort").exists()
    before = contents(to)
    asked = []

    def no(what: str) -> None:
        asked.append(what)
        raise StoreError("no")

    for shared in (False, True):
        if shared:
            (tmp_path / "backup").hardlink_to(max((to / "consumequeue").glob("*/*/*")))
        with pytest.raises(StoreError, match="has a second name" if shared else "^no$"):
            caught_up(store, to, confirm=no)
        assert contents(to) == before
    assert [what.split(" that was killed")[0] for what in asked] == [
        f"go on with the catch-up of {to}"
    ]
    (tmp_path / "backup").unlink()
    assert caught_up(store, to).done
    assert difference(to, store.expect) is None


@pytest.mark.parametrize(("words", "says"), [
    ("--follow --every 0 --idle 0", "seconds, above"), ("--follow --idle -0.5", "seconds, above 0"),
    ("--follow --output set", "not with --follow"), ("--checkpoint c", "that of --follow"),
    ("--follow --dry-run", "not with --follow"), ("--output set", "is in use"),
    ("--output set", "was not stopped cleanly")])  # fmt: skip
def test_wrong_words_and_stores_that_are_not_at_rest(words, says, tmp_path, capsys) -> None:
    store, to, _ = half(tmp_path / "store")
    given = [word for name, value in as_text(store.settings).items()
             for word in ("--set", f"{name}={value}")]  # fmt: skip
    if "cleanly" in says:
        (to / "abort").touch()
    with held_store(str(to), False) if "in use" in says else nullcontext():
        assert main(["catch-up", str(to), "--rocketmq", store.version, *given, *words.split()]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["a link", "somebody's folder"])
def test_what_is_no_writers_folder_stays(kind: str, tmp_path: Path) -> None:
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])
    mine = tmp_path / "mine" if kind == "a link" else to / ".reput-index"
    mine.mkdir()
    (mine / "thesis.doc").write_text("years of work")
    if kind == "a link":
        (to / ".reput-index").symlink_to(mine)
    before = contents(to)
    named = ".reput-index" if kind == "a link" else ".reput-index/thesis.doc"
    with pytest.raises(StoreError, match=re.escape(f"{named}: ")):
        caught_up(store, to)
    assert contents(to) == before
    assert (mine / "thesis.doc").read_text() == "years of work"


def test_a_set_of_its_own_is_the_whole_one_and_can_be_installed(tmp_path: Path) -> None:
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])
    before = contents(to)
    about = caught_up(store, to, output=str(tmp_path / "set"))
    assert about.done
    assert contents(to) == before
    assert difference(tmp_path / "set", store.expect) is None
    with pytest.raises(OutputInUse):
        catch_up(str(to), output=str(tmp_path / "set"), rocketmq=store.version)
    with pytest.raises(OverlapsInput):
        catch_up(str(to), output=str(to / "consumequeue" / "set"), rocketmq=store.version)
    install_set(str(to), str(tmp_path / "set"))
    assert difference(to, store.expect) is None
    assert not caught_up(store, to).needed


def test_a_set_by_a_storage_of_another_kind(tmp_path: Path) -> None:
    """As by a URL: nothing but what a Storage can do is done to store and output."""
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])
    storage = MemoryStorage({f"store/{name}": content for name, content in contents(to).items()})
    before = dict(storage.files)
    caught_up(store, "store", output="set", storage=storage, output_storage=storage)
    assert {n: c for n, c in storage.files.items() if n.startswith("store/")} == before
    for name, content in storage.files.items():
        if name.startswith("set/"):
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    assert difference(tmp_path / "set", store.expect) is None


@pytest.mark.parametrize("in_place", [False, True])
def test_a_log_is_followed_as_it_is_copied_in(in_place: bool, tmp_path: Path) -> None:
    """Piece by piece, cut anywhere, also within a record and before a segment has its length."""
    store = golden_stores.unpack(SMALL)
    to = tmp_path / "store"
    (to / "commitlog").mkdir(parents=True)
    pieces = [(path.name, at, path.read_bytes()[at : at + 1500])
              for path in sorted((store.input / "commitlog").iterdir())
              for at in range(0, path.stat().st_size, 1500)]  # fmt: skip
    done, ends = 0, record_ends(store)
    settings = as_text(store.settings)
    with held_store(str(to), False) as held:
        there = held.at(store.version, settings)
        about, seen = one_round(held, there, Progress(), lambda _: None)
        assert about is None
        for name, at, piece in pieces:
            with (to / "commitlog" / name).open("r+b" if at else "wb") as file:
                if in_place and not at:
                    file.truncate(8192)
                os.pwrite(file.fileno(), piece, at)
            about, seen = one_round(held, there, Progress(), lambda _: None, seen)
            done += about is not None and about.done
            assert not (to / "abort").exists()
    assert done > len(pieces) // 3
    last = follow(str(to), rocketmq=store.version, settings=settings, every=0.01, idle=0)
    assert last is not None
    assert difference(to, store.expect) is None
    assert last.log_end == ends[-1]


@pytest.mark.long
def test_a_log_is_followed_by_a_streaming_query(spark: "SparkSession", tmp_path: Path) -> None:
    """Stopped in the middle and begun again with its checkpoint; a batch that is repeated adds
    nothing."""
    store = golden_stores.unpack(SMALL)
    to, ends = tmp_path / "store", record_ends(store)
    rounds = []
    for end in (ends[len(ends) // 3], ends[-1]):
        grown(store, to, end)
        with held_store(str(to), False) as held:
            follow_stream(spark, str(tmp_path / "checkpoint"),
                          Follow(str(to), every=0.1, idle=3.0, said=rounds.append), held,
                          held.at(store.version, as_text(store.settings)))  # fmt: skip
    assert difference(to, store.expect) is None
    assert len(rounds) >= 2
    assert sum(about.entries for about in rounds) < 2 * len(ends)
    assert (tmp_path / "checkpoint" / "offsets").is_dir()


def test_nothing_is_written_where_it_may_not(tmp_path: Path) -> None:
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])
    before = contents(to)
    dry = caught_up(store, to, dry_run=True)
    assert dry.needed
    assert not dry.done

    def no(what: str) -> None:
        raise StoreError(f"no: {what}")

    with pytest.raises(StoreError, match="no: write"):
        caught_up(store, to, confirm=no)
    with held_store(str(to), False) as held:
        held.lock_at_last()
        with pytest.raises(StoreInUse):
            caught_up(store, to)
    queue = next((to / "consumequeue").glob("*/*"))
    last = sorted(queue.iterdir())[-1]
    os.link(last, tmp_path / "backup")
    refused = pytest.raises(StoreError, match="has a second name elsewhere")
    if f"{queue.parent.name}/{queue.name}" in growing(store, to):
        with refused:
            caught_up(store, to)
    (tmp_path / "backup").unlink()
    (to / "abort").write_bytes(b"")
    with pytest.raises(StoreError, match="not stopped cleanly"):
        caught_up(store, to)
    (to / "abort").unlink()
    assert {n: c for n, c in contents(to).items() if n != "lock"} == {
        n: c for n, c in before.items() if n != "lock"
    }


def growing(store: GoldenStore, to: Path) -> set[str]:
    """The queues whose files the rest of the log changes, as TOPIC/QUEUE."""
    return {"/".join(path.parent.parts[-2:]) for path in (to / "consumequeue").glob("*/*/*")
            if (store.expect / path.relative_to(to)).read_bytes() != path.read_bytes()}  # fmt: skip


def test_a_linked_queue_is_not_written_through(tmp_path: Path) -> None:
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])
    name = sorted(growing(store, to))[0]
    folder = to / "consumequeue" / name
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    before = contents(elsewhere)
    with pytest.raises(StoreError, match="is a link"):
        caught_up(store, to)
    assert contents(elsewhere) == before
    assert not (to / "abort").exists()


def test_what_a_killed_run_prepared_is_no_second_name(tmp_path: Path) -> None:
    """Killed as it changed index/: its files have second names in the folder beside."""
    store, to, ends = half(tmp_path / "store")
    grown(store, to, ends[-1])
    (to / ".reput-index").mkdir()
    for path in (to / "index").iterdir():
        os.link(path, to / ".reput-index" / path.name)
    assert caught_up(store, to).done
    assert difference(to, store.expect) is None
    assert not (to / ".reput-index").exists()
