"""Where a path leads: mounts, binds, and what is not there yet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reput.store_format.files import overlap
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.overlap import relation, where_mounted

MOUNTS = r"""21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 8:1 /data/store /mnt/bound\040here rw - ext4 /dev/sda1 rw
31 21 8:2 / /disk2 rw - ext4 /dev/sdb1 rw
32 31 8:1 /data /disk2 rw - ext4 /dev/sda1 rw
"""


@pytest.mark.parametrize(("path", "place"), [
    ("/", ("8:1", "/")), ("/data/store", ("8:1", "/data/store")),
    ("/mnt/bound here", ("8:1", "/data/store/")), ("/mnt/bound here/x", ("8:1", "/data/store/x")),
    ("/mnt/bound herex", ("8:1", "/mnt/bound herex")), ("/disk2/store", ("8:1", "/data/store")),
])  # fmt: skip
def test_where_a_path_is_on_its_file_system(path: str, place: tuple[str, str]) -> None:
    assert where_mounted(path, MOUNTS) == place


_BOUND = """
import os, subprocess, sys
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.overlap import relation
top = sys.argv[1]
for name in ("store", "store/commitlog", "mnt", "sub", "up/er"):
    os.makedirs(f"{top}/{name}")
for source, at in (("store", "mnt"), ("store/commitlog", "sub"), (".", "up/er")):
    subprocess.run(["mount", "--bind", f"{top}/{source}", f"{top}/{at}"], check=True)
where = LocalStorage().whereabouts
store = where(f"{top}/store")
for path in ("mnt", "mnt/x", "sub", "sub/x/y", "up/er/store", "up/er", "up/er/mnt", "up/er/other"):
    print(path, relation(where(f"{top}/{path}"), store))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts: wants root")
def test_bind_mounts(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", _BOUND, str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    if done.returncode and ("unshare" in done.stderr or "mount" in done.stderr):
        pytest.skip(f"no mounts of its own here: {done.stderr.splitlines()[-1]}")
    assert dict(line.split(" ", 1) for line in done.stdout.splitlines()) == {
        "mnt": "is", "mnt/x": "lies inside", "sub": "lies inside", "sub/x/y": "lies inside",
        "up/er/store": "is", "up/er": "holds", "up/er/mnt": "None", "up/er/other": "None",
    }, done.stderr  # fmt: skip


@pytest.mark.parametrize("mounts", ["/proc/self/mountinfo", "/nowhere"])  # no Linux, or no /proc
def test_folders_above_and_below(mounts: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(overlap, "_MOUNTS", mounts)
    (tmp_path / "store" / "commitlog").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "store" / "commitlog")
    where = LocalStorage().whereabouts
    store = where(str(tmp_path / "store"))
    assert relation(where(str(tmp_path / "link")), store) == "lies inside"
    assert relation(where(str(tmp_path / "link" / "new")), store) == "lies inside"
    assert relation(where(str(tmp_path)), store) == "holds"
    assert relation(where(str(tmp_path / "other")), store) is None


def test_names_that_are_not_there_yet(tmp_path: Path) -> None:
    where = LocalStorage().whereabouts
    new = where(str(tmp_path / "New" / "store"))
    assert relation(where(str(tmp_path / "new" / "STORE" / "x")), new) == "lies inside"
    assert relation(where(str(tmp_path / "new")), new) == "holds"
    assert relation(where(str(tmp_path / "newer")), new) is None
    assert relation(where(str(tmp_path / "new" / "store2")), new) is None
