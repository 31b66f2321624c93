"""Messages by topic and time are those counted one after the other, in spans that fit."""

from collections import Counter
from pathlib import Path

import pytest

from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Notes
from reput.store_format.query import counts as module
from reput.store_format.query.counts import SPANS_MOST, PutSums, PutTimes
from reput.store_format.query.reader import NEWEST, OpenedStore
from tests import golden_stores
from tests.broker.writer.stores import stored_records
from tests.built import write_log
from tests.in_process import as_text
from tests.logs.encoder import Message, build_log

AT = 1_700_000_000_000


def counted(store: Path, settings: dict[str, str] | None = None) -> PutTimes:
    with OpenedStore(Folder(LocalStorage(), str(store)), NEWEST, settings or {}, Notes()) as opened:
        sums = PutSums(True, [])
        for step in opened.log.steps_past_damage(lambda _: None):
            if len(step.rows):
                sums.add(step)
        return sums.times()


def store_of(messages: list[Message], to: Path) -> Path:
    return write_log(to, build_log(messages, 1 << 20))


def test_spans_are_those_of_one_record_after_the_other() -> None:
    golden = golden_stores.unpack("mixed_5.3.3")
    found = counted(golden.input, as_text(golden.settings))
    wanted: Counter[tuple[str, int]] = Counter()
    sizes: Counter[int] = Counter()
    for record in stored_records(golden.input / "commitlog"):
        topic = record.topic
        wanted[topic, record.store_timestamp // found.width * found.width] += record.size
        sizes[1 << record.size.bit_length() - 1] += 1
    assert {(row.topic, row.begin): row.bytes for row in found.spans} == wanted
    assert {row.size: row.records for row in found.sizes} == sizes
    assert sum(row.bytes for row in found.topics) == sum(wanted.values())


@pytest.mark.parametrize(
    ("apart", "width"), [(10, 1), (1000, 5), (60_000, 300), (3_600_000, 21_600), (10**10, 60 << 40)]
)
def test_spans_grow_with_the_log(tmp_path: Path, apart: int, width: int) -> None:
    """1,000 messages so many milliseconds apart: hundreds of spans at most, and none is lost."""
    messages = [Message(topic=f"T{n % 3}", store_timestamp=AT + n * apart) for n in range(1000)]
    found = counted(store_of(messages, tmp_path))
    begins = {row.begin for row in found.spans}
    assert len(begins) <= SPANS_MOST
    assert sum(row.messages for row in found.spans) == 1000
    assert all(begin % found.width == 0 for begin in begins)
    if apart < 10**9:
        assert found.width == width * 1000


def test_many_topics_at_many_times_stay_few_rows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_KEYS_MOST", 150)
    messages = [
        Message(topic=f"T{n % 100}", store_timestamp=AT + n % 7 * 3_600_000) for n in range(2000)
    ]
    found = counted(store_of(messages, tmp_path))
    assert len(found.spans) <= 150
    assert len(found.topics) == 100
    assert sum(row.messages for row in found.spans) == 2000
