"""`make demo`: rebuild a bundled broker's store and prove the result byte for byte.

The store was written by a live RocketMQ 5.3.3 broker (batches, timers, transactions); beside its
log the archive holds the files that RocketMQ itself derived from it.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reput.jobs.cli import main as reput
from reput.jobs.engines.choose import ENGINES

# reput/jobs is a link to a clone's folder jobs, beside which the tests are
_CLONE = Path(__file__).resolve().parent.parent
_ARCHIVE = _CLONE / "tests" / "golden" / "broker_clean_5.3.3.tar.xz"
_RELEASE = "5.3.3"
_CHUNK_BYTES = 1 << 20


def main() -> int:
    """Rebuild on both engines, verify, compare; 0 if every file is RocketMQ's own."""
    sys.stdout.write(
        f"demo: the store of a live RocketMQ {_RELEASE} broker, {_ARCHIVE.name}, is unpacked. Its\n"
        "queues and index are derived from its log by processes of this machine, then by Spark,\n"
        "and compared with RocketMQ's own. (The first time takes a minute: kernels are compiled.)\n"
    )
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="reput-demo-") as folder:
        # GNU tar keeps the holes in preallocated files
        subprocess.run(["tar", "-xJf", _ARCHIVE, "-C", folder], check=True)
        store = Path(folder) / _ARCHIVE.name.removesuffix(".tar.xz")
        log, expected = store / "input", store / "expect"
        seconds, rebuilt = {}, {}
        for engine in ENGINES:
            rebuilt[engine], began = Path(folder) / f"by-{engine}", time.monotonic()
            words = ["rebuild", str(log), "--output", str(rebuilt[engine]), "--engine", engine]
            if code := _run(words):
                return code
            seconds[engine] = time.monotonic() - began
        if code := _run(["verify", str(log)]):
            return code
        for made in rebuilt.values():
            if code := _prove(expected, made):
                return code
    taken = ", ".join(f"{engine} {took:.1f} s" for engine, took in seconds.items())
    sys.stdout.write(f"  time: {taken}\n")
    return 0


def _run(words: list[str]) -> int:
    sys.stdout.write(f"\n$ reput {' '.join(words)}\n")
    sys.stdout.flush()
    return reput(words)


def _prove(expected: Path, rebuilt: Path) -> int:
    """Compare with RocketMQ's files, reading both anew; index names are times, so by order."""
    wanted, made = _derived(expected), _derived(rebuilt)
    differing = [
        there.name
        for there, ours in zip(wanted, made, strict=False)
        if not _same_name(there, ours, expected, rebuilt) or not _same_bytes(there, ours)
    ]
    if differing or len(wanted) != len(made):
        sys.stdout.write(f"\nNOT the same: {differing or (len(wanted), len(made))}\n")
        return 1
    size = sum(path.stat().st_size for path in made)
    sys.stdout.write(
        f"\nproved, {rebuilt.name}: {len(made)} files, {size:,} bytes, are byte for byte what "
        f"RocketMQ {_RELEASE} derived from the same log\n"
    )
    return 0


def _derived(root: Path) -> list[Path]:
    kinds = ("batchconsumequeue", "consumequeue", "index")
    return [path for kind in kinds for path in sorted((root / kind).rglob("*")) if path.is_file()]


def _same_name(there: Path, ours: Path, expected: Path, rebuilt: Path) -> bool:
    a, b = there.relative_to(expected), ours.relative_to(rebuilt)
    return a == b or a.parts[0] == b.parts[0] == "index"


def _same_bytes(there: Path, ours: Path) -> bool:
    if there.stat().st_size != ours.stat().st_size:
        return False
    with there.open("rb") as a, ours.open("rb") as b:
        while piece := a.read(_CHUNK_BYTES):
            if piece != b.read(_CHUNK_BYTES):
                return False
    return True


if __name__ == "__main__":
    sys.exit(main())
