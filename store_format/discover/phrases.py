"""What a store shows, as texts for people."""

from collections.abc import Mapping
from typing import Any

from reput.store_format.discover.file_sizes import BATCH_QUEUE, QUEUE, SEGMENT
from reput.store_format.discover.index_sizes import ENTRIES, SLOTS

RELEASE, ERAS = "rocketmq", "eras"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_PHRASES = {
    SEGMENT: "segments of {}",
    QUEUE: "queue files of {}",
    BATCH_QUEUE: "batch queue files of {}",
    SLOTS: "index files of {} slots",
    ENTRIES: "{} entries",  # said after the slots
    RELEASE: "RocketMQ {}",
    ERAS: "releases {}",
}


def discovered_lines(discovered: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For people, a line for each source: what is known by it."""
    by: dict[str, list[str]] = {}
    for name, found in discovered.items():
        by.setdefault(found["by"], []).append(_phrase(name, found["value"]))
    return [f"{', '.join(what)}: {how}" for how, what in by.items()]


def _phrase(name: str, value: Any) -> str:
    form = _PHRASES.get(name)
    if form is None:
        return f"{name}={setting_text(value)}"
    if name in (SEGMENT, QUEUE, BATCH_QUEUE):
        return form.format(size_text(value))
    return form.format(f"{value:,}" if isinstance(value, int) else value)


def size_text(size: int) -> str:
    """16 MiB, or where it is no whole number of any unit, 6,000,000 bytes."""
    for unit, name in _UNITS:
        if not size % unit:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"


def setting_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
