"""What Python processes that run tasks are started with."""

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import reput
from reput.jobs.engines import folders

HERE = str(Path(reput.__file__).parent.parent)


@pytest.mark.parametrize(
    ("given", "path"),
    [({}, HERE), ({"PYTHONPATH": ""}, HERE), ({"PYTHONPATH": "/a:/b"}, f"{HERE}:/a:/b")],
)
def test_our_packages_come_first_and_the_current_folder_never(
    given: dict[str, str], path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = folders.our_packages(given)
    assert found == {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    assert all(os.path.isabs(part) for part in found["PYTHONPATH"].split(os.pathsep))


def test_the_environment_says_it_within_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPUT_TEST_A", "before")
    monkeypatch.delenv("REPUT_TEST_B", raising=False)
    with folders.environment({"REPUT_TEST_A": "within", "REPUT_TEST_B": ""}):
        assert (os.environ["REPUT_TEST_A"], os.environ["REPUT_TEST_B"]) == ("within", "")
    assert os.environ["REPUT_TEST_A"] == "before"
    assert "REPUT_TEST_B" not in os.environ
    with pytest.raises(KeyError), folders.environment({"REPUT_TEST_B": "x"}):
        raise KeyError
    assert "REPUT_TEST_B" not in os.environ


# --- A session's temporary folder: ours, held while it lives, and removed when nobody holds it.
NAME = re.compile(r"reput-spark-[0-9a-f]{10}")


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of ours with a short name, as $TMPDIR."""
    with tempfile.TemporaryDirectory(prefix="rs", dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


def left(parent: Path, name: str = "reput-spark-0123456789", mode: int = 0o700) -> str:
    (parent / name / "blockmgr").mkdir(parents=True)
    (parent / name).chmod(mode)
    return str(parent / name)


def here(parent: Path) -> list[str]:
    """The abandoned ones of this test: others may have left some in /tmp."""
    return [path for path in folders.abandoned_session_folders() if path.startswith(f"{parent}/")]


def test_a_folder_is_ours_alone_and_in_use_until_it_is_let_go(parent: Path) -> None:
    folder, release = folders.make_session_folder()
    assert os.path.dirname(folder) == str(parent)
    assert NAME.fullmatch(os.path.basename(folder))
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert here(parent) == []
    assert not folders.remove_session_folder(folder)
    assert os.path.isdir(folder)
    release()
    assert here(parent) == [folder]


@pytest.mark.parametrize("name", ["with,comma", "n" * 40, "others"])
def test_a_parent_that_spark_cannot_take_is_passed_over(parent, name: str, monkeypatch) -> None:
    """Spark parts its list of folders at commas, and a socket's path has 107 bytes at most.

    others: without the sticky bit they rename what is ours."""
    (parent / name).mkdir()
    (parent / name).chmod(0o777 if name == "others" else 0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(parent / name))
    folder, release = folders.make_session_folder()
    release()
    os.rmdir(folder)
    assert os.path.dirname(folder) == "/tmp"


def test_what_a_killed_session_left_is_removed_with_all_in_it(parent: Path) -> None:
    for name in ("reput-spark-0123456789", "reput-spark-0123456789.gone"):  # a removal cut off
        folder = left(parent, name)
        assert here(parent) == [folder]
        assert folders.remove_session_folder(folder)
        assert list(parent.iterdir()) == []
        assert not folders.remove_session_folder(folder)


def test_what_is_perhaps_somebodys_stays(parent: Path) -> None:
    for name, mode in [
        ("reput-spark-0123456789", 0o755),  # we make them for ourselves alone
        ("reput-spark-abcdefgh", 0o700),  # of an older release, which held none
        ("reput-spark-012345678", 0o700), ("reput-spark-0123456789.bak", 0o700),
        ("spark-0123456789", 0o700),
    ]:  # fmt: skip
        left(parent, name, mode)
        assert here(parent) == []
    (parent / "mine").mkdir(mode=0o700)
    link = parent / "reput-spark-9876543210"
    link.symlink_to(parent / "mine")
    assert here(parent) == []
    assert not folders.remove_session_folder(str(link))
    assert (parent / "mine").is_dir()
