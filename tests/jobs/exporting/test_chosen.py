"""The messages of a log that an export takes: which, of which stretch, and what is left of them."""

from pathlib import Path
from typing import Any

import pytest

from reput.jobs.exporting.chosen import ChosenLog
from reput.jobs.exporting.files import Chosen
from reput.store_format.release.settings import SettingError
from tests.damaged import SEGMENT, Damaged, damaged, messages
from tests.jobs.sources.reading import write
from tests.logs.encoder import Message, properties


def chosen(tmp_path: Path, log: Damaged, **options: Any) -> ChosenLog:
    store = tmp_path / "store"
    if not store.exists():
        write(log.log, store)
    return ChosenLog(None, str(store), str(tmp_path / "out"), "5.3.3", {}, Chosen(**options))


def places(job: ChosenLog, start: int = 0, end: int = 1 << 40) -> list[int]:
    batches = job.batches(start, end, [], raw=False)
    return [place for batch in batches for place in batch["physicalOffset"].to_pylist()]


def test_a_stretch_has_the_messages_that_begin_in_it_and_ends_where_a_segment_does(tmp_path):
    log = damaged(messages(60))
    job = chosen(tmp_path, log)
    assert places(job) == log.places
    assert places(job, log.places[5], log.places[9]) == log.places[5:9]
    assert places(job, SEGMENT, SEGMENT) == []
    assert len(job.log.segments) == 2
    for start, end, ranges in [
        (0, 2 * SEGMENT, [(0, SEGMENT), (SEGMENT, 2 * SEGMENT)]),
        (7, SEGMENT + 1, [(7, SEGMENT), (SEGMENT, SEGMENT + 1)]),
        (SEGMENT, SEGMENT + 9, [(SEGMENT, SEGMENT + 9)]),
        (SEGMENT - 1, SEGMENT, [(SEGMENT - 1, SEGMENT)]), (9, 9, []), (9, 8, []),
        (1 << 40, 1 << 41, []),
    ]:  # fmt: skip
        assert job.ranges(start, end) == ranges


def test_redacted_values_are_looked_for_in_the_whole_log_before_a_part_is_written(tmp_path) -> None:
    """The value stands in the first segment, and is repeated by another property in the second."""
    first = Message("T", properties=properties(("phone", "12345678")))
    others = [
        Message("T", queue_offset=1 + n, body=b"x" * 60, properties=properties(("b", "12345678")))
        for n in range(40)
    ]
    log = damaged([first, *others])
    job = chosen(tmp_path, log, redact=("property:phone",))
    job.look_through(SEGMENT, 2 * SEGMENT, {}, False, [])
    batches = list(job.batches(SEGMENT, 2 * SEGMENT, [], raw=False))
    found = [pairs for batch in batches for pairs in batch["properties"].to_pylist()]
    assert found == [[]] * sum(place >= SEGMENT for place in log.places)
    with pytest.raises(SettingError, match="stands in the options, the notes too"):
        chosen(tmp_path, log, redact=("property:phone",), sql="phone = '12345678'").look_through(
            0, SEGMENT, {"the notes": "12345678."}, False, []
        )
