"""A store as it is found: its segments, settings and splits, before its log is read."""

import json
from dataclasses import replace

import pytest

from reput.jobs.check import check
from reput.jobs.opening.plan import Plan, make_plan
from reput.jobs.opening.questions import open_store
from reput.store_format.discover.purpose import LOOK, REPLICATE, Purpose
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import DamageFound, EmptyLog, StoreError
from reput.store_format.files.protocol import FileState
from reput.store_format.release.setting_table import SettingError
from tests.built import Built
from tests.in_process import STORE, Session
from tests.jobs.comparing.pairs import message
from tests.logs.encoder import build_log
from tests.memory_storage import MemoryStorage

SEGMENT = 4096
MB = 1 << 20


class Held(MemoryStorage):
    """A store whose lock a process has."""

    def lock_holder(self, store: str) -> int | None:
        return 77


def storage(first: int = 0, kind: type[MemoryStorage] = MemoryStorage) -> MemoryStorage:
    log = build_log([message(n) for n in range(60)], SEGMENT, first)
    return kind({f"{STORE}/commitlog/{at:020d}": raw for at, raw in log.items()})


def planned(
    store: MemoryStorage, given: dict[str, str] | None = None, purpose: Purpose = LOOK
) -> Plan:
    settings = {"mappedFileSizeCommitLog": str(SEGMENT), **(given or {})}
    at = store_at(STORE, "5.3.3", settings, store)
    return make_plan(at, discover(at, purpose), purpose)


def test_a_log_begins_and_ends_where_its_segments_do() -> None:
    plan = planned(storage(first=3 * SEGMENT))
    assert [segment.start for segment in plan.segments] == [3 * SEGMENT, 4 * SEGMENT]
    assert (plan.log_bytes, plan.in_use, plan.splits.limit) == (2 * SEGMENT, False, None)
    assert [era.release for era in plan.eras] == ["5.3.3"]


def test_of_a_log_without_segments_the_queues_tell_what_it_had() -> None:
    """Light queues hold messages of other queues. Without an entry the log is only empty."""
    files = {f"{STORE}/commitlog/lost+found/of-fsck": b""}
    with pytest.raises(EmptyLog, match=r"no segments: the log is empty$"):
        planned(MemoryStorage(files))
    entry = bytes(8) + (100).to_bytes(4, "big") + bytes(8)
    for topic in ("T", "%LMQ%a"):
        files[f"{STORE}/consumequeue/{topic}/0/{0:020d}"] = entry * 3 + bytes(20)
    read = {"offsetTable": {"T@billing": {0: 2}, "T@none": {0: 0}}}
    files[f"{STORE}/config/consumerOffset.json"] = json.dumps(read).encode()
    told, given = r"2 queues name 3 .* 1 group has read .* \(billing\);", {
        "mappedFileSizeConsumeQueue": "80"
    }  # fmt: skip
    with pytest.raises(DamageFound, match=told):
        planned(MemoryStorage(files), given)
    with pytest.raises(DamageFound, match=told):
        open_store(STORE, rocketmq="5.3.3", settings=given, storage=MemoryStorage(files))


@pytest.mark.parametrize("release", [None, "5.3.3"])
def test_a_size_that_no_name_fits_is_refused_and_the_log_not_called_empty(
    release: str | None,
) -> None:
    built = Built(start=2048 * 5).put(count=9, keys="k").derive()
    given = {**built.given(), "mappedFileSizeCommitLog": str(1 << 30)}
    with pytest.raises(StoreError, match="has 2048 bytes, but mappedFileSizeCommitLog is 10737"):
        check(Session(), "s", rocketmq=release, settings=given, storage=built.storage())
    with pytest.raises(StoreError, match="has 2048 bytes, but mappedFileSizeCommitLog is 10737"):
        open_store("s", rocketmq="5.3.3", settings=given, storage=built.storage())


class Large(MemoryStorage):
    """A store of one segment that is listed with `size` bytes."""

    size = 0

    def _state(self, path: str) -> FileState | None:
        return FileState(self.size, 0, 0) if path in self.files else None


@pytest.mark.parametrize(
    ("size", "cores", "split_bytes"),
    [
        (64 * MB, 2, 16 * MB),
        (64 * MB, 1, 32 * MB),
        (1024 * MB, 4, 128 * MB),
        (1024 * MB, 1, 256 * MB),
        (1024 * MB, 500, 16 * MB),
        (8 * MB, 1, 8 * MB),
    ],
)
def test_a_core_has_two_splits_of_16_to_256_mb(size: int, cores: int, split_bytes: int) -> None:
    at = store_at(STORE, "5.3.3", {}, storage())
    sizes = {"mappedFileSizeCommitLog": str(size)}
    found = replace(discover(at, LOOK), settings=sizes)
    large = Large({f"{STORE}/commitlog/{0:020d}": b""})
    large.size = size
    plan = make_plan(at._replace(storage=large), found, LOOK, cores)
    assert (plan.log_bytes, plan.splits.split_bytes) == (size, split_bytes)
    given = make_plan(at._replace(storage=large), found, LOOK, cores, split_bytes=1000)
    assert given.splits.split_bytes == 1000


def test_a_hole_is_refused_or_found() -> None:
    store = storage()
    store.files[f"{STORE}/commitlog/{3 * SEGMENT:020d}"] = bytes(SEGMENT)
    with pytest.raises(StoreError, match="a hole before it"):
        planned(store)
    plan = planned(store, purpose=REPLICATE)
    assert [each.reason for each in plan.findings] == ["a hole before it: 1 segment is missing"]
    assert plan.odd == frozenset()


def test_a_segment_of_a_wrong_size_is_odd() -> None:
    store = storage()
    store.files[f"{STORE}/commitlog/{SEGMENT:020d}"] += b"\0"
    with pytest.raises(StoreError, match=f"has {SEGMENT + 1} bytes"):
        planned(store)
    assert planned(store, purpose=REPLICATE).odd == {1}


def test_a_log_in_use_is_read_up_to_where_it_ended() -> None:
    store = storage(kind=Held)
    store.files[f"{STORE}/consumequeue/T/0/{0:020d}"] = bytes(20)
    plan = planned(store)
    raw = b"".join(store.files[path] for path in sorted(store.files) if "/commitlog/" in path)
    end = len(raw.rstrip(b"\0"))
    assert plan.splits.limit == end
    assert (plan.in_use, plan.has_queues) == (True, False)
    assert f"its log is read up to {end}" in plan.notes[0]
    assert "77" in plan.notes[0]


def topics(**attributes: str) -> bytes:
    table = {"B": {"attributes": attributes}, "Plain": {"topicName": "Plain"}}
    return json.dumps({"topicConfigTable": table}).encode()


def test_topics_attributes_decide_what_is_derived() -> None:
    store = storage()
    store.files[f"{STORE}/config/topics.json"] = topics(**{"queue.type": "BatchCQ"})
    assert planned(store).batch_topics == ("B",)
    wrong = {"mapperFileSizeBatchConsumeQueue": "100"}
    with pytest.raises(SettingError, match="is no multiple of 46"):
        planned(store, wrong)
    store.files[f"{STORE}/config/topics.json"] = topics(**{"cleanup.policy": "COMPACTION"})
    plan = planned(store, wrong)
    assert plan.batch_topics == ()
    assert "topic 'B' is compacted" in plan.notes[0]


@pytest.mark.parametrize(
    ("path", "even_rocksdb", "refused"),
    [
        ("consumequeue/CURRENT", False, True),
        ("consumequeue/CURRENT", True, False),
        ("consumequeue_ext/T/0/x", True, True),
    ],
)
def test_queues_of_another_kind_are_refused(path: str, even_rocksdb: bool, refused: bool) -> None:
    store = storage()
    store.files[f"{STORE}/{path}"] = b""
    if refused:
        with pytest.raises(StoreError, match="reput"):
            planned(store, purpose=Purpose(rocksdb=even_rocksdb))
    else:
        assert planned(store, purpose=Purpose(rocksdb=even_rocksdb)).segments
