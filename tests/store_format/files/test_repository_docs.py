"""docs/formats/repository.md says what is in a repository: its example is decoded, and each field
and file that a backup writes is on it.
"""

import json
import shutil
import struct
import subprocess
import zlib
from hashlib import sha256
from pathlib import Path

import pyarrow
import pytest

from reput.store_format.files import catalogue, frames
from reput.store_format.files.runs import Forget, Kept, as_bytes
from tests.built import Built
from tests.format_pages import HEX_BLOCK, Block, parts, text_of
from tests.jobs.repository.backing import whole_log
from tests.store_format.files.repositories import piece, run_of

PAGE = text_of("repository")
LOG = whole_log(Built().put(count=2))
((NAME, _LINES),) = HEX_BLOCK.findall(PAGE)
PARTS = parts(Block("repository", "", NAME, _LINES.splitlines()))


def test_the_example_is_a_piece_of_a_log() -> None:
    frame, *numbers = PARTS
    assert pyarrow.decompress(frame.raw, len(LOG), "zstd", asbytes=True) == LOG
    crc, stored, plain, count = (
        struct.unpack("<I", part.raw)[0] for part in numbers
        if part.name in ("CRC-32", "stored", "plain", "frames")
    )  # fmt: skip
    assert (crc, stored, plain, count) == (zlib.crc32(LOG), len(frame.raw), len(LOG), 1)
    raw = b"".join(part.raw for part in PARTS)
    assert frames.decode_all(raw, len(LOG)).tobytes() == LOG
    ends = [part.offset + len(part.raw) for part in PARTS]
    assert ends[:-1] == [part.offset for part in PARTS[1:]]
    made = piece(0, len(LOG))._replace(sha256=sha256(LOG).hexdigest())
    assert made.name == NAME


def test_zstd_itself_reads_it(tmp_path: Path) -> None:
    tool = shutil.which("zstd")
    if tool is None:
        pytest.skip("no zstd on this machine")
    (tmp_path / NAME).write_bytes(b"".join(part.raw for part in PARTS))
    done = subprocess.run([tool, "-dc", str(tmp_path / NAME)], capture_output=True, check=True)
    assert done.stdout == LOG


def test_each_field_and_folder_is_on_the_page() -> None:
    run = json.loads(as_bytes(run_of(2, 1, 40, 60).as_json()))
    forget = Forget(3, 9, (1,), {2: Kept(0, 0, (piece(0, 40),))}).as_json()
    within = [*run["pieces"][0], *run["state"][0], *run["last"], "parent_end", "differs_at"]
    for name in {*run, *forget, *forget["kept"]["2"], *within}:
        assert f"`{name}`" in PAGE, name
    folders = (catalogue.RUNS, catalogue.LOG, catalogue.STATE, catalogue.CHECKS)
    for each in (*(f"{name}/" for name in folders), catalogue.CLAIM, catalogue.MARKER):
        assert each in PAGE
