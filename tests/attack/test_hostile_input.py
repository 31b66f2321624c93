"""Hostile stores: each gets the error that the table says, and reaches nothing but its output."""

import re
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from reput.jobs import cli
from reput.jobs.console.options import DAMAGE, DONE
from reput.store_format.layouts import INDEX_HEADER_BYTES
from tests.damaged import SETTINGS
from tests.in_process import as_text
from tests.reliability.hostile import COUNT, STORES, Hostile, each

MEMORY_MOST = 96 << 20  # windows and tables of a scan; the stores say up to 2 GiB


def reput(command: str, store: Path, *words: str, settings: Any = SETTINGS) -> int:
    sizes = [f"--set={name}={value}" for name, value in as_text(settings).items()]
    return cli.main([command, str(store), "--rocketmq", "5.3.3", *sizes, *words])


def tree(root: Path) -> dict[Path, tuple[int, int]]:
    return {path: (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in root.rglob("*") if not path.is_dir()}  # fmt: skip


@pytest.mark.parametrize("hostile", STORES, ids=[hostile.name for hostile in STORES])
def test_a_hostile_store(hostile: Hostile, tmp_path, capsys) -> None:
    store = tmp_path / "a" / "b" / "store"
    hostile.make(store)
    around = store.parent / "around"
    around.mkdir()
    before = tree(tmp_path)
    tracemalloc.start()
    code = reput("rebuild", store, "--output", str(around / "output"), settings=hostile.settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    said = "".join(capsys.readouterr())
    assert re.search(hostile.says, said), said
    assert code == hostile.code
    assert "Traceback" not in said
    assert peak < MEMORY_MOST
    made = {path: about for path, about in tree(tmp_path).items() if path not in before}
    assert {path: about for path, about in tree(tmp_path).items() if path in before} == before
    if hostile.left is None:
        assert not list(around.iterdir())
    else:
        assert f"{hostile.left} messages" in said
        assert all(path.is_relative_to(around / "output") for path in made)


def index_with_cycle(output: Path) -> Path:
    """The index file, with its newest entry in some slot leading back to itself."""
    path = next((output / "index").iterdir())
    content = bytearray(path.read_bytes())
    slots = SETTINGS["maxHashSlotNum"]
    (newest,) = struct.unpack_from(">i", content, INDEX_HEADER_BYTES)
    entry = INDEX_HEADER_BYTES + 4 * slots + 20 * newest
    struct.pack_into(">i", content, entry + 16, newest)
    path.write_bytes(content)
    return path


def test_a_cycle_in_an_index_chain_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, output = tmp_path / "store", tmp_path / "output"
    each()(store)
    assert reput("rebuild", store, "--output", str(output)) == DONE
    path = index_with_cycle(output)
    capsys.readouterr()
    assert cli.main(["dump", str(path), "--set", "maxHashSlotNum=7"]) == DAMAGE
    said = capsys.readouterr().out
    steps = re.search(r"a cycle: comes back to entry \d+ after (\d+) steps", said)
    assert steps
    assert int(steps[1]) < SETTINGS["maxIndexNum"]
    assert "previous" in said
    assert len(said.splitlines()) < 8 * COUNT
    assert reput("verify", store, "--against", str(output)) == DAMAGE
    assert "previous: is" in capsys.readouterr().out
