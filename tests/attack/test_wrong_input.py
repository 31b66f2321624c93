"""Wrong input is named, and nothing is left behind: not in the output, not beside it.

The jobs run in this process, on real files.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.outputs.output import OutputInUse
from reput.jobs.outputs.report import Summary
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import TRUNCATE
from reput.store_format.faults import DamageFound, StoreChanged, StoreError
from reput.store_format.files.local import LocalReader, LocalStorage
from reput.store_format.files.protocol import Listed
from reput.store_format.release.profiles import UnknownRelease
from reput.store_format.release.settings import SettingError
from tests.built import write_log
from tests.in_process import run
from tests.logs.encoder import Message, build_log, encode, properties
from tests.logs.small import SEGMENT, SETTINGS, messages
from tests.trees import states


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A sound store of three segments."""
    made = write_log(tmp_path / "store", build_log(messages(), SEGMENT))
    assert len(list((made / "commitlog").iterdir())) == 3
    return made


def rebuild(store: Path, output: Path, settings: dict[str, str] | None = None,
            **more: Any) -> Summary:  # fmt: skip
    more.setdefault("rocketmq", "5.3.3")
    return run(str(store), str(output), settings={**SETTINGS, **(settings or {})}, **more)


def refused(store: Path, kind: type[Exception], match: str, settings: dict[str, str] | None = None,
            **more: Any) -> str:  # fmt: skip
    """Refused with this error, and the whole of store and output's surroundings as before."""
    around = store.parent / "around"
    around.mkdir(exist_ok=True)
    before = states(store.parent)
    with pytest.raises(kind, match=match) as error:
        rebuild(store, around / "output", settings, **more)
    after = states(store.parent)
    assert after.keys() == before.keys()
    del before[str(around)], after[str(around)]  # a staging folder came and went in it
    assert after == before
    return str(error.value)


def test_the_store_of_these_tests_is_sound(store: Path, tmp_path: Path) -> None:
    before = states(store)
    assert rebuild(store, tmp_path / "output").messages == 90
    assert states(store) == before


def segment(store: Path, number: int) -> Path:
    return store / "commitlog" / f"{number * SEGMENT:020d}"


def remove(store: Path) -> Path:
    """The log's folder, without a file."""
    for path in (store / "commitlog").iterdir():
        path.unlink()
    return store / "commitlog"


def gone(store: Path) -> Path:
    """Where the log's second segment was."""
    segment(store, 1).unlink()
    return segment(store, 1)


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no folder": (lambda s: remove(s).rmdir(), r"commitlog: no such folder"),
    "a file for a folder": (lambda s: (remove(s).rmdir(), (s / "commitlog").write_bytes(b"")),
                            r"commitlog: is not a folder"),
    "no file": (remove, r"commitlog: no segments"),
    "only an empty one": (lambda s: (remove(s), segment(s, 0).write_bytes(b"")),
                          r"commitlog: no segments"),
    "short": (lambda s: os.truncate(segment(s, 1), SEGMENT - 1),
              r"00004096: has 4095 bytes, but mappedFileSizeCommitLog is 4096"),
    "short_last": (lambda s: os.truncate(segment(s, 2), 100),
                         r"00008192: has 100 bytes, but mappedFileSizeCommitLog is 4096"),
    "empty in the middle": (lambda s: os.truncate(segment(s, 1), 0), r"00004096: has 0 bytes"),
    "hole": (gone, r"00008192: a hole before it; .*/0+ ends at 4096, so 1 segment"),
    "misnamed": (lambda s: segment(s, 2).rename(s / f"commitlog/{2 * SEGMENT + 1:020d}"),
                 r"00008193: its name is no multiple of mappedFileSizeCommitLog 4096"),
    "fifo": (lambda s: os.mkfifo(gone(s)), r"00004096: is not a regular file"),
    "folder_for_segment": (lambda s: gone(s).mkdir(),
                 r"00008192: a hole before it; .*/0+ ends at 4096, so 1 segment"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_commitlog_is_named(store: Path, wrong: str) -> None:
    spoil, match = WRONG[wrong]
    spoil(store)
    refused(store, StoreError, match)


@pytest.mark.parametrize("name", ["notes.txt", "\u0663" * 20, "0000000000000012288"])
def test_what_is_no_segment_is_named_and_left_out(store: Path, name: str) -> None:
    (store / "commitlog" / name).write_bytes(bytes(SEGMENT))
    summary = rebuild(store, store.parent / "set")
    said = f"{store}/commitlog/{name}: is not a file of RocketMQ's, which "
    takes = "does not start with it", "takes it for a file of its own"
    assert [each for each in summary.warnings if each.startswith(tuple(said + t for t in takes))]


def test_no_such_store(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    refused(tmp_path / "a" / "store", StoreError, r"a/store/commitlog: no such folder")


def test_a_segment_in_two_folders(store: Path) -> None:
    """The broker's multi-path setting; each segment may be in one of them only."""
    second = store / "second"
    second.mkdir()
    segment(store, 1).rename(second / segment(store, 1).name)
    paths = {"storePathCommitLog": f"{store}/commitlog,{second}"}
    assert rebuild(store, store.parent / "output", paths).messages == 90
    (second / segment(store, 2).name).write_bytes(segment(store, 2).read_bytes())
    refused(store, StoreError, r"00008192: is there twice, also as .*00008192", paths)


def test_sizes_that_contradict_the_files_or_each_other(store: Path) -> None:
    refused(store, SettingError, "3 segments have 4096 bytes, and mappedFileSizeCommitLog is 8192",
            {"mappedFileSizeCommitLog": "8192"})  # fmt: skip
    os.truncate(segment(store, 0), 4095)
    refused(store, StoreError, "has 4095 bytes, but mappedFileSizeCommitLog is 4096", {})


def in_place(store: Path, number: int, **wrong: Any) -> int:
    """Write message `number` again with a wrong field; returns its place."""
    sound = messages()
    at = sum(len(encode(message, 0)) for message in sound[:number])
    assert at < SEGMENT
    spoilt = encode(messages(number + 1, **wrong)[-1], at)
    content = bytearray(segment(store, 0).read_bytes())
    assert len(spoilt) == len(encode(sound[number], at))
    content[at : at + len(spoilt)] = spoilt
    segment(store, 0).write_bytes(content)
    return at


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"physical_offset": 7}, "physicalOffset is not the place where the record stands"),
        ({"magic": 0xDAA320A8}, "magic not a record's magic number"),
        ({"body_crc": 5}, "bodyCRC does not match the body"),
        ({"size": 90}, r"totalSize smaller than .*\(totalSize 90\)"),
        ({"size": -5}, r"\(totalSize -5\)"),
        ({"size": 0x20000079}, r"totalSize reaches past .*\(totalSize 536871033\)"),
        ({"body_length": 1 << 30}, "bodyLength reaches past"),
        ({"topic_length": -1}, "topicLength negative"),
        ({"properties_length": 3}, "propertiesLength the lengths of the parts do not add up"),
    ],
)
def test_damage_in_the_live_log_is_refused_or_cut(store, wrong: dict[str, int], match: str) -> None:
    at = in_place(store, 10, **wrong)
    said = refused(store, DamageFound, match)
    after = at + len(encode(messages()[10], at))
    assert said.startswith(f"{segment(store, 0)}: offset {at} (physical {at}): ")
    assert f"live records follow, the first at offset {after}" in said
    summary = rebuild(store, store.parent / "output", on_damage=TRUNCATE)
    assert (summary.messages, summary.log_end) == (10, at)
    assert f"physical {at}" in summary.warnings[0]


@pytest.mark.parametrize("first", [-1, 1 << 62, -(1 << 63)])
def test_a_queue_that_no_file_name_can_start(tmp_path: Path, first: int) -> None:
    log = build_log([Message(queue_offset=first, queue_id=3)], SEGMENT)
    said = f"topic 'T', queue 3: the record at physical offset 0: queueOffset {first} is out"
    refused(write_log(tmp_path / "store", log), DamageFound, said)


UNSAFE = {
    "..": "is not a folder's name", ".": "is not a folder's name", "/x": "holds a path separator",
    "../../../../evil": "holds a path separator", "a\\b": "holds a path separator",
    "a\0b": "holds a NUL", "x" * 300: "is longer than 255 bytes"}  # fmt: skip


@pytest.mark.parametrize("topic", UNSAFE, ids=[topic[:20] for topic in UNSAFE])
def test_an_unsafe_topic_is_left_out_and_said(tmp_path: Path, topic: str) -> None:
    log = [Message(), Message(topic=topic, version=2), Message(queue_offset=1)]
    store = write_log(tmp_path / "a" / "b" / "store", build_log(log, SEGMENT))
    summary = rebuild(store, store.parent / "output")
    assert (summary.messages, summary.queues) == (3, 1)
    assert len(summary.left_out) == 1
    assert UNSAFE[topic] in summary.left_out[0]
    below = {path.relative_to(store.parent).parts for path in store.parent.rglob("*")}
    assert {parts[1:3] for parts in below if parts[:2] == ("output", "consumequeue")} == {
        ("consumequeue",), ("consumequeue", "T")}  # fmt: skip
    assert {path.name for path in tmp_path.rglob("*") if store.parent not in path.parents} == {
        "a", "b"}  # fmt: skip


def test_an_unsafe_name_of_a_further_queue_is_left_out(tmp_path: Path) -> None:
    """INNER_MULTI_DISPATCH with a path in it, which 5.0.0 would have followed."""
    text = properties(("INNER_MULTI_DISPATCH", "../../evil,%LMQ%ok"), ("INNER_MULTI_QUEUE_OFFSET",
                                                                       "0,0"))  # fmt: skip
    store = write_log(tmp_path / "store", build_log([Message(properties=text)], SEGMENT))
    on = {"enableMultiDispatch": "true", "enableLmq": "true"}
    summary = rebuild(store, tmp_path / "output", on, rocketmq="5.0.0")
    assert "evil" in summary.left_out[0]
    there = {path.name for path in (tmp_path / "output" / "consumequeue").iterdir()}
    assert there == {"T", "%LMQ%ok"}
    assert not list(tmp_path.rglob("*evil*"))


def test_an_output_in_use(store: Path, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    (output / "mine").write_text("x")
    before = states(tmp_path)
    with pytest.raises(OutputInUse, match=r"output: is not empty; give another folder"):
        rebuild(store, output)
    with pytest.raises(StoreError, match=r"output: is not empty, and has no manifest\.json"):
        rebuild(store, output, replace=True)
    assert states(tmp_path) == before
    (output / "mine").unlink()
    rebuild(store, output)
    with pytest.raises(OutputInUse, match=r"output: is not empty; --replace"):
        rebuild(store, output)
    (output / "index" / "thesis.doc").write_text("x")
    before = states(tmp_path)
    for replace in (False, True):
        with pytest.raises(StoreError, match=r"index/thesis\.doc: is not in its manifest"):
            rebuild(store, output, replace=replace)
    assert states(tmp_path) == before
    (output / "index" / "thesis.doc").unlink()
    assert rebuild(store, output, replace=True).messages == 90


def test_an_output_that_is_a_file_stays_and_folders_made_for_one_go_again(store, tmp_path) -> None:
    (tmp_path / "output").write_text("x")
    with pytest.raises(StoreError, match="output: is there and is not a folder"):
        rebuild(store, tmp_path / "output")
    assert (tmp_path / "output").read_text() == "x"
    (tmp_path := tmp_path / "1").mkdir()
    in_place(store, 10, body_crc=5)
    before = states(tmp_path)
    with pytest.raises(DamageFound):
        rebuild(store, tmp_path / "new" / "deeper" / "output")
    assert states(tmp_path).keys() == before.keys()


UNSUPPORTED = {"enableRocksDBStore": ("true", "queues in RocksDB"),
               "storePathDLedgerCommitLog": ("/elsewhere", "a DLedger log in another folder"),
               "enableConsumeQueueExt": ("true", "ConsumeQueueExt")}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_is_not_built_is_refused_by_name(store: Path, name: str) -> None:
    value, what = UNSUPPORTED[name]
    said = refused(store, SettingError, what, {name: value})
    assert said.startswith(f"{name}={value}: ")


def test_wrong_settings_and_releases(store: Path) -> None:
    refused(store, SettingError, "'maxIndexNumm' is not .*; did you mean maxIndexNum?", {
        "maxIndexNumm": "5"})  # fmt: skip
    with pytest.raises(SettingError, match="maxHashSlotNum='x': expected a whole number"):
        rebuild(store, store.parent / "output", {"maxHashSlotNum": "x"})
    with pytest.raises(UnknownRelease, match=r"'5\.3\.9' is not a release"):
        rebuild(store, store.parent / "output", rocketmq="5.3.9")
    assert not (store.parent / "output").exists()


def test_a_compacted_topic_is_warned_of(store: Path, tmp_path: Path) -> None:
    (store / "config").mkdir()
    table = {"T": {"attributes": {"cleanup.policy": "COMPACTION"}}}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    summary = rebuild(store, tmp_path / "output")
    assert summary.warnings == [
        "topic 'T' is compacted: install, recover and repair bring compaction/ to the log; `reput "
        "query compacted:STORE/compaction/compactionLog/T/0` reads queue 0"]  # fmt: skip


def test_what_rocksdb_holds_is_said(store: Path, tmp_path: Path) -> None:
    rocksdb = store / "rocksdbstore"
    rocksdb.mkdir()
    for name in ("CURRENT", "000004.log"):
        (rocksdb / name).write_bytes(b"")

    def warnings(output: Path) -> list[str]:
        said = rebuild(store, output).warnings
        release = "--rocketmq 5.3.3: the store's files are of 5.4.0 to "  # it contradicts 5.3.3
        others = [each for each in said if not each.startswith(release)]
        assert len(others) == len(said) - 1
        return others

    assert warnings(tmp_path / "quiet") == []  # as a broker's start leaves it
    (rocksdb / "000013.sst").write_bytes(b"x")
    assert warnings(tmp_path / "output") == [  # it cannot be read
        f"{rocksdb}: {what}, if there are any: neither derived nor compared"
        for what in (
            "timers in RocksDB (timerRocksDBEnable)",
            "half messages in RocksDB (transRocksDBEnable)",
        )
    ]


def test_a_broken_topics_file_is_said_and_its_backup_read(tmp_path: Path) -> None:
    store = write_log(tmp_path / "store", build_log([Message(topic="B")], SEGMENT))
    (store / "config").mkdir()
    table = {"B": {"attributes": {"queue.type": "BatchCQ"}}}
    (store / "config" / "topics.json").write_text('{"topicConfigTable": {')
    (store / "config" / "topics.json.bak").write_text(json.dumps({"topicConfigTable": table}))
    summary = rebuild(store, tmp_path / "output")
    assert "topics.json: is not JSON; a broker reads topics.json.bak" in summary.warnings[0]
    assert (tmp_path / "output" / "batchconsumequeue" / "B").is_dir()


class Meddling(LocalStorage):
    """Changes a segment at the look given: when it is opened, or its folder listed again."""

    def __init__(self, path: Path, at_look: int, change: Callable[[Path], None]) -> None:
        super().__init__()
        # before come one for what the store tells, and the plan's two
        self.path, self.left, self.change = path, at_look + 3, change

    def open(self, path: str, state: Any = None) -> LocalReader:
        if path == str(self.path):
            self._look()
        return super().open(path, state)

    def list(self, folder: str) -> list[Listed]:
        if folder == str(self.path.parent):
            self._look()
        return super().list(folder)

    def _look(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.change(self.path)


CHANGES: dict[str, Callable[[Path], object]] = {
    "touched": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"x"),
    "shortened": lambda path: os.truncate(path, 100),
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "replaced": lambda path: (content := path.read_bytes(), path.unlink(),
                              path.write_bytes(content)),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("at_look", [1, 2, 5])
def test_a_log_that_changes_during_the_job(store, change, at_look: int) -> None:
    """Before its first split is scanned, between two, and after all were (the last look)."""
    around = store.parent / "around"
    around.mkdir()
    storage = Meddling(segment(store, 0), at_look, CHANGES[change])
    with pytest.raises(StoreChanged, match=r"/00000000000000000000: "):
        rebuild(store, around / "output", storage=storage, cut=Cut(split_bytes=1024))
    assert storage.left <= 0
    assert not list(around.iterdir())


def test_what_is_published_is_the_users_alone(tmp_path: Path) -> None:
    storage = LocalStorage()
    storage.make_folders(str(tmp_path / "a" / "b" / "c"))
    storage.create(str(tmp_path / "a" / "b" / "c" / "file")).finish(10)
    modes = [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b", "a/b/c")]
    assert modes == [0o700] * 3
    assert (tmp_path / "a" / "b" / "c" / "file").stat().st_mode & 0o777 == 0o600
