"""A rebuild in this process beside what the slow reference derives."""

from dataclasses import replace

from hypothesis import HealthCheck, settings

from tests.in_process import Rebuilt
from tests.logs import Log
from tests.reference import Derivation, records

# Beyond it Java's product of a first queueOffset and an entry's 20 bytes wraps around.
GREATEST_FIRST_OFFSET = (1 << 63) // 20 - 1


def difference(rebuilt: Rebuilt, derivation: Derivation) -> str | None:
    """The first difference, in words; None where all files agree in every byte, and the end."""
    # A file that RocketMQ gives a negative name is not written, and named instead.
    # So is a topic of which a flipped bit made what is no folder's name everywhere ("L" to "\\").
    negative = [name for name in derivation.files if name.split("/")[-1][0] == "-"]
    unsafe = [name for name in derivation.files if "\\" in name]
    topics = {name.rsplit("/", 2)[0] for name in unsafe}
    wanted_files = {n: f for n, f in derivation.files.items() if n not in {*negative, *unsafe}}
    left_out = [
        each for each in rebuilt.summary.left_out if not each.startswith("no broker starts")
    ]
    if len(left_out) != len(set(negative) - set(unsafe)) + len(topics):
        return f"left out: {rebuilt.summary.left_out}"
    derivation = replace(derivation, files=wanted_files)
    for name in sorted(rebuilt.files.keys() | derivation.files.keys()):
        if name.startswith(("config/", "timerlog/")):
            continue  # what services keep: tests/jobs/deriving/test_timers.py
        if name not in rebuilt.files:
            return f"{name} is missing"
        if name not in derivation.files:
            return f"{name} should not be there"
        there = rebuilt.files[name]
        content, length = derivation.files[name]
        wanted = content.ljust(length, b"\0")
        if len(there) != len(wanted):
            return f"{name}: {len(there)} bytes, should be {len(wanted)}"
        if there != wanted:
            at = next(i for i in range(length) if there[i] != wanted[i])
            around = slice(max(0, at - 8), at + 24)
            return f"{name} at {at}: {there[around].hex()}, should be {wanted[around].hex()}"
    summary = rebuilt.summary
    ends = {derivation.end}
    if derivation.stop == "end of segments":  # RocketMQ stands before the last BLANK, we behind it
        ends = {rebuilt.summary.inputs[-1].length + int(rebuilt.summary.inputs[-1].path[-20:])}
    if summary.log_end not in ends or summary.messages != derivation.messages:
        return (f"the log ends at {summary.log_end} after {summary.messages} messages "
                f"({summary.end_reason}), should at {derivation.end} after {derivation.messages} "
                f"({derivation.stop})")  # fmt: skip
    return None


def first_offsets(log: Log) -> list[int]:
    """The queueOffset that each queue starts with."""
    first: dict[tuple[str, int], int] = {}
    for message in records(*log[:3]):
        if message.transaction in (0, 8):
            first.setdefault((message.topic, message.queue_id), message.queue_offset)
    return list(first.values())


ANY = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
               deadline=None)  # fmt: skip
