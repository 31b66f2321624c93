"""Wrong input is named, and nothing is left behind: not in the output, not beside it.

The jobs run in this process, on real files.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.outputs.report import Summary
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.rebuild import TRUNCATE
from reput.store_format.faults import DamageFound, StoreChanged, StoreError
from reput.store_format.files.local import LocalReader, LocalStorage
from reput.store_format.files.protocol import Listed
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


def segment(store: Path, number: int) -> Path:
    return store / "commitlog" / f"{number * SEGMENT:020d}"


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
        ({"body_crc": 5}, "bodyCRC does not match the body"),
        ({"size": -5}, r"\(totalSize -5\)"),
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


def test_a_rebuild_refuses_what_is_not_built(store: Path) -> None:
    setting = {"enableConsumeQueueExt": "true"}
    refused(store, SettingError, "^enableConsumeQueueExt=true: .*ConsumeQueueExt", setting)


def test_a_compacted_topic_is_warned_of(store: Path, tmp_path: Path) -> None:
    (store / "config").mkdir()
    table = {"T": {"attributes": {"cleanup.policy": "COMPACTION"}}}
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))
    summary = rebuild(store, tmp_path / "output")
    assert summary.warnings == [
        "topic 'T' is compacted: install, recover and repair bring compaction/ to the log; `reput "
        "query compacted:STORE/compaction/compactionLog/T/0` reads queue 0"]  # fmt: skip


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
