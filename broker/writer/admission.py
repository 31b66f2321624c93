"""Whether a store takes messages at this moment, as a broker asks before each put.

HookUtils.checkBeforePutMessage refuses a message where the disk is full, and while another append
takes too long. CleanCommitLogService looks at the disk every cleanResourceInterval.

A broker keeps the ratio within 35 and 90 percent. Here the user's own counts: who appends to a
store by hand may well want a disk's last room.
"""

from reput.broker.writer.appender import Appender
from reput.store_format.files.protocol import Files
from reput.store_format.message.ids import Clock
from reput.store_format.message.refusals import DiskFull, PageCacheBusy
from reput.store_format.release.settings import WriterSettings

_NO_APPEND_MS = 10_000_000  # DefaultMessageStore.isOSPageCacheBusy: no append takes longer


class Admission:
    """Whether a store takes messages; asked before each put."""

    def __init__(
        self, files: Files, settings: WriterSettings, clock: Clock, appender: Appender
    ) -> None:
        self.is_full = False
        self._files, self._clock, self._appender = files, clock, appender
        self._ratio = settings.disk_space_warning_level_ratio / 100
        self._busy_after = settings.os_page_cache_busy_timeout_mills

    def look(self) -> None:
        """Look at the disk (CleanCommitLogService.isSpaceToDelete)."""
        self.is_full = self._files.used_share() > self._ratio

    def check(self) -> None:
        """Raise DiskFull or PageCacheBusy."""
        if self.is_full:
            raise DiskFull(
                f"the disk is {self._files.used_share():.0%} full, more than "
                f"diskSpaceWarningLevelRatio ({self._ratio:.0%}): make room, or set that higher"
            )
        began = self._appender.began
        if began and self._busy_after < self._clock() - began < _NO_APPEND_MS:
            raise PageCacheBusy(
                f"another message has been on its way for {self._clock() - began} ms "
                f"(osPageCacheBusyTimeOutMills is {self._busy_after})"
            )
