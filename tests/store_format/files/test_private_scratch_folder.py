"""A scratch folder is its process's own, and a leftover once that was killed."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from reput.jobs.clean import clean
from reput.store_format.files.private import Scratch, scratch_folder

_HOLD = """
import sys
from reput.store_format.files.private import Scratch, scratch_folder
with scratch_folder(Scratch.ROCKSDB) as folder:
    open(folder + "/CURRENT", "x").close()
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary folder of these tests' own: others may have leftovers in the usual one."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    monkeypatch.setattr(tempfile, "tempdir", folder)
    monkeypatch.setenv("TMPDIR", folder)


@pytest.mark.parametrize("prefix", Scratch)
def test_it_is_private_and_goes(tmp_path: Path, prefix: Scratch) -> None:
    with scratch_folder(prefix) as folder:
        assert os.path.dirname(folder) == tempfile.gettempdir()
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        Path(folder, "file").touch()
        assert clean(str(tmp_path), dry_run=True).leftovers == []
    assert not os.path.exists(folder)


def test_it_goes_after_an_error() -> None:
    with pytest.raises(ValueError, match="of no use"), scratch_folder(Scratch.TABLE) as folder:
        raise ValueError("of no use")
    assert not os.path.exists(folder)


def test_a_killed_process_leaves_it_to_clean(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _HOLD]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = process.stdout.readline().strip()
        assert clean(str(tmp_path), dry_run=True).leftovers == []
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert clean(str(tmp_path)).leftovers == [folder]
    assert not os.path.exists(folder)
