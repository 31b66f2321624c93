"""A writer continues no file with another size than it has: the files show it, or it refuses."""

import shutil
from pathlib import Path

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.discover.sizes import SizeDisagrees
from reput.store_format.message.message import Message
from reput.store_format.release.settings import SettingError, writer_settings_from
from tests.broker.writer.stores import TINY, Clock
from tests.trees import contents

OTHER = {
    "mappedFileSizeCommitLog": 8192,
    "mappedFileSizeConsumeQueue": 800,
    "maxHashSlotNum": 21,
    "maxIndexNum": 19,  # a file of the same length
}


def opened(root: Path, **named: object) -> CommitLogWriter:
    given = writer_settings_from({name: str(value) for name, value in named.items()})
    return CommitLogWriter.open(str(root), given, clock=Clock(), background=False)


def made(root: Path, messages: int = 60, **named: object) -> dict[str, bytes]:
    with opened(root, **(TINY | named)) as writer:
        write(writer, messages)
    return contents(root)


def write(writer: CommitLogWriter, messages: int, first: int = 0) -> None:
    for number in range(first, first + messages):
        writer.append(Message("T", bytes(50), keys=f"k{number}", unique_key=f"U{number:032}"))


@pytest.mark.parametrize("messages", [1, 5, 60, 19])
@pytest.mark.parametrize("crashed", [False, True])
def test_sizes_that_are_not_given_are_the_files(tmp_path, messages: int, crashed: bool) -> None:
    """Before, all index files were removed, and the last queue file grew to 6,000,000 bytes."""
    made(tmp_path / "a", messages)
    if crashed:
        (tmp_path / "a" / "abort").write_bytes(b"1")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    with opened(tmp_path / "a") as writer:
        assert writer.sizes_found == TINY
        write(writer, 30, messages)
    with opened(tmp_path / "b", **TINY) as writer:
        assert writer.sizes_found == {}
        write(writer, 30, messages)
    assert {n: c for n, c in contents(tmp_path / "a").items() if n != "checkpoint"} == {
        n: c for n, c in contents(tmp_path / "b").items() if n != "checkpoint"
    }


@pytest.mark.parametrize("name", OTHER)
def test_a_size_that_is_given_and_disagrees_is_refused(tmp_path: Path, name: str) -> None:
    before = made(tmp_path)
    with pytest.raises(SizeDisagrees) as refused:
        opened(tmp_path, **{name: OTHER[name]})
    text = str(refused.value)
    assert f"--set {name}={TINY[name]}" in text
    assert str(OTHER[name]) in text
    assert text.startswith(("commitlog/", "consumequeue/", "index/"))
    assert contents(tmp_path) == before


def test_a_default_that_is_given_disagrees_as_well(tmp_path: Path) -> None:
    before = made(tmp_path)
    with pytest.raises(SizeDisagrees, match="--set mappedFileSizeConsumeQueue=400"):
        opened(tmp_path, mappedFileSizeConsumeQueue=6_000_000)
    assert contents(tmp_path) == before


def test_slots_and_entries_of_the_same_length_are_distinguished(tmp_path: Path) -> None:
    """16 slots and 20 entries make the length of 21 and 19."""
    before = made(tmp_path, 3)
    with pytest.raises(SizeDisagrees, match=r"--set maxHashSlotNum=16 --set maxIndexNum=20"):
        opened(tmp_path, maxHashSlotNum=21, maxIndexNum=19)
    assert contents(tmp_path) == before


def test_what_the_content_does_not_tell_is_asked_for(tmp_path: Path) -> None:
    """A file without entries: messages without keys."""
    with opened(tmp_path, **TINY) as writer:
        writer.append(Message("T", b"x", properties=b""))
    before = contents(tmp_path)
    with pytest.raises(SettingError, match="content does not show them"):
        opened(tmp_path)
    assert contents(tmp_path) == before
    with opened(tmp_path, maxHashSlotNum=16, maxIndexNum=20) as writer:
        write(writer, 3)


def test_files_of_two_sizes_are_refused(tmp_path: Path) -> None:
    made(tmp_path)
    path = sorted((tmp_path / "consumequeue/T/0").iterdir())[1]
    path.write_bytes(path.read_bytes() + bytes(20))
    before = contents(tmp_path)
    with pytest.raises(SizeDisagrees, match=f"{path.name}: has 420 bytes"):
        opened(tmp_path)
    assert contents(tmp_path) == before


def test_a_default_store_is_continued(tmp_path: Path) -> None:
    given = {"mappedFileSizeCommitLog": 1 << 16}
    with opened(tmp_path, **given) as writer:
        write(writer, 3)
    with opened(tmp_path) as writer:
        assert writer.sizes_found == given
        write(writer, 3)
