"""Work that ends in time: processes, one a core, each interrupted at a budget's end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

GRACE_SECONDS = 20.0  # for tests that the end interrupts to stop what they have started


def seconds(text: str) -> float:
    """Of 90s, 30m or 2h. Raises ValueError."""
    return int(text[:-1]) * 60.0 ** "smh".index(text[-1:])


class Job(NamedTuple):
    """A process to run: `done` is called with its exit code, None where it was stopped."""

    words: Sequence[str]
    log: Path
    done: Callable[[int | None], None]
    limit: float = float("inf")  # seconds after which it hangs, whatever it says
    env: dict[str, str] | None = None
    folder: Path | None = None


_Running = tuple[Job, subprocess.Popen[bytes], float]  # since when


def run_all(next_job: Callable[[], Job | None], until: float, cores: int) -> bool:
    """Run what `next_job` gives, `cores` at a time, until it gives nothing; False after ctrl-c.

    At `until` (time.time()) what still runs is interrupted, and killed GRACE_SECONDS later.
    """
    running: list[_Running] = []
    numbers = (signal.SIGINT, signal.SIGTERM)  # the former may be ignored in the background
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        while True:
            while len(running) < cores and time.time() < until and (job := next_job()):
                running.append(_start(job))
            if not running:
                return True
            running = [each for each in running if not _ended(*each)]
            if time.time() >= until:
                _stop(running)
                return True
            time.sleep(0.05)
    except KeyboardInterrupt:
        _stop(running)
        return False
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _start(job: Job) -> _Running:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("wb") as log:
        process = subprocess.Popen(
            job.words, cwd=job.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, env={**os.environ, **(job.env or {})},
        )  # fmt: skip
    return job, process, time.time()


def _ended(job: Job, process: subprocess.Popen[bytes], begun: float) -> bool:
    code = process.poll()
    if code is None and time.time() - begun > job.limit:
        code = _kill(process)
    if code is not None:
        job.done(code)
    return code is not None


def _stop(running: Collection[_Running]) -> None:
    """Ctrl-c for each, which ends its children as it does then, and SIGKILL if it does not heed."""
    for _, process, _ in running:
        process.send_signal(signal.SIGINT)
    end = time.time() + GRACE_SECONDS
    for job, process, _ in running:
        try:
            process.wait(max(0.1, end - time.time()))
        except subprocess.TimeoutExpired:
            _kill(process)
        job.done(None)


def _kill(process: subprocess.Popen[bytes]) -> int:
    """All that it has started with it: they are of its session, which is named by its id."""
    os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
