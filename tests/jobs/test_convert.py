"""Convert: the records of a log at new places, compared with a slow writer of the test's own."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reput.jobs.convert import convert
from reput.jobs.converting.report import ConvertSummary
from reput.jobs.outputs.output import OutputInUse
from reput.jobs.pipeline.pipeline import Cut
from reput.jobs.verify import verify
from reput.store_format.discover.committed import committed
from reput.store_format.faults import DamageFound, StoreError
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.layouts import DLEDGER_AT
from reput.store_format.log.groups import heads_from
from reput.store_format.log.reader import LogReader
from reput.store_format.log.record import Record
from reput.store_format.log.rules import record_rules
from reput.store_format.log.segments import Segment, find_segments
from reput.store_format.release.profiles import profile
from tests import golden_stores
from tests.converted import converted, derived_of, log_of, plain, records, written
from tests.in_process import STORE, Session, as_text, rebuild_log, storage_of
from tests.logs import Log, logs
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage
from tests.store_format.log.dledger_stores import NAMES, change, heads, segments_of, unpack


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(logs(damage=False), st.sampled_from([2048, 3000, 5000, 100_000]), st.integers(0, 99),
       st.sampled_from([1, 3, 40]))  # fmt: skip
def test_drawn_logs_in_segments_of_any_size(log: Log, size: int, seed: int, splits: int) -> None:
    whole = records(log.segments)
    try:
        assume(rebuild_log(log, on_damage="refuse").summary.messages == len(whole))
    except StoreError:
        assume(False)
    to = {"mappedFileSizeCommitLog": str(size)}
    if any(len(record) + 8 > size for _, record in whole):
        with pytest.raises(StoreError, match="does not fit into a segment"):
            converted(log, to_settings=to)
        return
    summary, storage = converted(log, seed=seed, splits=splits, to_settings=to)
    start = -(-min(log.segments) // size) * size
    assert log_of(storage) == written(whole, start, size)
    assert summary.messages == len(whole)
    assert (summary.log_start, summary.old_starts) == (start, [min(log.segments)])
    new = Log(log_of(storage), {**log.settings, "mappedFileSizeCommitLog": size}, *log[2:])
    built = rebuild_log(new).files
    files = [n for n in built if "/" in n and not n.startswith(("config/", "timerlog/"))]
    derived = {n: c for n, c in derived_of(storage).items() if not n.startswith("timerlog/")}
    assert derived == {n: built[n] for n in files} | {"checkpoint": derived["checkpoint"]}


def test_what_points_to_a_half_message_points_to_its_new_place() -> None:
    half = Message("RMQ_SYS_TRANS_HALF_TOPIC", properties=properties(("REAL_TOPIC", "T")))
    filler = [Message("T", queue_id=1, queue_offset=n, body=b"x" * 400) for n in range(5)]
    log = plain([*filler, half])
    place = records(log.segments)[-1][0]
    commits = [Message("T", sys_flag=8, prepared_transaction_offset=at, queue_offset=n)
               for n, at in enumerate((place, place + 1, 1 << 40, 0))]  # fmt: skip
    log = plain([*filler, half, *commits])
    for splits in (1, 7):
        _, storage = converted(log, splits=splits, to_settings={"mappedFileSizeCommitLog": "700"})
        new = records(log_of(storage))
        links = [struct.unpack_from(">q", record, 76)[0] for _, record in new[-4:]]
        assert links == [new[5][0], 0, 1 << 40, 0]
        assert new[5][0] != place


def test_a_dry_run_says_what_becomes_of_each_topic_and_writes_nothing() -> None:
    log = plain([Message(f"T{n % 2}", n % 3, n // 6, b"x" * 50) for n in range(24)])
    storage = storage_of(log)
    before = dict(storage.files)
    summary = convert(
        Session(), STORE, "", rocketmq=log.version, settings=as_text(log.settings),
        storage=storage, to_settings={"mappedFileSizeCommitLog": "4096"}, dry_run=True)  # fmt: skip
    assert storage.files == before
    assert [(t.topic, t.becomes, t.queues, t.messages, t.taken, t.least, t.greatest)
            for t in summary.topics] == [
        ("T0", "T0", 3, 12, 12, 0, 3), ("T1", "T1", 3, 12, 12, 0, 3)]  # fmt: skip
    assert summary.text().startswith("would convert store (RocketMQ 5.3.3)\n")
    assert "  topic     T0: 12 records in 3 queues, queueOffsets 0 to 3" in summary.text()


def test_stale_bytes_behind_the_end_are_left_behind() -> None:
    store = golden_stores.unpack("continued_5.3.3")
    storage = MemoryStorage()
    with store.segments() as there:
        log = Log({n: bytes(raw) for n, raw in there.items()}, dict(store.settings), "5.3.3", {})
    storage = storage_of(log)
    _, storage = converted(log, storage)
    new = log_of(storage)
    old = records(log.segments)
    assert records(new) == old
    end = old[-1][0] + len(old[-1][1])
    last = max(new)
    assert not any(new[last][end - last :])


def test_a_converted_store_is_replaced_by_another_and_nothing_else_is(tmp_path: Path) -> None:
    store = golden_stores.unpack("tiny_5.3.3")
    out = tmp_path / "out"

    def made(**options: Any) -> ConvertSummary:
        return convert(Session(), str(store.input), str(out), rocketmq=store.version,
                       settings=as_text(store.settings), **options)  # fmt: skip

    first = made()
    with pytest.raises(OutputInUse, match="--replace"):
        made()
    second = made(replace=True, to_settings={"mappedFileSizeCommitLog": "524288"})
    assert (second.messages, second.segments[0].length) == (first.messages, 524288)
    (out / "mine").write_text("years of work")
    with pytest.raises(StoreError, match="mine"):
        made(replace=True)
    assert (out / "mine").read_text() == "years of work"


def test_the_new_log_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    log = plain([Message("A", n % 3, n // 3, b"x" * n, properties(("KEYS", f"k{n}")))
                 for n in range(80)])  # fmt: skip
    wanted = converted(log)[1].files

    def read(self: object) -> None:
        raise AssertionError("scanned")

    monkeypatch.setattr("reput.jobs.pipeline.pipeline.Pipeline.scan", read)
    assert converted(log)[1].files == wanted


@pytest.mark.parametrize("chunk", [200, 700, 4096])
def test_a_segment_may_be_written_in_any_pieces(chunk: int, monkeypatch) -> None:
    log = plain([Message("A", n % 3, n // 3, b"x" * (n * 7 % 400), properties(("KEYS", f"k{n}")))
                 for n in range(80)])  # fmt: skip
    words = {"to_settings": {"mappedFileSizeCommitLog": "9000"}, "rename": {"A": "B"}}
    wanted = converted(log, **words)[1].files
    monkeypatch.setattr("reput.udfs.convert.write._CHUNK_BYTES", chunk)
    assert converted(log, **words)[1].files == wanted


@pytest.mark.long
def test_spark_writes_the_same(spark: object, tmp_path: Path) -> None:
    golden = golden_stores.unpack("mixed_5.3.3")
    made = []
    for engine in (spark, Session()):
        out = tmp_path / f"out{len(made)}"
        summary = convert(
            engine, str(golden.input), str(out), rocketmq="5.3.3", settings=golden.settings,
            to_settings={"mappedFileSizeCommitLog": "300000"})  # fmt: skip
        assert summary.messages > 1000
        files = (path for path in out.rglob("*") if path.is_file() and path.name != "manifest.json")
        made.append({str(path.relative_to(out)): path.read_bytes() for path in files})
    assert made[0] == made[1]


# --- Convert: real DLedger groups' stores as plain ones, each committed message as it was.
LOCAL = LocalStorage()


def dledger_records(segments: list[Segment], end: int | None = None) -> list[tuple[Record, bytes]]:
    rules = record_rules(profile("5.3.3"), heads_from(segments))
    with LogReader(LOCAL, segments, rules, end=end) as log:
        return [(record, log.body(record)) for record in log.records(log.start)]


@pytest.mark.parametrize("split_bytes", [None, 3000])
@pytest.mark.parametrize("name", NAMES)
def test_each_committed_message_stays_as_it_was(name, split_bytes, tmp_path) -> None:
    store, about = unpack(name, tmp_path / "store")
    given = {"rocketmq": "5.3.3", "settings": as_text(about["sizes"])}
    output = tmp_path / "out"
    convert(Session(), str(store), str(output), cut=Cut(split_bytes), **given)
    segments = segments_of(store, about)
    at = Folder(LOCAL, str(store))
    agreed = committed(at, segments, at)
    assert agreed is not None
    old = dledger_records(segments, agreed.end)
    size = about["sizes"]["mappedFileSizeCommitLog"]
    new = dledger_records(find_segments(LOCAL, [str(output / "commitlog")], size))
    assert len(old) == len(new)
    places = {a.physical_offset: b.physical_offset for (a, _), (b, _) in zip(old, new, strict=True)}
    moved = {"physical_offset": 0, "body_at": 0, "prepared_offset": 0}
    for (before, body), (after, same) in zip(old, new, strict=True):
        assert (before._replace(**moved), body) == (after._replace(**moved), same)
        link = places[before.prepared_offset] if before.prepared_offset else 0
        assert after.prepared_offset == link
    if name != "mixed":
        assert any(record.prepared_offset for record, _ in new)
    assert verify(Session(), str(output), **given).same
    assert not list(output.glob("dledger-*"))


@pytest.mark.parametrize("asked", ["false", "true"])
def test_what_lies_behind_the_committed_index_comes_where_it_is_asked_for(asked, tmp_path) -> None:
    store, about = unpack("killed", tmp_path / "store")
    settings = {**as_text(about["sizes"]), "readUnCommitted": asked}
    output = str(tmp_path / "out")
    made = convert(Session(), str(store), output, rocketmq="5.3.3", settings=settings)
    said = any("readUnCommitted=true" in each for each in made.warnings)
    assert said == (asked == "false")
    assert made.messages == len(heads(store, about)) - (asked == "false")


@pytest.mark.parametrize("field", ["index", "pos"])
def test_a_wrong_head_is_told_and_nothing_is_written(field: str, tmp_path: Path) -> None:
    store, about = unpack("failed_over", tmp_path / "store")
    path, at, _ = heads(store, about)[40]
    change(path, at + getattr(DLEDGER_AT, field), bytes(8))
    with pytest.raises(DamageFound, match=rf"{path}: offset {at} .*: {field} "):
        convert(Session(), str(store), str(tmp_path / "out"), rocketmq="5.3.3",
                settings=as_text(about["sizes"]))  # fmt: skip
    assert not (tmp_path / "out").exists()
