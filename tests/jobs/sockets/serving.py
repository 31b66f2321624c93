"""`reput serve` as a process, for tests that ask it by socket."""

import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from reput.broker.wire.codes import ResponseCode
from tests.jobs.sockets.asking import Peer, pull

REPUT = [sys.executable, "-c", "from reput.jobs.cli import main; raise SystemExit(main())"]


class Serving:
    """The process, which answers; `address` is where."""

    def __init__(self, store: Path | str, *words: str, seconds: float = 60) -> None:
        command = [*REPUT, "serve", str(store), "--listen", "127.0.0.1:0", *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        poll = select.poll()  # select takes no descriptor beyond 1023
        poll.register(self.process.stdout, select.POLLIN)
        ready = poll.poll(seconds * 1000)
        line = self.process.stdout.readline() if ready else ""
        if not line.startswith("ready "):
            self.process.kill()
            raise AssertionError(f"{line!r} {self.process.communicate()[1]}")
        self.address = line.split()[1]

    def __enter__(self) -> "Serving":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; (the exit code, what it said on standard error)."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def memory(self) -> int:
        """Bytes that it holds in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) << 10


SIZES = {"mappedFileSizeCommitLog": "8192", "mappedFileSizeConsumeQueue": "200",
         "maxHashSlotNum": "7", "maxIndexNum": "50"}  # fmt: skip


def still_answers(serving: Serving) -> None:
    with Peer(serving.address) as peer:
        assert peer.ask(pull("Live0", 0, 0)).code == ResponseCode.SUCCESS


def answers_again(serving: Serving) -> bool:
    """Once it has seen that the connections which took all places are closed."""
    with suppress(ConnectionError):
        still_answers(serving)
        return True
    return False
