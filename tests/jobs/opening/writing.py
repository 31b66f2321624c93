"""A process that has a store open, and appends to it when it is asked to."""

import os
from pathlib import Path

from reput.store_format.message.message import Message
from tests.broker.writer.stores import open_writer

SEGMENT = 1 << 16
SETTINGS = {
    "mappedFileSizeCommitLog": str(SEGMENT), "maxIndexNum": "90", "maxHashSlotNum": "7",
    "mappedFileSizeConsumeQueue": "2000",
}  # fmt: skip


class Writing:
    """A process that has the store open and appends when it is asked to."""

    def __init__(self, store: Path) -> None:
        self.store = store
        (ask_read, self._ask), (self._answer, answer_write) = os.pipe(), os.pipe()
        self.process = os.fork()
        if self.process == 0:
            try:
                os.close(self._ask)
                self._serve(ask_read, answer_write)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(ask_read)
        os.close(answer_write)

    def _serve(self, ask: int, answer: int) -> None:
        with open_writer(self.store, **SETTINGS) as writer:
            number = 0
            while asked := os.read(ask, 1):
                for _ in range(ord(asked)):
                    number += 1
                    writer.append(Message("T", bytes(50), number % 3, keys=f"k{number}"))
                writer.flush()
                os.write(answer, writer.log.end.to_bytes(8, "big"))

    def append(self, count: int) -> int:
        """Append so many messages; returns where the log ends then."""
        os.write(self._ask, bytes([count]))
        return int.from_bytes(os.read(self._answer, 8), "big")

    def stop(self) -> None:
        os.close(self._ask)
        _, status = os.waitpid(self.process, 0)
        assert os.waitstatus_to_exitcode(status) == 0
