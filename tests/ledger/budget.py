"""Work that ends in time: processes, one a core, each interrupted at a budget's end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

GRACE_SECONDS = 20.0  # for tests that the end interrupts to stop what they have started


def seconds(text: str) -> float:
    """90s, 30m, 2h, 1h30m; a number alone is minutes."""
    given = f"{text}m" if text.isdecimal() else text
    parts = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", given)
    if not given or parts is None:
        raise ValueError(f"not a time: {text!r} (90s, 30m, 2h, 1h30m)")
    hours, minutes, rest = (int(part or 0) for part in parts.groups())
    return hours * 3600.0 + minutes * 60.0 + rest


def text(seconds: float) -> str:
    """A time for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


class Job(NamedTuple):
    """A process to run: `done` is called with its exit code, None where it was stopped."""

    words: Sequence[str]
    log: Path
    done: Callable[[int | None], None]
    hangs: Callable[[], bool] = lambda: False  # asked while it runs: True ends it
    limit: float = float("inf")  # seconds after which it hangs, whatever it says
    env: dict[str, str] | None = None
    folder: Path | None = None


class _Running(NamedTuple):
    job: Job
    process: subprocess.Popen[bytes]
    begun: float


def run_all(next_job: Callable[[], Job | None], until: float, cores: int) -> bool:
    """Run what `next_job` gives, `cores` at a time, until it gives nothing; False after ctrl-c.

    At `until` (time.time()) what still runs is interrupted, and killed GRACE_SECONDS later.
    """
    running: list[_Running] = []
    # also where a shell has what is in the background ignore the former
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        while True:
            while len(running) < cores and time.time() < until:
                job = next_job()
                if job is None:
                    break
                running.append(_start(job))
            if not running:
                return True
            running = _look(running)
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
    return _Running(job, process, time.time())


def _look(running: list[_Running]) -> list[_Running]:
    left = []
    for each in running:
        code = each.process.poll()
        if code is None and (time.time() - each.begun > each.job.limit or each.job.hangs()):
            _kill(each)
            code = each.process.wait()
        if code is None:
            left.append(each)
        else:
            each.job.done(code)
    return left


def _stop(running: Iterable[_Running]) -> None:
    """Ctrl-c for each, and SIGKILL for what does not heed it."""
    waiting = list(running)
    for each in waiting:
        _signal(each, signal.SIGINT)
    end = time.time() + GRACE_SECONDS
    for each in waiting:
        try:
            each.process.wait(max(0.1, end - time.time()))
        except subprocess.TimeoutExpired:
            _kill(each)
            each.process.wait()
        each.job.done(None)


def _kill(each: _Running) -> None:
    """All that it has started with it: they are of its session, which is named by its id."""
    _signal(each, signal.SIGKILL)


def _signal(each: _Running, number: signal.Signals) -> None:
    if each.process.poll() is None:
        if number == signal.SIGINT:
            each.process.send_signal(number)  # it ends its children as it does after ctrl-c
        else:
            os.killpg(each.process.pid, number)
