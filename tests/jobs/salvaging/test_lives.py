"""What the whole log says of a damaged segment's pieces, whoever reads the segments."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from reput.jobs.compare import compare
from reput.jobs.export import export, verify_export
from reput.jobs.opening.questions import open_store
from reput.jobs.pipeline.link import SegmentWalk
from reput.jobs.salvaging.lives import _damaged_segments, _in_use, _is_broken, judged
from reput.jobs.sources.log_source import CommitLogSource
from reput.jobs.sources.options import OptionError
from reput.store_format.faults import SALVAGE, Fault, StoreError
from reput.store_format.files.local import LocalReader
from tests.damaged import SEGMENT as SMALL
from tests.damaged import damaged, messages
from tests.in_process import Session, as_text
from tests.jobs.sources.reading import places, table, write
from tests.logs.encoder import Message
from tests.seeds import some
from tests.store_format.damage.generator import queues_of, salvaged
from tests.store_format.damage.lives import SEGMENT, two_lives

_SEAMS = 2 * 7  # `two_lives` puts back so many pieces of an older life at most
_OF_QUEUES = (0, 0x8)  # transaction types whose records are in queues
# By the records around them alone 27 messages of the older life were taken too.
# Of the other one no segment has a fault.
QUICK = [(10, None), (1, 100)]


def only(store: str, folder: Path, given: dict[str, Any]) -> int:
    """How many messages of a store another one lacks, as `compare` counts them."""
    other = str(write(damaged([Message("Other")], SEGMENT).log, folder / "other"))
    found, _ = compare(Session(), store, [other], **given).pairs[0].found
    return found.count("only") + found.count("again")


def unlike(seed: int, crc: bool, folder: Path, body: int | None = None) -> list[str]:
    """Which of export, table and stats take other messages than a rebuild."""
    hurt = two_lives(seed, crc, body)
    store, out = str(write(hurt.log.log, folder / "store")), str(folder / "out")
    queues = queues_of(salvaged(hurt, derived=False).files).values()
    wanted = sorted({place for queue in queues for place in queue.values()})
    settings, release = as_text(hurt.log.settings), hurt.log.version
    rows = table(store, **settings, rocketmq=release, onDamage=SALVAGE)
    given = {"rocketmq": release, "settings": settings}
    asked = judged(Session(), store, **given)  # type: ignore[arg-type]
    by_tasks = table(store, **settings, rocketmq=release, onDamage=SALVAGE, judged=asked)
    export(Session(), store, out, on_damage=SALVAGE, **given)  # type: ignore[arg-type]
    with open_store(store, **given) as opened:  # type: ignore[arg-type]
        counted = sum(each.records for each in opened.stats(["topic"]))
    kinds = zip(rows["physicalOffset"].to_pylist(), rows["sysFlag"].to_pylist(), strict=True)
    found = {
        "table": [place for place, flags in kinds if flags & 0xC in _OF_QUEUES] == wanted,
        "judged": by_tasks.equals(rows),
        "export": pq.read_table(f"{out}/data")["physicalOffset"].equals(rows["physicalOffset"]),
        "verify": verify_export(Session(), store, out, **given).same,  # type: ignore[arg-type]
        "compare": only(store, folder, given) == len(rows),
        # a record that only its `__CRC32#` contradicts is counted: stats reads no checksums
        # nor what it has not read yet, where no record is broken
        "stats": body is not None or counted - len(rows) in range(_SEAMS + 1 if crc else 1),
    }
    return [name for name, same in found.items() if not same]


@pytest.mark.parametrize(("seed", "body"), QUICK)
def test_messages_of_an_older_life_are_in_no_answer(seed: int, body: int | None, tmp_path) -> None:
    assert unlike(seed, False, tmp_path, body) == []


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("crc", [False, True], ids=["bare", "crc"])
def test_all_answers_have_the_same_life(crc: bool, tmp_path: Path) -> None:
    for seed in some(range(4)):
        assert unlike(seed, crc, tmp_path / str(seed)) == [], seed


def test_what_tasks_have_judged_is_read_as_little_as_a_sound_log(tmp_path, monkeypatch) -> None:
    """Planning reads no segment but the last one, and a task its own segment once."""
    log, read = damaged(messages(150)), list[int]()
    assert len(log.segments) == 5
    log.flip(70, 1)  # totalSize, in the third segment
    store = write(log.log, tmp_path / "store")
    read_into = LocalReader.read_into

    def counted(self: LocalReader, *given: Any) -> None:
        read.append(int(self.path.rpartition("/")[2]) // SMALL)
        read_into(self, *given)

    options = {"path": str(store), "onDamage": SALVAGE, "judged": judged(Session(), str(store))}
    monkeypatch.setattr(LocalReader, "read_into", counted)
    source = CommitLogSource(options)
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert set(read) == {4}
    found = []
    for number, part in enumerate(parts):
        read.clear()
        found += [
            place for rows in reader.read(part) for place in rows["physicalOffset"].to_pylist()
        ]
        assert set(read) == {number}
    assert found == [place for place in log.places if place != log.places[70]]


def test_a_long_log_is_judged_by_tasks_or_not_at_all(tmp_path: Path) -> None:
    log = damaged(messages(100))
    store = write(log.log, tmp_path / "store")
    most, asked = {"onDamage": SALVAGE, "maxBytesToJudge": 9999}, judged(Session(), str(store))
    with pytest.raises(OptionError, match=r"option judged what reput\.judged\(spark, path\)"):
        places(store, **most)
    stream = CommitLogSource({"path": str(store), **{n: str(v) for n, v in most.items()}})
    with pytest.raises(OptionError, match="option judged"):
        stream.streamReader(stream.schema()).initialOffset()
    assert places(store, **most, judged=asked) == log.places
    with pytest.raises(OptionError, match="option judged='x': expected what reput"):
        places(store, **most, judged="x")
    other = write(damaged(messages(100, body=b"o" * 40)).log, tmp_path / "other")
    with pytest.raises(StoreError, match="not the log of option judged"):
        places(other, **most, judged=asked)


def job(limit: int | None = None, count: int = 3) -> Any:
    """A job on segments of 100 bytes, from whose limit on a broker writes."""
    segments = [SimpleNamespace(start=n * 100) for n in range(count)]
    plan = SimpleNamespace(segments=segments, splits=SimpleNamespace(limit=limit))
    return SimpleNamespace(plan=plan)


def walk(time: int | None, wrong_blank: int = -1) -> SegmentWalk:
    row = {"records": int(time is not None), "last_timestamp": time, "wrong_blank": wrong_blank}
    return SegmentWalk([row], 0, Fault.BLANK)


def test_segments_in_use_broken_ones_and_their_last_times() -> None:
    for limit, count in ((None, 3), (250, 3), (200, 2), (199, 2), (100, 1)):
        assert _in_use(job(limit), {}, {}) == count
    for place, broken in ((-1, False), (0, True), (92, True)):  # a blank of a wrong size
        assert _is_broken(walk(1, place)) == broken
    for times, last in [  # a time that its neighbours contradict is not the last
        ((5, 6, 7), [None, 5, 6]), ((5, 90, 7), [None, 5, 5]), ((5, None, 7), [None, 5, 5]),
        ((90, 6, 7), [None, 90, 6]), ((5, 4, 3), [None, 5, 4]), ((5, 90, 95), [None, 5, 90]),
    ]:  # fmt: skip
        walks = {number: walk(time) for number, time in enumerate(times)}
        found = _damaged_segments(job(), walks, 3)
        assert [each.last_timestamp for each in found] == last
        assert [each.is_last for each in found] == [False, False, True]
