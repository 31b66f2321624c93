"""The manifest beside derived files, as text."""

import json

import pytest

from reput.jobs.outputs.output import manifest_text, read_manifest
from reput.jobs.outputs.report import OutputFile, Summary
from reput.store_format.faults import StoreError
from reput.store_format.files.folder import Folder
from tests.memory_storage import MemoryStorage


def test_a_line_for_each_name_and_each_file() -> None:
    summary = Summary("s", "o", "5.3.3", {"release": "5.3.3"}, {}, 0, 1, "ends")
    summary.files = [OutputFile("consumequeue/ü\n/0", 20, "00", 1), OutputFile("index/1", 40, "01")]
    text = manifest_text(summary.manifest())
    whole = json.loads(text)
    assert [each["path"] for each in whole["files"]] == ["consumequeue/ü\n/0", "index/1"]
    assert (whole["rocketmq"], whole["warnings"], whole["damage"]) == ("5.3.3", [], None)
    assert "seconds" not in whole
    lines = text.decode().splitlines()
    assert len(lines) == 2 + len(whole) + 3  # braces, names, and two files in brackets
    assert [line for line in lines if "index/1" in line] == [
        '  {"entries": 0, "length": 40, "path": "index/1", "sha256": "01", "written": null}'
    ]
    assert summary.as_json()["output_files"] == 2


@pytest.mark.parametrize("raw", [b"{", b"[" * 100_000, b'{"a":' * 50_000])
def test_a_manifest_that_cannot_be_read_is_named(raw: bytes) -> None:
    with pytest.raises(StoreError, match=r"s/manifest\.json: cannot be read"):
        read_manifest(Folder(MemoryStorage({"s/manifest.json": raw}), "s"))
