"""`python -m tests.fuzz TARGET [--seconds 60]`: fuzz one target; `make fuzz` does all.

Inputs that reach something new are kept in tests/fuzz/corpus/TARGET while they are few and
small; one that fails is written beside it as `crash-...`, and becomes a test by lying there."""

# ruff: noqa: F401 - the order of imports is what matters here
import os

# before numba is imported: kernels check each index, and are kept apart from the others
os.environ["NUMBA_BOUNDSCHECK"] = "1"
os.environ["NUMBA_CACHE_DIR"] = os.path.join(os.path.expanduser("~"), ".cache", "reput", "fuzz")

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

# numba cannot compile what atheris has instrumented: what has kernels is imported before
with atheris.instrument_imports(include=["reput.store_format.names"]):
    import reput.store_format.names
import reput.store_format.derived.index_file
import reput.store_format.dispatch.scan

with atheris.instrument_imports(include=["store_format", "tests.reference"]):
    import reput.broker.wire.remoting
    import reput.store_format.describe.files
    import tests.reference

from tests.fuzz.targets import TARGETS, seeds

CORPUS = Path(__file__).parent / "corpus"
_KEPT, _KEPT_BYTES = 40, 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="of what is tried; 0 draws one")
    parser.add_argument("--keep", action="store_true", help="keep some of what it found")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="reput-fuzz-"))
    kept = CORPUS / args.target
    if kept.is_dir():
        shutil.copytree(kept, folder, dirs_exist_ok=True)
    for number, seed in enumerate(seeds(args.target)):
        (folder / f"seed-{number}").write_bytes(seed)
    crashes = CORPUS / f"crash-{args.target}-"
    if args.keep:
        _keep_at_exit(folder, kept)
    target = TARGETS[args.target]
    target(seeds(args.target)[0])  # compiled before the clock starts
    limits = [f"-max_total_time={args.seconds}", f"-seed={args.seed}", "-max_len=4096",
              "-timeout=20", "-rss_limit_mb=4096"]  # fmt: skip
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={crashes}", str(folder)], target)
    atheris.Fuzz()


def _keep_at_exit(folder: Path, kept: Path) -> None:
    """libFuzzer ends the process itself: a child waits for that, and keeps the smallest."""
    read, _write = os.pipe()  # its end closes with the fuzzer
    if os.fork() == 0:
        os.close(_write)
        os.read(read, 1)
        kept.mkdir(parents=True, exist_ok=True)
        there = {path.name for path in kept.iterdir()}
        found = sorted(folder.iterdir(), key=lambda path: path.stat().st_size)
        small = [p for p in found if p.stat().st_size <= _KEPT_BYTES and p.name not in there]
        room = max(_KEPT - len(there), 0)
        for path in small[:: max(1, len(small) // max(room, 1))][:room]:
            shutil.copy(path, kept / path.name)
        os._exit(0)


if __name__ == "__main__":
    main()
