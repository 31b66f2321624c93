"""The example of docs/writer.md runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

from tests.broker.writer.stores import stored_records
from tests.pages import ROOT

PAGE = ROOT / "docs" / "writer.md"


def test_the_first_example_of_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    example = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert example
    done = subprocess.run(
        [sys.executable, "-c", example[1]], cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    by_table, record = stored_records(tmp_path / "store" / "commitlog")
    place = record.physical_offset
    assert done.stdout == f"PUT_OK {place} 0 7F00000100002A9F{place:016X}\n"
    assert (record.topic, record.queue_id, record.body) == ("Orders", 2, b"...")
    assert (by_table.topic, by_table.queue_id, by_table.body) == ("Orders", 0, b"...")
