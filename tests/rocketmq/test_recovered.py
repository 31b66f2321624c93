"""The real RocketMQ opens what recover and install leave, and finds nothing to do."""

import random
import shutil
import time
from functools import partial
from pathlib import Path

import pytest

from reput.jobs.install import install_set
from reput.store_format.derived.checkpoint import decode
from reput.store_format.derived.queue_files import decode_entries, is_used
from reput.store_format.names import COMMIT_LOG
from tests import golden_stores, in_process
from tests.broker.writer.stores import stored_records
from tests.in_process import as_text
from tests.jobs.recovering import run
from tests.rocketmq.driver import Driver
from tests.rocketmq.judge import copy, empty_files
from tests.rocketmq.live import SETTINGS, killed_while_sending
from tests.rocketmq.puts import derived
from tests.seeds import seeds

pytestmark = [pytest.mark.rocketmq]


def test_a_recovered_store(tmp_path: Path) -> None:
    store, golden = golden_stores.whole("torn_tail_5.3.3", tmp_path, ())
    (store / "abort").write_bytes(b"")
    assert run(store, golden.version, golden.settings).cut_bytes
    opens_without_a_change("5.3.3", store, golden.settings)


def test_an_installed_set(tmp_path: Path) -> None:
    golden = golden_stores.unpack("mixed_5.3.3")
    store = golden_stores.copy_input(golden, tmp_path / "store")
    shutil.rmtree(store / "consumequeue", ignore_errors=True)
    in_process.run(str(store), str(tmp_path / "set"), rocketmq="5.3.3",
                   settings=as_text(golden.settings))  # fmt: skip
    install_set(str(store), str(tmp_path / "set"))
    opens_without_a_change("5.3.3", store, golden.settings)


# --- A store that RocketMQ opens and leaves as it is.


def log(store: Path) -> dict[str, bytes]:
    """The segments that hold anything: a broker prepares further ones, and removes them."""
    contents = {path.name: path.read_bytes() for path in (store / COMMIT_LOG).iterdir()}
    return {name: content for name, content in contents.items() if any(content)}


def opens_without_a_change(version: str, store: Path, settings: dict[str, int | str]) -> None:
    before = derived(store), log(store)
    with Driver(version, log_level="INFO") as driver:
        answer = driver.open_check(store, settings)
        said = driver.log
    assert answer["dispatched"] == 0
    assert (derived(store), log(store)) == before
    for complaint in ("[BUG]", "delete it", "will be deleted"):
        assert complaint not in said


# --- `recover` on what killed brokers and lost power leave: never asks, never behind RocketMQ.

OFTEN = {**SETTINGS, "mappedFileSizeCommitLog": 1 << 16, "maxIndexNum": 900,
         "flushCommitLogThoroughInterval": 200,
         "flushConsumeQueueThoroughInterval": 200}  # fmt: skip
FLUSHES = ("flushCommitLogThoroughInterval", "flushConsumeQueueThoroughInterval")
STORE_SETTINGS = {name: value for name, value in OFTEN.items() if name not in FLUSHES}
RELEASES = ("4.9.7", "5.3.3", "5.5.0")
MOMENTS, STATES = 1, 3  # a release
PAGE = 4096


def lose_pages(store: Path, rng: random.Random) -> int:
    """Zeros in the log's pages that nobody synced: those behind the last durable record.

    Each is lost or not. Returns how many are."""
    durable = decode((store / "checkpoint").read_bytes()).physic_msg_timestamp
    end = 0
    for record in stored_records(store / "commitlog"):
        if record.store_timestamp >= durable:
            break
        end = record.physical_offset + record.size
    lost, share = 0, rng.choice((0.1, 0.5, 0.9))
    for path in sorted((store / "commitlog").iterdir()):
        raw = bytearray(path.read_bytes())
        for at in range(0, len(raw), PAGE):
            if int(path.name) + at >= end and any(raw[at : at + PAGE]) and rng.random() < share:
                raw[at : at + PAGE] = bytes(PAGE)
                lost += 1
        path.write_bytes(raw)
    return lost


def is_torn(store: Path, at: int) -> bool:
    """Whether the record there has lost a page of its topic or properties, which RocketMQ takes."""
    records = (r for r in stored_records(store / "commitlog") if r.physical_offset == at)
    return any(b"\0" in record.topic_bytes + record.properties for record in records)


def begins_behind(before: Path, after: Path, end: int) -> bool:
    """Whether RocketMQ 5.5.0 never looks at the fault at `end`, as queues were flushed past it.

    Its recovery begins at the last segment with a whole first record that is not behind the
    checkpoint's logicsPhysicalOffset, which says nothing of the log's own pages."""
    flushed = decode((before / "checkpoint").read_bytes()).logics_physical_offset
    whole = {record.physical_offset for record in stored_records(after / "commitlog")}
    firsts = {int(path.name) for path in (after / "commitlog").iterdir()}
    return end not in whole and any(end < at <= flushed for at in whole & firsts)


def queue_places(store: Path) -> dict[str, list[int]]:
    """The physicalOffsets of each queue, in order."""
    found: dict[str, list[int]] = {}
    for path in sorted(store.glob("consumequeue/*/*/*")):
        entries = decode_entries(path.read_bytes())
        entries = entries[is_used(entries)]
        name = str(path.parent.relative_to(store / "consumequeue"))
        found.setdefault(name, []).extend(entries["physicalOffset"].tolist())
    return found


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("moment", seeds(range(MOMENTS)))
@pytest.mark.parametrize("version", RELEASES)
def test_no_crash_needs_a_decision(version: str, moment: int, tmp_path: Path) -> None:
    rng = random.Random(f"{version} {moment}")
    store = tmp_path / "store"
    with Driver(version) as client:
        killed_while_sending(
            version, store, client, 24, partial(time.sleep, rng.uniform(0.3, 6)), **OFTEN
        )
    for state in range(STATES):
        ours, theirs = tmp_path / f"ours{state}", tmp_path / f"theirs{state}"
        copy(store, ours)
        lost = lose_pages(ours, rng) if state else 0
        copy(ours, theirs)
        about = run(ours, version, STORE_SETTINGS)
        assert about.done, (state, lost)
        assert about.crashed
        opens_without_a_change(version, ours, STORE_SETTINGS)  # type: ignore[arg-type]
        with Driver(version) as driver:
            found = driver.derive(theirs, STORE_SETTINGS, mode="as-is",
                                  may_refuse=bool(empty_files(theirs)))  # fmt: skip
        if found.get("refused"):  # a file without a length, which RocketMQ takes from 5.1.3 on
            assert version == "4.9.7"
            continue
        their_end = found["max_offset"]
        end = about.log_end
        behind = begins_behind(store, theirs, end)
        assert their_end <= end or behind or is_torn(theirs, end), (state, lost)
        mine, right = queue_places(ours), queue_places(theirs)
        for queue, places in right.items():  # what it cuts off a queue stays in the file
            live = [place for place in places if place < min(their_end, end)]
            assert mine.get(queue, [])[: len(live)] == live, (state, lost, queue)
        shutil.rmtree(ours)
        shutil.rmtree(theirs)
