"""What a replication from a folder says at its end, and what it does with offsets and damage."""

import json
from pathlib import Path
from typing import Any

import pytest

from reput.jobs.opening.questions import open_store
from tests.jobs.replicating.stores import log_of, make_store, record_starts, run


@pytest.mark.parametrize(("options", "why"),
                         [({}, "zeros: the rest of the log is not used yet"),
                          ({"to_offset": 92}, "as far as was wanted")])  # fmt: skip
def test_a_copy_says_why_it_ended(tmp_path: Path, options: dict[str, Any], why: str) -> None:
    source = make_store(tmp_path / "source", 3)
    about = run(source, tmp_path / "target", derive=False, **options)
    assert about.end_reason == why
    assert about.records == (0 if options else 3)  # the first one has 93 bytes


def test_groups_offsets_go_no_further_than_a_replica_that_ends_earlier(tmp_path: Path) -> None:
    """Else a group would skip what comes after it; no offsets would have it read all again."""
    source = make_store(tmp_path / "source")
    offsets = {"offsetTable": {"T0@g": {"0": 99}, "T1@g": {"0": 1}, "Later@g": {"0": 7}}}
    (source / "config/consumerOffset.json").write_text(json.dumps(offsets))
    whole = run(source, tmp_path / "whole")
    assert whole.offsets == ""
    starts, _ = record_starts(log_of(source))
    about = run(source, tmp_path / "target", to_offset=starts[20])
    assert about.offsets.startswith("the groups' offsets are those of now")
    assert "2 of them were past the end as of then" in about.offsets
    assert about.text().splitlines()[1].startswith("  offsets   the groups' offsets")
    found = json.loads((tmp_path / "target/config/consumerOffset.json").read_text())["offsetTable"]
    with open_store(str(tmp_path / "target"), rocketmq="5.3.3") as opened:
        end = max(each.queue_offset for each in opened.messages() if each.topic == "T0") + 1
    assert found == {"T0@g": {"0": end}, "T1@g": {"0": 1}, "Later@g": {"0": 0}}
    of_lmq = {"offsetTable": {"T0@g": {"0": 99}}, "lmqOffsetTable": {"%LMQ%a@%LMQ%a": 3}}
    (source / "config/lmqConsumerOffset.json").write_text(json.dumps(of_lmq))
    run(source, tmp_path / "lmq", to_offset=starts[20])
    found = json.loads((tmp_path / "lmq/config/lmqConsumerOffset.json").read_text())
    assert found["offsetTable"]["T0@g"] == {"0": end}
    assert found["lmqOffsetTable"] == {"%LMQ%a@%LMQ%a": 0}
    alone = run(source, tmp_path / "log", to_offset=starts[20], derive=False)
    assert alone.offsets.startswith("none: there are no queues")
