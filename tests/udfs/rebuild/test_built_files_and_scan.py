"""What grows with files is done by tasks: the driver gets a row for each task."""

from collections.abc import Iterable

import pytest

from reput.jobs.opening.plan import make_plan
from reput.jobs.outputs import publish
from reput.jobs.outputs.output import REBUILT, files_of, parse_manifest, what_may_go
from reput.jobs.pipeline import pipeline
from reput.jobs.pipeline.link import Linked, link, runs_of
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.jobs.pipeline.stages import Stages
from reput.store_format.discover.delay_levels import SCHEDULE
from reput.store_format.discover.purpose import LOOK
from reput.store_format.discover.store import StoreAt, discover
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.protocol import MayGo
from reput.store_format.names import COMMIT_LOG, segment_name
from reput.store_format.notes import Progress
from reput.udfs.rebuild import built_files
from reput.udfs.rebuild.scan import ScanSplits
from reput.udfs.staging import RUNS, Staging, split_of
from tests.in_process import OUTPUT, Session, rebuild_log, storage_of
from tests.jobs.found import STAGING
from tests.logs import Log
from tests.logs.encoder import Message, build_log, encode
from tests.memory_storage import MemoryStorage
from tests.udfs.tables import rows_of


class Copying(MemoryStorage):
    """As S3: a move is a copy, which a second attempt may repeat."""

    moves_by_copies = True

    def place(self, folder: str, path: str, content: bytes, length: int) -> bool:
        return False

    def move_all(self, moves: Iterable[tuple[str, str]]) -> None:
        self.files.update({to: self.files[path] for path, to in moves if path in self.files})

    def publish(self, folder: str, to: str, may_go: MayGo, manifest: tuple[str, bytes]) -> None:
        super().publish(folder, to, may_go, manifest)
        self.remove_tree(folder)


@pytest.mark.parametrize(("kind", "seed"), [(MemoryStorage, 3), (Copying, 2), (Copying, 7)])
def test_the_driver_gets_a_row_a_task_and_no_row_a_file(kind, seed, monkeypatch) -> None:
    """Of many files a set has lists in shards, which say the same as a whole manifest."""
    names = [*(f"T{n}" for n in range(299)), *["T0"] * 7, *["Odd"] * 3, SCHEDULE]
    offsets: dict[str, int] = {}
    messages = []
    for name in names:
        messages.append(Message(name, 0, offsets.setdefault(name, 0), properties=b"KEYS\x01k\x02"))
        offsets[name] += name != "Odd" or offsets[name] != 1
    log = Log(build_log(messages, 1 << 16), {
        "mappedFileSizeCommitLog": 1 << 16, "mappedFileSizeConsumeQueue": 100,
        "maxHashSlotNum": 10, "maxIndexNum": 400,
    }, "5.3.3", {})  # fmt: skip
    session = Session(seed)
    assert not session.one_machine
    whole = rebuild_log(log, Cut(partitions=2), session, storage=kind(storage_of(log).files))
    assert sum(name.startswith("consumequeue/") for name in whole.files) == 302
    assert session.rows_collected < 25
    monkeypatch.setattr(pipeline, "MANY_FILES", 200)
    monkeypatch.setattr(built_files, "_FILES_OF_A_SHARD", 100)
    session, storage = Session(seed), kind(storage_of(log).files)
    rebuilt = rebuild_log(log, Cut(partitions=2), session, storage=storage)
    assert session.rows_collected < 25
    shards = {name for name in rebuilt.files if name.startswith("manifest/")}
    assert rebuilt.files.keys() - shards == whole.files.keys()
    assert all(rebuilt.files[name] == raw for name, raw in whole.files.items())
    manifest = parse_manifest(storage.read_bytes(f"{OUTPUT}/manifest.json"), OUTPUT, REBUILT)
    assert len(manifest["files"]) < 10  # index, checkpoint, of which something is to be said
    listed = [entry for *_, entry in files_of(Folder(storage, OUTPUT), manifest, REBUILT)]
    by_path = {each.path: vars(each) for each in whole.summary.files}
    assert {each["path"]: each for each in listed} == by_path
    assert len(listed) == len(by_path) == rebuilt.summary.as_json()["output_files"]
    same = ("queues", "queue_files", "index_files", "in_no_queue", "warnings", "left_out")
    for name in same:
        assert getattr(rebuilt.summary, name) == getattr(whole.summary, name), name
    going = what_may_go(Place(storage, OUTPUT), REBUILT, False)
    assert shards < set(going)
    shard = f"{OUTPUT}/{min(shards)}"
    storage.files[shard] = storage.files[shard].replace(b'"written": 20', b'"written": 21', 1)
    with pytest.raises(StoreError, match=r"manifest/00000000\.jsonl: is not what manifest"):
        what_may_go(Place(storage, OUTPUT), REBUILT, False)


@pytest.mark.parametrize("seed", [2, 0])  # on several machines, on one
def test_many_files_are_copied_by_tasks(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(publish, "_MOVES_OF_A_TASK", 100)
    names, session = [f"file{n}" for n in range(301)], Session(seed)
    storage = Copying({f"{STAGING}/{name}": name.encode() for name in names})
    moves = [(name, f"folder/{name}") for name in names]
    publish.move_in(Staging(storage, STAGING), moves, "set", session)
    assert [storage.files[f"set/folder/{name}"] for name in names] == [n.encode() for n in names]
    assert (session.rows_collected > 0) == (not session.one_machine)


# --- A split in which no record starts stages no file; it counts as done all the same.
SEGMENT_BYTES, SPLIT_BYTES = 1 << 16, 1 << 10
IN_SEGMENT = SEGMENT_BYTES // SPLIT_BYTES
SPLITS = 3 * IN_SEGMENT
MESSAGES = 8 * IN_SEGMENT - 1


class Scan:
    """A log of one segment of records and two of zeros, scanned in such tasks."""

    def __init__(self, groups: tuple[int, ...]) -> None:
        body = bytes(SPLIT_BYTES // 8 - len(encode(Message(), 0)))
        records = (Message(queue_offset=n, body=body) for n in range(MESSAGES))
        segments = build_log(records, SEGMENT_BYTES, extra_segments=2)
        files = {f"store/{COMMIT_LOG}/{segment_name(at)}": raw for at, raw in segments.items()}
        self.storage = MemoryStorage(files)
        settings = {"mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
        found = discover(StoreAt(self.storage, "store", "5.3.3", settings), LOOK)
        plan = make_plan(StoreAt(self.storage, "store"), found, LOOK, 2, SPLIT_BYTES)
        staging = Staging(self.storage, "staging")
        job = Pipeline(Session(), plan, staging, Cut(), Progress())
        numbers = range(plan.splits.total)
        task = ScanSplits(self.storage, job.staging, plan.splits, job.rules, numbers, groups, {})
        rows = [row for number in range(len(groups)) for row in rows_of(task, number)]
        self.records = {row["split"]: row["records"] for row in rows}
        linked = link(plan.splits, {row["split"]: row for row in rows})
        assert isinstance(linked, Linked)
        self.linked = linked
        self.progress = Stages(job.engine, plan, job.staging, Progress())._scanned(numbers, groups)

    @property
    def lists(self) -> list[int]:
        """The splits that have a list of runs."""
        names = (name for name, _ in self.storage.list("staging"))
        return sorted(split_of(name) for name in names if name.endswith(RUNS))


@pytest.mark.parametrize("groups", [(0,), (0, 1, 2), (0, 70, 100), tuple(range(SPLITS))])
def test_only_splits_with_records_and_a_tasks_last_have_a_list_and_progress_counts_all(
    groups,
) -> None:
    scan = Scan(groups)
    assert len(scan.records) == SPLITS
    assert sum(scan.records.values()) == MESSAGES
    filled = {split for split, records in scan.records.items() if records}
    assert filled == set(range(IN_SEGMENT))
    lasts = {start - 1 for start in (*groups[1:], SPLITS)}
    assert scan.lists == sorted(filled | lasts)
    assert set(scan.linked.runs) == filled
    whole = f"{SPLITS * SPLIT_BYTES:,}"
    assert (scan.progress.share, scan.progress.text) == (1.0, f"{whole} of {whole} bytes")


def test_what_is_not_there_is_not_read() -> None:
    rows = [{"split": 0, "run": "a", "records": 1}, {"split": 1, "run": "b", "records": 0}]
    assert runs_of(rows) == {0: "a"}
