"""Who may still use a writer: its own process, until it is closed or a write fails."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from reput.store_format.message.refusals import ForkedWriter, WriterClosed, WriterFailed


class UsageGuard:
    """What a writer asks before it does anything. Made by the process that opens the store."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self.error: BaseException | None = None  # what ended the writer
        self.closing = False

    @property
    def is_fork(self) -> bool:
        """Whether this is another process than the one that opened the store."""
        return self._process != os.getpid()

    @property
    def is_usable(self) -> bool:
        """Whether `check_usable` would raise nothing."""
        return self.error is None and not self.closing and self._process == os.getpid()

    def check_process(self) -> None:
        """Raise ForkedWriter in another process than the one that opened the store.

        Called before a lock is taken: in a fork, locks that other threads held are never released.
        """
        if self.is_fork:
            raise ForkedWriter(
                f"the writer was opened by process {self._process}, and this is a fork of it: "
                f"open the store anew once that one has closed it"
            )

    def check_usable(self) -> None:
        """Raise ForkedWriter, WriterFailed or WriterClosed."""
        self.check_process()
        self.check_sound()
        if self.closing:
            raise WriterClosed("the writer is closed")

    def check_sound(self) -> None:
        """Raise WriterFailed where a write has failed."""
        if self.error is not None:
            raise self._ended()

    def fail(self, error: BaseException) -> None:
        """Note the error that ends the writer; the first error stays."""
        if self.error is None:
            self.error = error

    @contextmanager
    def failing(self) -> Iterator[None]:
        """An OSError within ends the writer, and becomes WriterFailed."""
        try:
            yield
        except OSError as error:
            raise self.failed(error) from error

    def failed(self, error: OSError) -> WriterFailed:
        """Note the error that ends the writer; returns what the caller is to raise."""
        self.fail(error)
        return self._ended()

    def _ended(self) -> WriterFailed:
        return WriterFailed(f"the writer has ended: {self.error}; the next open recovers")
