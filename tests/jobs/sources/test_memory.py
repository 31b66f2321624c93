"""The source and the export hold what a window or a row group holds, whatever the log's size."""

from pathlib import Path

import pytest

from tests.built import write_log
from tests.logs.encoder import Message, build_log
from tests.processes import run_python

MIB = 1 << 20
SEGMENT = 256 * MIB  # one part of the log, of which a row group is a fourth
BODY = 64 << 10

# What an export of a log adds to a process: the peak, after a small log.
PEAK = """
import sys
from pathlib import Path
import pyarrow as pa
from reput.jobs.sources.opened_log import cut, parts_log, plan_of
from reput.jobs.sources.options import source_options
from reput.store_format.files.local import LocalStorage
from reput.udfs.table.export import ChosenMessages, ExportParts
from reput.udfs.table.columns import Choice
from reput.udfs.table.columns import SCHEMA
from reput.udfs.staging import Staging
from tests.memory import Peak

def export(store, staging, bodies):
    options = {"path": store, "rocketmq": "5.3.3", "mappedFileSizeCommitLog": sys.argv[5]}
    plan = plan_of(source_options(options))
    log = parts_log(plan, source_options(options), bodies, grows=False)
    parts = tuple(cut(log, 0, plan.segments[-1].end, 1, 1))
    columns = SCHEMA if bodies else SCHEMA.remove(SCHEMA.get_field_index("body"))
    where = Staging(LocalStorage(), staging)
    task = ExportParts(ChosenMessages(log, parts, Choice(), None, columns), "parquet", where)
    ids = iter([pa.RecordBatch.from_pydict({"id": list(range(len(parts)))})])
    return sum(row["messages"] for batch in task(ids) for row in batch.to_pylist())

small, store, staging, bodies = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "bodies"
export(small, staging, bodies)
peak = Peak()
messages = export(store, staging, bodies)
print(messages, peak.added)
"""


def _peak(folder: Path, messages: list[Message], bodies: bool) -> int:
    """MiB that an export of these messages adds to a process that exported a few."""
    small = write_log(folder / "small", build_log([Message(body=b"x" * BODY)] * 4, SEGMENT))
    store = write_log(folder / "large", build_log(messages, SEGMENT))
    (folder / "staging").mkdir()
    done = run_python("-c", PEAK, small, store, folder / "staging", "bodies" if bodies else "none",
                      SEGMENT, timeout=300, check=True)  # fmt: skip
    exported, peak = map(int, done.stdout.split())
    assert exported == len(messages)
    return peak


pytestmark = [pytest.mark.long, pytest.mark.parametrize("bodies", [False, True])]


def test_a_long_log_costs_what_a_row_group_does(tmp_path: Path, bodies: bool) -> None:
    """With bodies, a row group of 24 MiB is held, and once more while it is written."""
    peak = _peak(tmp_path, [Message(body=b"x" * BODY)] * 3_900, bodies)
    assert peak < (200 if bodies else 40)


def test_a_large_record_costs_a_few_of_its_bodies(tmp_path: Path, bodies: bool) -> None:
    """48 MiB in one body: without bodies, no more than any record."""
    large = Message(body=bytes(48 * MIB))
    peak = _peak(tmp_path, [Message(body=b"a"), large, Message(body=b"b")], bodies)
    assert peak < (48 * 5 if bodies else 40)
