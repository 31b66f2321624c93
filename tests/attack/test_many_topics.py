"""A store of 100,000 topics: commands take memory and time in proportion, and no more."""

import resource
from pathlib import Path

import pytest

from tests.logs import Message, build_log
from tests.processes import run_python

TOPICS = 25_000
SEGMENT = 1 << 25
SETTINGS = {"mappedFileSizeConsumeQueue": 40, "maxHashSlotNum": 1000, "maxIndexNum": 300_000}
# Then says how much memory it took at most, its workers not counted.
COMMAND = """
import sys
from reput.jobs.cli import main
code = main(sys.argv[1:])
(line,) = (x for x in open("/proc/self/status") if x.startswith("VmHWM"))
sys.stderr.write("peak %s\\n" % line.split()[1])
sys.exit(code)
"""


def run(*words: object) -> tuple[int, str, int, float]:
    """(exit code, standard output, MiB, seconds of processors: others may be at work here)."""
    began = _seconds()
    done = run_python("-c", COMMAND, *map(str, words))
    *_, peak = done.stderr.split("peak ")
    return done.returncode, done.stdout, int(peak) >> 10, _seconds() - began


def _seconds() -> float:
    """Of all that have ended, as the command's workers have."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Each file is synced: a minute and a half alone, and far more where others use the disk.
@pytest.mark.long
@pytest.mark.timeout(2400)
def test_thousands_of_topics(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "commitlog").mkdir(parents=True)
    made = [Message(topic=f"T{n:06d}", properties=b"KEYS\x01k\x02") for n in range(TOPICS)]
    for start, raw in build_log(made, SEGMENT).items():
        (store / "commitlog" / f"{start:020d}").write_bytes(raw)
    given = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
    words = ["--rocketmq", "5.3.3", *given]
    for command, most_mib, most_seconds in (
        (["rebuild", store, "--output", tmp_path / "set", *words], 900, 300),
        (["install", tmp_path / "set", store, "--yes"], 900, 300),
        (["topics", store], 600, 120),
        (["query", store, "--topic", "T020000", "--key", "k"], 400, 60),
        (["check", store, *words], 900, 300),
    ):
        code, out, mib, seconds = run(*command)
        print(command[0], code, mib, round(seconds, 1))
        assert code == 0, (command[0], out[-500:])
        assert mib < most_mib, command[0]
        assert seconds < most_seconds, command[0]
        if command[0] == "topics":
            assert out.count("\nT") == TOPICS
