"""`reput export --engine spark --as delta`: a Delta table by a local session."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.damaged import damaged, messages
from tests.jobs.sources.reading import write


@pytest.mark.spark
@pytest.mark.long
def test_a_local_session_has_delta_and_reads_back_what_it_wrote(tmp_path: Path) -> None:
    log = damaged(messages(60))
    store, to = write(log.log, tmp_path / "store"), tmp_path / "out"
    words = [sys.executable, "-m", "reput", "export", store, "--output", to, "--engine", "spark"]
    words += ["--rocketmq", "5.3.3", "--set", "mappedFileSizeCommitLog=4096", "--json"]
    for more in (["--as", "delta"], ["--verify"]):
        done = subprocess.run(
            [*map(str, words), *more], capture_output=True, text=True, timeout=600
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["messages"] == 60
    read = DeltaTable(to / "messages").to_pyarrow_table().sort_by("physicalOffset").to_pylist()
    assert [row["physicalOffset"] for row in read] == log.places
