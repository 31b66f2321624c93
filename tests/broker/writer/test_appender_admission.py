"""Whether a store takes a message now: not on a full disk, nor while another one takes too long."""

import pytest

from reput.broker.writer.appender import Admission
from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.message.refusals import DiskFull, PageCacheBusy
from tests.broker.writer.stores import Clock, settings
from tests.faults.memory_files import MemoryFiles


def admission(files: MemoryFiles, clock: Clock, **named: object) -> Admission:
    given = settings(**named)
    writer = CommitLogWriter.open("", given, clock=clock, files=files, background=False)
    return Admission(files, given, clock, writer.appender)


@pytest.mark.parametrize(
    ("used", "ratio", "full"),
    [(0.9, 90, False), (0.901, 90, True), (1.0, 90, True), (0.5, 35, True), (0.0, 90, False)],
)
def test_a_disk_is_full_above_the_warning_level(used: float, ratio: int, full: bool) -> None:
    """CleanCommitLogService.isSpaceToDelete: `physicRatio > diskSpaceWarningLevelRatio`."""
    files = MemoryFiles()
    at = admission(files, Clock(), diskSpaceWarningLevelRatio=ratio)
    files.used = used
    at.check()  # it was not looked at since
    at.look()
    assert at.is_full is full
    if full:
        with pytest.raises(DiskFull, match=f"{used:.0%} full"):
            at.check()
        files.used = 0.1
        at.look()
    at.check()


@pytest.mark.parametrize(
    ("taken", "busy"),
    [(0, False), (1000, False), (1001, True), (9_999_999, True), (10_000_000, False), (-5, False)],
)
def test_another_append_may_take_a_second(taken: int, busy: bool) -> None:
    """DefaultMessageStore.isOSPageCacheBusy: more than osPageCacheBusyTimeOutMills, and less than
    10,000,000 ms.
    """
    files, clock = MemoryFiles(), Clock()
    at = admission(files, clock)
    at._appender.began = clock.now
    clock.now += taken
    if busy:
        with pytest.raises(PageCacheBusy, match=f"{taken} ms"):
            at.check()
    else:
        at.check()
    at._appender.began = 0
    at.check()
