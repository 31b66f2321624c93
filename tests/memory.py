"""How much memory this process took at most, as Linux counts it."""

from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def mib_of(status: str, field: str) -> int:
    """A field of a process's status in MiB: VmRSS now, VmHWM at most."""
    (line,) = (line for line in status.splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) // 1024


class Peak:
    """MiB that are added from here on, at most.

    Not `ru_maxrss`: a process begins with its parent's, and it never falls."""

    def __init__(self) -> None:
        _CLEAR.write_text("5")  # forget VmHWM so far (proc(5))
        self._before = mib_of(_STATUS.read_text(), "VmRSS")

    @property
    def added(self) -> int:
        return mib_of(_STATUS.read_text(), "VmHWM") - self._before
