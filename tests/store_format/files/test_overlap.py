"""Whether two paths lead to one folder, or one into the other."""

import os
from pathlib import Path

import pytest

from reput.store_format.files.overlap import (
    by_key,
    by_parts,
    on_this_machine,
    relation,
    where_mounted,
)


def test_one_place_may_have_several_names(root: Path) -> None:
    for one, other, wanted in [("a/b", "a/b", "is"), ("a", "a/b", "holds"),
        ("a/b/c", "a", "lies inside"), ("a/b", "a/bc", None), ("a//b/", "a/b", "is"),
        ("a/x/../b", "a/b", "is"), ("../a", "a", "is"), ("", "a", "holds"),
        ("a/./b", "a/b/c", "holds")]:  # fmt: skip
        assert relation(by_key(("s3",), one), by_key(("s3",), other)) == wanted
        back = {"holds": "lies inside", "lies inside": "holds"}
        assert relation(by_key(("s3",), other), by_key(("s3",), one)) == back.get(
            wanted or "", wanted
        )
        assert relation(by_key(("s3",), one), by_key(("gs",), other)) is None
    for one, other, wanted in [("a", "a/b", "holds"), ("link", "a/b", "is"),
        ("link", "a", "lies inside"), ("a/../a/b/.", "a/b", "is"), ("c/../link", "link", "is"),
        ("a", "c", None),
        ("dangling", "a/new", "is"),  # nothing is there yet
        ("a/new/x", "a/NEW", None),  # as this disk tells case apart
        ("a/new", "a/newer", None), ("c/new", "a/new", None)]:  # fmt: skip
        found = relation(on_this_machine(f"{root}/{one}"), on_this_machine(f"{root}/{other}"))
        assert found == wanted
    for path, device, inside in [("/", "8:1", "/"), ("/database", "8:1", "/database"),
        ("/data", "8:2", "/"), ("/data/x/y", "8:2", "/x/y"),
        ("/mnt/a b/x", "8:2", "/inner/x"),  # a bind mount
        ("/mnt/a b", "8:2", "/inner/"),
        ("/data/top/x", "8:3", "/x")  # the last of two at one point is seen
        ]:  # fmt: skip
        assert where_mounted(path, MOUNTS) == (device, inside)


def test_names_differ_by_case_where_the_disk_tells_them_apart(tmp_path, monkeypatch) -> None:
    found = by_parts(("root",), ["a", "b"])
    assert found.itself == {("root", "a", "b")}
    assert found.above == {("root",), ("root", "a")}
    (tmp_path / "store").mkdir()
    names = [on_this_machine(str(tmp_path / name)) for name in ("store", "Store", "STORE/x")]
    assert relation(names[1], names[0]) is None
    assert relation(names[2], names[0]) is None
    assert relation(names[2], names[1]) is None
    monkeypatch.setattr(os.path, "lexists", lambda path: os.access(path.lower(), os.F_OK))
    plain = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: plain(path.lower()))
    same = [on_this_machine(str(tmp_path / name)) for name in ("store", "new", "NEW")]
    assert relation(same[1], same[2]) == "is"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    (tmp_path / "link").symlink_to("a/b")
    (tmp_path / "dangling").symlink_to("a/new")
    return tmp_path


MOUNTS = r"""21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 8:2 / /data rw shared:1 - ext4 /dev/sdb1 rw
23 21 8:2 /inner /mnt/a\040b rw - ext4 /dev/sdb1 rw
24 22 0:40 / /data/top rw - tmpfs tmpfs rw
25 22 8:3 / /data/top rw - ext4 /dev/sdc1 rw
"""
