"""Delta tables by delta-rs: what is committed, by whom, up to where; and what is read back."""

import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from reput.jobs.exporting.chosen import ChosenLog
from reput.jobs.exporting.delta_table import Commit, LastMessage, Range
from reput.jobs.exporting.delta_writers import DeltaRs, DeltaSpark
from reput.jobs.exporting.files import Chosen
from reput.store_format.faults import DamageFound, StoreChanged
from reput.store_format.release.settings import SettingError
from reput.udfs.table.export import MessageSums
from tests.damaged import SEGMENT, damaged, messages
from tests.jobs.sources.reading import write

ROW = pa.schema([pa.field("n", pa.int64(), nullable=False)])


def row(n: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": [n]}, ROW)


def test_a_commit_of_ours_is_found_behind_any_number_of_others() -> None:
    """Of a range that was committed and not noted, as its run was killed."""
    texts = [*[""] * 300, "app:9", "other:12", "app:5"]
    asked: list[str] = []

    class History:
        def sql(self, text: str) -> "History":
            asked.append(text.partition("`t`")[2])
            return self

        def select(self, _: str) -> "History":
            return self

        def collect(self) -> list[tuple[str]]:
            return [(text,) for text in (texts[:100] if asked[-1] else texts)]

    writer = DeltaSpark.__new__(DeltaSpark)
    writer.spark = History()  # type: ignore[assignment]
    assert writer.committed("t", "app") == 9
    assert asked == [" LIMIT 100", ""]
    assert writer.committed("t", "third") is None


@pytest.mark.parametrize(
    "url", ["hdfs://host/t", "file:///t", "wasbs://c@h/t", "://t", "webhdfs://host:9870/a/t"]
)
def test_other_urls_than_it_writes_to_are_refused(url: str) -> None:
    """delta-rs takes webhdfs://host:9870, and asks 127.0.0.1 whatever the host."""
    with pytest.raises(SettingError, match=r"^--as delta: deltalake does not write to .*, but to"):
        DeltaRs().about(url)


def test_a_table_of_before_or_of_somebody_else_is_described_by_a_comment(tmp_path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"n": [1]}))
    assert DeltaRs().about(str(tmp_path / "t")) == ""
    DeltaTable.create(tmp_path / "before", ROW, description="what it is")
    assert DeltaRs().about(str(tmp_path / "before")) == "what it is"


def test_each_application_has_its_own_last_commit(tmp_path: Path) -> None:
    path, writer = str(tmp_path / "t"), DeltaRs()
    writer.create(path, ROW, "")
    assert writer.committed(path, "app") is None
    writer.add_row(path, row(1), Commit("app", 1 << 40))
    writer.add_row(path, row(2), Commit("other", 5))
    assert [writer.committed(path, app) for app in ("app", "other", "ap")] == [1 << 40, 5, None]
    assert DeltaRs().committed(path, "app") == 1 << 40
    assert DeltaTable(path).history(1)[0]["userMetadata"] == "other:5"


def test_sums_and_the_last_message_are_of_a_range_without_its_end(tmp_path: Path) -> None:
    log, path, writer = damaged(messages(9)), str(tmp_path / "t"), DeltaRs()
    store = write(log.log, tmp_path / "store")
    job = ChosenLog(None, str(store), str(tmp_path / "out"), "5.3.3", {}, Chosen())
    writer.create(path, job.chosen.columns, "")
    assert writer.last(path, 0, SEGMENT) is None
    assert writer.add_messages(path, job, Range(0, SEGMENT), Commit("app", SEGMENT)) == []
    crcs = [zlib.crc32(each.body) & 0x7FFF_FFFF for each in log.messages]
    found = writer.sums(path, log.places[2], log.places[5])
    assert found == MessageSums(
        3, sum(log.places[2:5]), sum(crcs[2:5]), sum(map(log.size, range(2, 5))),
        log.places[2], log.places[4],
    )  # fmt: skip
    last = writer.last(path, log.places[2], log.places[5])
    assert last == LastMessage(log.places[4], log.size(4), crcs[4])
    assert writer.sums(path, 1, log.places[1]) == MessageSums()
    assert list(writer.wrong_bodies(path)) == []


def test_of_a_log_that_cannot_be_read_its_own_error_comes_and_nothing_is_committed(
    tmp_path: Path,
) -> None:
    log, path, writer = damaged(messages(9)), str(tmp_path / "t"), DeltaRs()
    log.flip(4, 4)
    store = write(log.log, tmp_path / "store")
    job = ChosenLog(None, str(store), str(tmp_path / "out"), "5.3.3", {}, Chosen())
    writer.create(path, job.chosen.columns, "")
    with pytest.raises(DamageFound, match="magic"):
        writer.add_messages(path, job, Range(0, SEGMENT), Commit("app", SEGMENT))
    assert DeltaRs().committed(path, "app") is None
    assert DeltaRs().rows(path) == []


def test_two_exports_at_once_are_told_apart(tmp_path: Path) -> None:
    """Both made the table, or committed the same version: it ended in "this should not happen"."""
    path, first, second = str(tmp_path / "t"), DeltaRs(), DeltaRs()
    first.create(path, ROW, "")
    with pytest.raises(StoreChanged, match="another process has written to the table meanwhile"):
        second.create(path, ROW, "")
    assert second.about(path) == ""
    first.add_row(path, row(1), Commit("app", 5))
    with pytest.raises(StoreChanged, match="run it again, it adds what is new once"):
        second.add_row(path, row(1), Commit("app", 5))
    assert DeltaRs().rows(path) == [{"n": 1}]


class Rows(list[tuple[int, ...]]):
    """As much of a DataFrame, and of a session, as DeltaSpark asks for the last row by."""

    read = property(lambda self: self)
    format = load = where = select = lambda self, *_: self

    def orderBy(self, name: str, ascending: bool = True) -> "Rows":
        assert name == "physicalOffset"
        return Rows(sorted(self, reverse=not ascending))

    def limit(self, count: int) -> "Rows":
        return Rows(self[:count])

    def collect(self) -> "Rows":
        return self


def test_by_spark_too_the_last_message_is_the_last() -> None:
    rows = [(1, 10, 5), (400, 12, 6), (300, 11, 7)]
    writer = DeltaSpark.__new__(DeltaSpark)
    for there, last in ((rows, LastMessage(400, 12, 6)), ([], None)):
        writer.spark = Rows(there)  # type: ignore[assignment]
        assert writer.last("t", 0, 500) == last
