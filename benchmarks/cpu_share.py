"""Groups of processes with a share of a core each, and the processor time that they use.

By cgroups of version 1: a quota is a share of each tenth of a second. Only root may make such
groups, and not on every machine (`may_share`).
"""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000
_END_SECONDS = 30.0


class Group:
    """Processes with one share of a core between them; their children are in it too."""

    def __init__(self, name: str, share: float) -> None:
        self._folders = [_ROOT / kind / name for kind in ("cpu", "cpuacct")]
        for folder in self._folders:
            folder.mkdir(exist_ok=True)  # both kinds may be one folder
        (self._folders[0] / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (self._folders[0] / "cpu.cfs_quota_us").write_text(str(round(share * _PERIOD_US)))

    def add(self, process: int) -> None:
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(process))

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all its processes, those that ended too."""
        return int((self._folders[1] / "cpuacct.usage").read_text()) / 1e9

    def remove(self) -> None:
        """Remove the group as soon as its processes have ended."""
        until = time.monotonic() + _END_SECONDS
        while (self._folders[0] / "cgroup.procs").read_text() and time.monotonic() < until:
            time.sleep(0.1)
        for folder in self._folders:
            if folder.exists():
                folder.rmdir()


def may_share() -> bool:
    return all(os.access(_ROOT / kind, os.W_OK) for kind in ("cpu", "cpuacct"))


@contextmanager
def groups(count: int, share: float) -> Iterator[list[Group]]:
    """So many empty groups, each with this share of a core. What is put into them must end."""
    run = uuid.uuid4().hex[:8]
    made = [Group(f"reput-{run}-{number}", share) for number in range(count)]
    try:
        yield made
    finally:
        for group in made:
            group.remove()
