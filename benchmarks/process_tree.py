"""CPU time and memory of a process and all it starts, sampled from /proc while it runs."""

import os
import subprocess
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

_EVERY_SECONDS = 0.05
_SHARES_EVERY = 6  # samples: to ask for what is shared takes the kernel a millisecond a process
_TICKS = os.sysconf("SC_CLK_TCK")


class Sample(NamedTuple):
    """CPU seconds of the whole tree up to a time (monotonic)."""

    at: float
    cpu: float


class Run(NamedTuple):
    """A finished command: seconds of wall clock, exit code, and MiB at the highest."""

    seconds: float
    code: int
    output: str
    java_mib: int  # the largest JVM's own memory: heap and all, without mapped files
    python_mib: int  # the largest Python process's own memory, likewise
    all_mib: int  # all processes together, what they share counted once (PSS)
    samples: list[Sample]

    @property
    def cpu(self) -> float:
        return self.samples[-1].cpu if self.samples else 0.0

    def busy(self, begin: float, end: float) -> float:
        """How many cores were busy from `begin` to `end`, seconds before the end of the run."""
        last = self.samples[-1].at
        part = [sample for sample in self.samples if begin >= last - sample.at >= end]
        if len(part) < 2:
            return 0.0
        return (part[-1].cpu - part[0].cpu) / (part[-1].at - part[0].at)


def run(command: list[str], env: dict[str, str] | None = None) -> Run:
    """Run a command, watching its process tree."""
    begin = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    watch = _Watch(process)
    watch.start()
    output, _ = process.communicate()
    seconds = time.monotonic() - begin
    watch.join()
    highest = watch.highest
    return Run(
        seconds, process.returncode, output, highest["java"], highest["python"], highest["all"],
        watch.samples,
    )  # fmt: skip


class _Watch(threading.Thread):
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        super().__init__(daemon=True)
        self.process = process
        self.highest: dict[str, int] = defaultdict(int)
        self.samples: list[Sample] = []
        self._ticks: dict[int, int] = {}  # by process, of those that ended too

    def run(self) -> None:
        while self.process.poll() is None:
            at, together = time.monotonic(), 0
            shares = len(self.samples) % _SHARES_EVERY == _SHARES_EVERY - 1
            for pid, ticks in _tree(self.process.pid).items():
                self._ticks[pid] = ticks
                name, own = _about(pid)
                kind = "java" if name.startswith("java") else "python"
                self.highest[kind] = max(self.highest[kind], own >> 20)
                together += _share(pid) if shares else 0
            self.highest["all"] = max(self.highest["all"], together >> 20)
            self.samples.append(Sample(at, sum(self._ticks.values()) / _TICKS))
            time.sleep(_EVERY_SECONDS)


def _tree(root: int) -> dict[int, int]:
    """The processes below and with `root`, each with the clock ticks that it has used."""
    children = defaultdict(list)
    ticks = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            children[int(fields[1])].append(int(name))
            ticks[int(name)] = int(fields[11]) + int(fields[12])
    found = [root]
    for pid in found:
        found += children[pid]
    return {pid: ticks[pid] for pid in found if pid in ticks}


def _about(pid: int) -> tuple[str, int]:
    """A process's name and the bytes of its own (anonymous) memory; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return "", 0
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return fields.get("Name", ""), int(fields.get("RssAnon", "0 kB").split()[0]) << 10


def _share(pid: int) -> int:
    """Bytes of a process's memory, each page divided by how many processes have it; 0 once it is
    gone.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
