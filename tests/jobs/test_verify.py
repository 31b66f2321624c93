"""Verify names the first difference in each file by its meaning. In this process, on real files."""

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reput.jobs.judging.report import Report
from reput.jobs.rebuild import TRUNCATE
from reput.jobs.verify import verify
from reput.store_format.faults import DamageFound
from tests import golden_stores
from tests.built import write, write_log
from tests.golden_stores import as_left
from tests.in_process import Session, as_text, run
from tests.logs.encoder import Message, build_log, properties
from tests.trees import flip

SEGMENT = 8192
SLOTS = 7
SETTINGS = {
    "mappedFileSizeCommitLog": str(SEGMENT), "mappedFileSizeConsumeQueue": "200",
    "mapperFileSizeBatchConsumeQueue": "460", "maxHashSlotNum": str(SLOTS), "maxIndexNum": "50",
}  # fmt: skip
TOPICS = '{"topicConfigTable": {"B": {"attributes": {"queue.type": "BatchCQ"}}}}'


class Rebuilt(NamedTuple):
    store: Path
    output: Path


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Rebuilt:
    root = tmp_path_factory.mktemp("verify")
    messages = [Message(topic="B" if n % 5 == 4 else "T",
                        queue_offset=n // 5 if n % 5 == 4 else n - n // 5,
                        store_timestamp=1_700_000_000_000 + n * 1000,
                        properties=properties(("KEYS", f"k{n}"), ("TAGS", "t")))
                for n in range(73)]  # fmt: skip
    store = write_log(root / "store", build_log(messages, SEGMENT))
    write(store, {"config/topics.json": TOPICS.encode()})
    run(str(root / "store"), str(root / "output"), rocketmq="5.3.3", settings=SETTINGS)
    return Rebuilt(root / "store", root / "output")


@pytest.fixture
def rebuilt(sound: Rebuilt, tmp_path: Path) -> Rebuilt:
    """The output copied, to be spoilt."""
    shutil.copytree(sound.output, tmp_path / "output")
    return Rebuilt(sound.store, tmp_path / "output")


def look(rebuilt: Rebuilt, **more: Any) -> Report:
    more = {"rocketmq": "5.3.3", "settings": SETTINGS, **more}
    return verify(
        Session(), str(rebuilt.store), against=str(rebuilt.output), **more  # type: ignore[arg-type]
    )  # fmt: skip


def test_what_was_rebuilt_is_the_same(sound: Rebuilt, tmp_path: Path) -> None:
    report = look(sound, staging_folder=str(tmp_path))
    assert report.same
    assert report.files == len([p for p in sound.output.rglob("*/*") if p.is_file()])
    assert not list(tmp_path.iterdir())  # what was derived for it is gone


QUEUE, BATCH = "consumequeue/T/0", "batchconsumequeue/B/0"
FIRST, SECOND = f"{0:020d}", f"{200:020d}"


def index_file(output: Path, number: int = 0) -> Path:
    return sorted((output / "index").iterdir())[number]


# Where a byte is changed: file, offset, and what the report calls that place.
PLACES = [(f"{QUEUE}/{FIRST}", 0, "entry 0 physicalOffset"),
          (f"{QUEUE}/{FIRST}", 3 * 20 + 11, "entry 3 size"),
          (f"{QUEUE}/{SECOND}", 9 * 20 + 19, "entry 9 tagsCode"),
          (f"{BATCH}/{FIRST}", 46 + 20, "entry 1 storeTimestamp"),
          (f"{BATCH}/{FIRST}", 46 + 28, "entry 1 baseOffset"),
          (f"{BATCH}/{FIRST}", 2 * 46 + 37, "entry 2 batchSize"),
          ("index", 0, "header beginTimestamp"), ("index", 39, "header indexCount"),
          ("index", 40 + 4 * 3, "slot 3"), ("index", 40 + 4 * SLOTS + 20, "entry 1 keyHash"),
          ("index", 40 + 4 * SLOTS + 49 * 20 + 12, "entry 49 timeDiff"),
          ("index", 40 + 4 * SLOTS + 20 + 19, "entry 1 previous")]  # fmt: skip


@pytest.mark.parametrize(("name", "offset", "what"), PLACES, ids=[what for *_, what in PLACES])
def test_a_changed_byte_is_named_by_its_field(rebuilt, name, offset, what) -> None:
    path = index_file(rebuilt.output) if name == "index" else rebuilt.output / name
    flip(path, offset)
    (difference,) = look(rebuilt).differences
    assert difference.path == str(path)
    assert difference.field.lower().startswith(what.lower())
    assert difference.offset <= offset < difference.offset + 8
    assert difference.there != difference.wanted
    assert str(difference.there) in difference.text()


def last(output: Path, folder: str) -> Path:
    return sorted((output / folder).iterdir())[-1]


def one_too_many(output: Path) -> None:
    """An entry behind the last that points into the log."""
    path = last(output, QUEUE)
    content = bytearray(path.read_bytes())
    free = next(at for at in range(0, len(content), 20) if not any(content[at : at + 20]))
    struct.pack_into(">qiq", content, free, 100, 91, 0)
    path.write_bytes(content)


def change_end(path: Path, cut: int = 1, to: bytes = b"\1") -> None:
    path.write_bytes(path.read_bytes()[:-cut] + to)


DEFECTS: dict[str, Callable[[Path], object]] = {
    "the file is missing": lambda output: (output / QUEUE / SECOND).unlink(),
    "file length: is 180, should be 200": (
    lambda output: change_end(output / QUEUE / SECOND, 20, b"")),
    "(one entry too many): is 100, should be 0": one_too_many, "the log gives no such file": (
    lambda output: write(output, {f"consumequeue/T/7/{FIRST}": b"\1" * 200})),
    "file is missing": lambda output: index_file(output, -1).unlink(),
    "reserved (after all that was written): is 1, should be 0": (
    lambda output: change_end(last(output, BATCH))),
    "previous (after all that was written): is 1, should be 0": (
    lambda output: change_end(last(output, "index")))}  # fmt: skip


@pytest.mark.parametrize("says", DEFECTS)
def test_a_defect_is_said(rebuilt: Rebuilt, says: str) -> None:
    DEFECTS[says](rebuilt.output)
    report = look(rebuilt)
    assert len(report.differences) == 1, report.text()
    assert says in report.text()
    assert not report.same


# What no entry uses: RocketMQ may leave anything there, and its stores have no manifest; on one
# that `convert` or `repair` made a broker goes on. Names of index files are times of its clock.
UNUSED: dict[str, Callable[[Path], object]] = {
    "a tail": lambda output: (change_end(last(output, BATCH)), (output / "manifest.json").unlink()),
    "a tail of a store": lambda output: (
    change_end(last(output, BATCH)),
    (output / "manifest.json").write_text((output / "manifest.json").read_text().replace(
    "reput-manifest-1", "reput-convert-1"))), "an empty next file": lambda output: write(
    output, {f"{QUEUE}/{int(last(output, QUEUE).name) + 200:020d}": bytes(200)}),
    "other index names": lambda output: [
    path.rename(path.with_name(f"2030010100000000{number}"))
    for number, path in enumerate(sorted((output / "index").iterdir()))]}  # fmt: skip


@pytest.mark.parametrize("name", UNUSED)
def test_what_does_not_count(rebuilt: Rebuilt, name: str) -> None:
    UNUSED[name](rebuilt.output)
    report = look(rebuilt)
    assert report.same, report.text()


def test_damage_in_the_log_is_refused_or_cut() -> None:
    store = golden_stores.unpack("middle_crc_5.3.3")
    given = Rebuilt(store.input, store.expect)
    settings = as_text(store.settings)
    with pytest.raises(DamageFound):
        look(given, settings=settings)
    assert look(given, settings=settings, on_damage=TRUNCATE).same


def test_damage_by_another_releases_rules_is_none(tmp_path: Path) -> None:
    """An index of zeros shows no release, so that others are tried; 4.x does not know all records
    of this log, and finds damage where there is none.
    """
    store = as_left("small_all_5.3.3", tmp_path)
    for path in (store / "index").iterdir():
        path.write_bytes(bytes(path.stat().st_size))
    report = verify(Session(), str(store))
    assert report.differences
    assert not report.same
