"""Folders for what is loaded as code: nobody else may be able to change what is in them."""

import os
import stat
from pathlib import Path

import pytest

from reput.store_format.files.private import NotPrivate, private_folder, safe_parent


def folder(path: Path, mode: int) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


def test_missing_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    made = Path(private_folder(f"{tmp_path}/a/./b//c"))
    assert made == tmp_path / "a" / "b" / "c"
    modes = [stat.S_IMODE(each.stat().st_mode) for each in (made, made.parent, tmp_path / "a")]
    assert modes == [0o700] * 3
    assert private_folder(str(made)) == str(made)


@pytest.mark.parametrize(
    ("mode", "private", "parent"),
    [
        (0o700, True, True),
        (0o755, True, True),
        (0o720, False, False),
        (0o702, False, False),
        (0o777, False, False),
        (0o1777, False, True),  # as /tmp: nobody can rename another's files
        (0o1720, False, True),
    ],
)
def test_others_may_not_write_to_it_but_a_parent_may_be_sticky(
    tmp_path: Path, mode: int, private: bool, parent: bool
) -> None:
    path = str(folder(tmp_path / "there", mode))
    for check, fine in ((private_folder, private), (safe_parent, parent)):
        if fine:
            assert check(path) == path
        else:
            with pytest.raises(NotPrivate, match="there: others may write to it"):
                check(path)


@pytest.mark.parametrize(("mode", "fine"), [(0o755, True), (0o777, False), (0o1777, True)])
def test_no_folder_above_may_be_changed_by_others(tmp_path: Path, mode: int, fine: bool) -> None:
    below = folder(tmp_path / "above", mode) / "below"
    if fine:
        assert private_folder(str(below)) == str(below)
        return
    with pytest.raises(NotPrivate, match="above: others may write to it"):
        private_folder(str(below))
    assert not below.exists()


def test_links_are_followed_and_what_they_lead_through_is_checked(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", 0o700)
    (tmp_path / "absolute").symlink_to(target)
    (tmp_path / "up").symlink_to("target/../target")
    for name in ("absolute", "up"):
        assert private_folder(f"{tmp_path}/{name}/x") == f"{target}/x"
    (folder(tmp_path / "open", 0o777) / "inner").mkdir(mode=0o700)
    (tmp_path / "through").symlink_to("open/inner")
    with pytest.raises(NotPrivate, match="open: others may write to it"):
        private_folder(f"{tmp_path}/through")


def test_a_circle_of_links_a_file_and_a_foreign_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "file").write_bytes(b"")
    for name, reason in (
        ("one", "too many links"),
        ("file", "is not a folder"),
        ("file/x", "file"),
    ):
        with pytest.raises(NotPrivate, match=reason):
            private_folder(f"{tmp_path}/{name}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_or_link_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = folder(tmp_path / "theirs", 0o755)
    os.chown(theirs, 12345, 12345)
    (tmp_path / "link").symlink_to(tmp_path)
    os.chown(tmp_path / "link", 12345, 12345, follow_symlinks=False)
    for path in (theirs, theirs / "below", tmp_path / "link"):
        with pytest.raises(NotPrivate, match="belongs to user 12345"):
            safe_parent(str(path))
