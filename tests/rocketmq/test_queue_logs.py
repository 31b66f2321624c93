"""Logs of single queues that RocketMQ writes, read by us: what its own readers give of them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.broker.change.compaction import Settled, settle
from reput.jobs import cli
from reput.jobs.comparing.compare import verify_queue_log
from reput.jobs.opening.questions import open_store
from reput.store_format.discover.store import store_at
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from tests.rocketmq.live import living
from tests.rocketmq.queue_log_stores import COMPACTED, SETTINGS, VERSION, make_compacted, tier
from tests.rocketmq.queue_log_stores import messages as of_both_topics

pytestmark = [pytest.mark.rocketmq, pytest.mark.long, pytest.mark.timeout(900)]


def ours(url: str) -> list[list[str]]:
    """Topic, queue, queueOffset, offset and size of each message, in the log's order."""
    with open_store(url) as store:
        return [
            [each.topic, *map(str, (each.queue_id, each.queue_offset, each.physical_offset)),
             str(each.record.size)]
            for each in store.messages()
        ]  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("compacted") / "store"
    make_compacted(store, 1600)
    return store


def test_tiered_queues_are_what_rocketmq_reads_back(store: Path, tmp_path: Path) -> None:
    told = tier(store, tmp_path / "tiered", 4000, 400)
    assert len(told) > 1
    for folder, rows in told.items():
        assert ours(f"tiered:{folder}") == rows
        report = verify_queue_log(store_at(f"tiered:{folder}"))
        assert report.same, report.differences


def test_a_compacted_queue_has_what_a_consumer_is_given(store: Path, tmp_path: Path) -> None:
    """A consumer is not given what RocketMQ forgot as it compacted, which verify finds."""
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    settings = {**SETTINGS, "compactionScheduleInternal": 3_600_000}
    with living(VERSION, copy, **settings) as (_, client):
        given = client.ask("pull", queues={COMPACTED: 2})["messages"]
    assert given
    for queue in (0, 1):
        url = f"compacted:{store}/compaction/compactionLog/{COMPACTED}/{queue}"
        found = {int(row[2]) for row in ours(url)}
        read = {each[2] for each in given if each[1] == queue}
        assert read <= found
        if verify_queue_log(store_at(url)).same:
            assert read == found


NEVER = {"compactionScheduleInternal": 3_600_000}  # so that all that is dispatched stays
# With files of 20 messages RocketMQ 5.3.3 itself skips some of them once it was restarted.
LARGE = {**NEVER, "compactionMappedFileSize": 1 << 20, "compactionCqMappedFileSize": 46 * 400}


def settled(store: Path) -> Settled:
    given = {name: str(value) for name, value in {**SETTINGS, **LARGE}.items()}
    return settle(
        DiskFiles(str(store)), Folder(LocalStorage(), str(store)), VERSION, given, Notes()
    )


def in_compaction(store: Path) -> dict[str, bytes]:
    """All but the positions, which RocketMQ writes as it stops."""
    return {path.relative_to(store).as_posix(): path.read_bytes()
            for path in store.glob("compaction/*/*/*/*") if path.is_file()}  # fmt: skip


@pytest.fixture
def dispatched(tmp_path: Path) -> Callable[..., Path]:
    """Makes a store with all its messages in `compaction/`, by a broker that never compacts."""

    def make(version: str = VERSION, **sizes: int) -> Path:
        make_compacted(tmp_path / "store", 400, version, **sizes)
        return tmp_path / "store"

    return make


@pytest.mark.parametrize("version", ["5.3.3", "5.5.0"])
def test_a_compaction_made_from_the_log_is_rocketmqs_to_the_byte(dispatched, version) -> None:
    """In files of a few messages; one queue's stay, and give the sizes of the other's."""
    store = dispatched(version, **NEVER)
    told = in_compaction(store)
    for folder in ("compactionLog", "compactionCq"):
        shutil.rmtree(store / "compaction" / folder / COMPACTED / "1")
    assert settled(store) == Settled(written=200)
    assert in_compaction(store) == told


@pytest.mark.parametrize("lost", ["compaction", "log"])
def test_a_broker_serves_what_the_log_has_and_what_comes(dispatched, lost) -> None:
    """Without `compaction/` a broker with whole queues would serve nothing of the topic; with one
    that is ahead of the log it would serve what is gone, and nothing new."""
    store = dispatched(**LARGE)
    if lost == "compaction":
        shutil.rmtree(store / "compaction")
        settled(store)
    else:
        lose_half(store)
    with living(VERSION, store, **{**SETTINGS, **LARGE}) as (broker, client):
        there = client.ask("pull", queues={COMPACTED: 2}, group="first")["messages"]
        new = [each for each in of_both_topics(40) if each["t"] == COMPACTED]
        client.ask("send", messages=new, queues=2)
        broker.catch_up()
        given = client.ask("pull", queues={COMPACTED: 2}, group="second")["messages"]
    assert len(there) == (300 if lost == "compaction" else 150)
    assert len(given) == len(there) + len(new)
    for queue in (0, 1):
        offsets = [each[2] for each in given if each[1] == queue]
        assert offsets == list(range(len(offsets)))


def lose_half(store: Path) -> None:
    """The log's second half is lost, as to a power cut; then `reput recover`."""
    with open_store(str(store)) as opened:
        at = [each.physical_offset for each in opened.messages()][200]
    with (store / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(at)
        log.write(bytes(SETTINGS["mappedFileSizeCommitLog"] - at))
    (store / "abort").touch()
    words = [f"{n}={v}" for n, v in {**SETTINGS, **LARGE}.items()]
    sizes = [part for word in words for part in ("--set", word.replace("=True", "=true"))]
    assert cli.main(["recover", str(store), "--yes", "--rocketmq", VERSION, *sizes]) == 1
