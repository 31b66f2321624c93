"""A disk that takes a part of what it is given: the rest is written after it, or it is reported.

The system's own calls are shortened, under the storage of jobs and the file layer of what changes
a store. Files in memory that are torn are in the tests of each work's crashes."""

import errno
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reput.jobs.install import install_set, undo_install
from reput.store_format.files.disk import DiskFiles
from reput.store_format.files.local import VolumeStorage
from reput.store_format.files.protocol import Storage
from reput.store_format.message.message import Message
from reput.store_format.names import UNFINISHED
from tests.broker.writer.stores import open_writer
from tests.built import write_log
from tests.faults.failing import Writes, disk_writes
from tests.in_process import run
from tests.jobs.opening.writing import SETTINGS as STORE_SETTINGS
from tests.logs.encoder import build_log
from tests.logs.small import SETTINGS, messages
from tests.trees import contents


class Work:
    """Something done on a disk, again and again from the same start."""

    folder: Path  # all that it changes

    def __init__(self, top: Path) -> None:
        self.top, self.folder = top, top / "work"
        self.make()
        shutil.copytree(self.folder, top / "start")
        self.old = self.result()
        with disk_writes(Writes()) as writes:
            self.do()
        self.new, self.writes = self.result(), writes.count
        assert self.new != self.old

    def make(self) -> None:
        raise NotImplementedError

    def do(self) -> None:
        raise NotImplementedError

    def result(self) -> dict[str, bytes]:
        """What a reader of it finds."""
        raise NotImplementedError

    def check_failed(self) -> None:
        """What must hold where it ended with an error."""
        assert self.result() == self.old

    def again(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.top / "start", self.folder)


class Rebuild(Work):
    storage: Storage | None = None  # of the output, if not a disk

    def make(self) -> None:
        for name, count in (("older", 40), ("store", 90)):
            write_log(self.top / name, build_log(messages(count), 4096))
        self._rebuild("older")

    def _rebuild(self, name: str) -> None:
        run(str(self.top / name), str(self.folder / "set"), rocketmq="5.3.3", settings=SETTINGS,
            replace=(self.folder / "set").exists(), output_storage=self.storage)  # fmt: skip

    def do(self) -> None:
        self._rebuild("store")

    def result(self) -> dict[str, bytes]:
        return contents(self.folder)  # what lies beside the set counts as well


class RebuildOnVolume(Rebuild):
    """Where nothing is renamed: the manifest goes first and comes last."""

    storage = VolumeStorage()

    def check_failed(self) -> None:
        """A folder with a manifest holds a whole set, also where a job only begins to mark it."""
        there = self.result()
        there.pop(f"set/{UNFINISHED}", None)
        assert "set/manifest.json" not in there or there == self.old


def store_of(folder: Path, count: int) -> Path:
    with open_writer(folder, **STORE_SETTINGS) as writer:
        for number in range(count):
            writer.append(Message(f"T{number % 2}", bytes(60), number % 3, keys=f"k{number}"))
    return folder


class Install(Work):
    def make(self) -> None:
        store = store_of(self.folder / "store", 120)
        run(str(store), str(self.top / "set"), rocketmq="5.3.3", settings=STORE_SETTINGS)
        shutil.rmtree(store / "consumequeue" / "T1")

    def do(self) -> None:
        install_set(str(self.folder / "store"), str(self.top / "set"))

    def again(self) -> None:
        """The folder stays: a set belongs to the log files that it was made of."""
        if (self.folder / "store.reput-old").exists():
            undo_install(str(self.folder / "store"))
            shutil.rmtree(self.folder / "store.reput-old")

    def result(self) -> dict[str, bytes]:
        return contents(self.folder / "store")


WORKS: dict[str, Callable[[Path], Work]] = {"rebuild": Rebuild, "volume": RebuildOnVolume,
                                            "install": Install}  # fmt: skip


@pytest.fixture(scope="module", params=WORKS)
def work(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Work:
    return WORKS[request.param](tmp_path_factory.mktemp(request.param))


EVERY = pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)])
FOR_EVER = pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])


@EVERY
@FOR_EVER
def test_the_rest_of_a_short_write_is_written_after_it(work, for_ever, every) -> None:
    shortened = 0
    for number in range(0, work.writes, work.writes if for_ever else every):
        work.again()
        with disk_writes(Writes(number, for_ever)) as writes:
            work.do()
        assert work.result() == work.new, number
        shortened += writes.short
    print(f"{shortened} of {work.writes} writes cut short")
    assert shortened > work.writes // every // 2


@EVERY
@FOR_EVER
def test_a_file_that_was_written_in_part_takes_no_place(work, for_ever, every) -> None:
    """A disk takes half of a write and has no room for the rest."""
    failed = 0
    for number in range(0, work.writes - 1, every):
        work.again()
        full = Writes(number, for_ever, errno.ENOSPC)
        with disk_writes(full), pytest.raises(OSError) as found:
            work.do()
        assert found.value.errno == errno.ENOSPC
        work.check_failed()
        failed += 1
        work.do()
        assert work.result() == work.new, number
    print(f"{failed} writes cut short")
    assert failed > 5 // every


def test_a_disk_that_takes_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    file = DiskFiles(str(tmp_path)).open_read("file")  # it cannot be written to, as if it were full
    with pytest.raises(OSError, match=re.escape(str(tmp_path / "file"))):
        file.write_at(0, b"x")
    file.close()
