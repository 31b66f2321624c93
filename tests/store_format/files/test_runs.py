"""A run's JSON: it is read as it was written, and an edited one is refused by file and field."""

import json
import struct
import zlib
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pyarrow
import pytest

from reput.store_format.faults import StoreError
from reput.store_format.files import catalogue, frames
from reput.store_format.files.runs import Forget, Kept, as_bytes, parse_check, parse_run
from tests.built import Built
from tests.format_pages import HEX_BLOCK, Block, parts, text_of
from tests.jobs.repository.backing import whole_log
from tests.store_format.files.repositories import piece, run_of


def test_an_edited_run_or_check_is_refused_by_file_and_field() -> None:
    for change, said in [(_change("format", "reput-repository-9"), "reput-repository-9"),
        (_change("run", 8), "run: 8 is not"), (_change("kind", "copy"), 'kind: "copy"'),
        (_change("parent", 2), "parent: 2 is not a run before"),
        (_change("from", 999), "from: 999"), (_change("end", 99), "end: 99"),
        (_change("settings", {"a": 1}), "settings"),
        (_change("pieces", 0, "sha256", "../x"), r"pieces\[0\].sha256"),
        (_change("pieces", 0, "length", 1 << 40), r"pieces\[0\].length"),
        (_change("pieces", 1, "offset", 41), r"pieces\[1\].offset"),
        (_change("pieces", 0, "times", [5, 1]), r"pieces\[0\].times"),
        (_change("pieces", 0, "stored", True), r"pieces\[0\].stored"),
        (_change("state", 0, "path", "../../etc/passwd"), r"state\[0\].path"),
        (_change("state", 0, "path", "/etc/passwd"), r"state\[0\].path"),
        (_change("expired", [["T", 1]]), "expired"),
        (_change("last", "offset", -1), "last.offset: -1")]:  # fmt: skip
        whole = json.loads(as_bytes(run_of(2, 1, 40, 60, 80).as_json()))
        change(whole)
        with pytest.raises(StoreError, match=f"^x/2.json: .*{said}"):
            parse_run(as_bytes(whole), "x/2.json", 2)
    for raw, said in [("[1]", "format is null"), ("3", "format is null"),
        ('{"format": "reput-rep', "is not JSON"), ("{}", "runs: null is not names with texts"),
        ('{"runs": {"1": 2}}', "runs: "), ('{"runs": {}}', "pieces: null is not names with texts"),
        ('{"runs": {}, "pieces": ["a"]}', r"pieces: \["), (
        '{"runs": {}, "pieces": {}, "checked": "now"}',
        'checked: "now" is not a whole number')]:  # fmt: skip
        if raw.endswith("}"):
            raw = json.dumps({"format": "reput-repository-1", "checked": 1} | json.loads(raw))
        with pytest.raises(StoreError, match=f"^x/checks/a.json: {said}"):
            parse_check(raw.encode(), "x/checks/a.json")
    run = run_of(2, 1, 40, 60, 80, gap=(30, 40), without=("secrets",), forget=1,
        expired=(("T", 0, 1, 2, 3, 4, 5, 6),), more={"new": [1]})  # fmt: skip
    assert parse_run(as_bytes(run.as_json()), "f", 2) == run
    forget = Forget(3, 9, (1,), {2: Kept(0, 0, (piece(0, 40),))})
    assert parse_run(as_bytes(forget.as_json()), "f", 3) == forget


def _change(*path: Any) -> Callable[[dict[str, Any]], None]:
    *way, last, value = path

    def change(whole: Any) -> None:
        for each in way:
            whole = whole[each]
        whole[last] = value

    return change


# --- docs/formats/repository.md: its example is decoded, each field and file of a backup is on it.
PAGE = text_of("repository")
LOG = whole_log(Built().put(count=2))
((NAME, _LINES),) = HEX_BLOCK.findall(PAGE)
PARTS = parts(Block("repository", "", NAME, _LINES.splitlines()))


def test_the_example_is_a_piece_of_a_log_and_each_field_is_on_the_page() -> None:
    frame, *numbers = PARTS
    assert pyarrow.decompress(frame.raw, len(LOG), "zstd", asbytes=True) == LOG
    crc, stored, plain, count = (struct.unpack("<I", part.raw)[0] for part in numbers
        if part.name in ("CRC-32", "stored", "plain", "frames"))  # fmt: skip
    assert (crc, stored, plain, count) == (zlib.crc32(LOG), len(frame.raw), len(LOG), 1)
    raw = b"".join(part.raw for part in PARTS)
    assert frames.decode_all(raw, len(LOG)).tobytes() == LOG
    ends = [part.offset + len(part.raw) for part in PARTS]
    assert ends[:-1] == [part.offset for part in PARTS[1:]]
    made = piece(0, len(LOG))._replace(sha256=sha256(LOG).hexdigest())
    assert made.name == NAME
    run = json.loads(as_bytes(run_of(2, 1, 40, 60).as_json()))
    forget = Forget(3, 9, (1,), {2: Kept(0, 0, (piece(0, 40),))}).as_json()
    within = [*run["pieces"][0], *run["state"][0], *run["last"], "parent_end", "differs_at"]
    for name in {*run, *forget, *forget["kept"]["2"], *within}:
        assert f"`{name}`" in PAGE, name
    folders = (catalogue.RUNS, catalogue.LOG, catalogue.STATE, catalogue.CHECKS)
    for each in (*(f"{name}/" for name in folders), catalogue.CLAIM, catalogue.MARKER):
        assert each in PAGE
