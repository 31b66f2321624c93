"""Memory of a process and all it starts, sampled from /proc while it runs."""

import subprocess
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

_EVERY_SECONDS = 0.1


class Run(NamedTuple):
    """A finished command: seconds of wall clock, exit code, and MiB at the highest."""

    seconds: float
    code: int
    output: str
    java_mib: int  # the largest JVM's own memory: heap and all, without mapped files
    python_mib: int  # the largest Python process's own memory, likewise


def run(command: list[str]) -> Run:
    """Run a command, watching its process tree."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    highest: dict[str, int] = defaultdict(int)
    watcher = threading.Thread(target=_watch, args=(process, highest), daemon=True)
    watcher.start()
    output, _ = process.communicate()
    seconds = time.monotonic() - begin
    watcher.join()
    return Run(seconds, process.returncode, output, highest["java"], highest["python"])


def _watch(process: "subprocess.Popen[str]", highest: dict[str, int]) -> None:
    while process.poll() is None:
        for pid in _tree(process.pid):
            name, own = _about(pid)
            kind = "java" if name.startswith("java") else "python"
            highest[kind] = max(highest[kind], own >> 20)
        time.sleep(_EVERY_SECONDS)


def _tree(root: int) -> list[int]:
    children = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            children[parent].append(int(folder.name))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def _about(pid: int) -> tuple[str, int]:
    """A process's name and the bytes of its own (anonymous) memory; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return "", 0
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return fields.get("Name", ""), int(fields.get("RssAnon", "0 kB").split()[0]) << 10
