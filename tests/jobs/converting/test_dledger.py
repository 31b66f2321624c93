"""A DLedger group's store becomes a plain one: its messages at their positions, without heads."""

from pathlib import Path
from typing import Any

import pytest

from reput.jobs.convert import convert
from reput.jobs.opening.questions import open_store
from reput.jobs.pipeline.pipeline import Cut
from tests.converted import records
from tests.in_process import Session, as_text
from tests.store_format.log.dledger_stores import NAMES, unpack


def told(folder: Path, about: dict[str, Any]) -> list[tuple[Any, ...]]:
    with open_store(str(folder), rocketmq=about["rocketmq"]) as store:
        return [
            (each.topic, each.queue_id, each.queue_offset, each.body(), each.properties)
            for each in store.messages()
        ]


@pytest.mark.parametrize("splits", [1, 5])
@pytest.mark.parametrize("name", NAMES)
def test_the_messages_of_a_group(name: str, splits: int, tmp_path: Path) -> None:
    folder, about = unpack(name, tmp_path / "group")
    made, sizes = tmp_path / "made", as_text(about["sizes"])
    segment = int(about["sizes"]["mappedFileSizeCommitLog"])
    summary = convert(
        Session(), str(folder), str(made), rocketmq=about["rocketmq"], settings=sizes,
        cut=Cut(-(-segment // splits), 2, 2),
    )  # fmt: skip
    log = {int(path.name): path.read_bytes() for path in (made / "commitlog").iterdir()}
    assert len(records(log)) == summary.messages
    assert "enableDLegerCommitLog" not in summary.settings
    before = told(folder, about)
    assert before
    assert told(made, about) == before
