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
        Session(),  # type: ignore[arg-type]
        str(rebuilt.store),
        against=str(rebuilt.output),
        **more,
    )


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
def test_a_changed_byte_is_named_by_its_field(
    rebuilt: Rebuilt, name: str, offset: int, what: str
) -> None:
    path = index_file(rebuilt.output) if name == "index" else rebuilt.output / name
    flip(path, offset)
    (difference,) = look(rebuilt).differences
    assert difference.path == str(path)
    assert difference.field.lower().startswith(what.lower())
    assert difference.offset <= offset < difference.offset + 8
    assert difference.there != difference.wanted
    assert str(difference.there) in difference.text()


def removed(output: Path) -> None:
    (output / QUEUE / SECOND).unlink()


def cut_short(output: Path) -> None:
    path = output / QUEUE / SECOND
    path.write_bytes(path.read_bytes()[:-20])


def one_too_many(output: Path) -> None:
    """An entry behind the last that points into the log."""
    path = sorted((output / QUEUE).iterdir())[-1]
    content = bytearray(path.read_bytes())
    free = next(at for at in range(0, len(content), 20) if not any(content[at : at + 20]))
    struct.pack_into(">qiq", content, free, 100, 91, 0)
    path.write_bytes(content)


def another_queue(output: Path) -> None:
    (output / "consumequeue" / "T" / "7").mkdir()
    (output / "consumequeue" / "T" / "7" / FIRST).write_bytes(b"\1" * 200)


def behind_a_queue(output: Path) -> None:
    path = sorted((output / BATCH).iterdir())[-1]
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def behind_the_index(output: Path) -> None:
    path = index_file(output, -1)
    path.write_bytes(path.read_bytes()[:-1] + b"\1")


def no_index(output: Path) -> None:
    index_file(output, -1).unlink()


DEFECTS: list[tuple[Callable[[Path], None], str]] = [
    (removed, "the file is missing"),
    (cut_short, "file length: is 180, should be 200"),
    (one_too_many, "(one entry too many): is 100, should be 0"),
    (another_queue, "the log gives no such file"),
    (no_index, "the file is missing"),
    (behind_a_queue, "reserved (after all that was written): is 1, should be 0"),
    (behind_the_index, "previous (after all that was written): is 1, should be 0"),
]


@pytest.mark.parametrize(("spoil", "says"), DEFECTS, ids=[spoil.__name__ for spoil, _ in DEFECTS])
def test_a_defect_is_said(rebuilt: Rebuilt, spoil: Callable[[Path], None], says: str) -> None:
    spoil(rebuilt.output)
    report = look(rebuilt)
    assert len(report.differences) == 1, report.text()
    assert says in report.text()
    assert not report.same


def tail(output: Path) -> None:
    """What no entry uses: RocketMQ may leave anything there, and its stores have no manifest."""
    behind_a_queue(output)
    (output / "manifest.json").unlink()


def tail_of_a_store(output: Path) -> None:
    """On a store that `convert` or `repair` made a broker goes on."""
    behind_a_queue(output)
    manifest = output / "manifest.json"
    manifest.write_text(manifest.read_text().replace("reput-manifest-1", "reput-convert-1"))


def empty_next_file(output: Path) -> None:
    last = sorted((output / QUEUE).iterdir())[-1]
    (output / QUEUE / f"{int(last.name) + 200:020d}").write_bytes(bytes(200))


def other_index_names(output: Path) -> None:
    """RocketMQ's are times of its own clock."""
    for number, path in enumerate(sorted((output / "index").iterdir())):
        path.rename(path.with_name(f"2030010100000000{number}"))


@pytest.mark.parametrize("change", [tail, tail_of_a_store, empty_next_file, other_index_names])
def test_what_does_not_count(rebuilt: Rebuilt, change: Callable[[Path], None]) -> None:
    change(rebuilt.output)
    report = look(rebuilt)
    assert report.same, report.text()


@pytest.mark.parametrize("name", ["mixed_4.1.0", "odd_5.5.0", "lmq_batch_5.3.3"])
def test_rocketmqs_own_files_are_the_same(name: str) -> None:
    store = golden_stores.unpack(name)
    report = look(
        Rebuilt(store.input, store.expect), rocketmq=store.version, settings=as_text(store.settings)
    )
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
