"""`python -m tests.rocketmq.whole move repair`: what each command leaves of a store's state."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.rocketmq.driver import Driver
from tests.rocketmq.whole import ledger
from tests.rocketmq.whole.cases import CASES, CommandFailed, Refused, Ways, wrong
from tests.rocketmq.whole.life import BY_NAME, Made, Size, features, kept, live
from tests.rocketmq.whole.reports import ALONE, BY_REPUT

EVERY = {
    **CASES,
    **{f"report-{number}": case for number, case in BY_REPUT.items()},
    **{f"alone-{number}": case for number, case in ALONE.items()},
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rocketmq.whole", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(EVERY)}")
    parser.add_argument("--release", default="5.3.3")
    parser.add_argument("--size", default="small", choices=BY_NAME)
    parser.add_argument("--queues", default="files", choices=["files", "rocksdb", "services"])
    parser.add_argument("--kept", type=Path, help="keep what is made there; take what is there")
    parser.add_argument("--kill", type=float, help="kill each command then (s), and run it again")
    parser.add_argument("-v", action="store_true", help="also what commands said")
    args = parser.parse_args()
    folder = args.kept or Path(tempfile.mkdtemp(prefix="reput-whole-"))
    with Driver(args.release) as client:

        def made(mark: str = "") -> Made:
            own = folder / f"{args.release}-{args.queues}-{args.size}{mark}"
            if (own / "made.json").exists():
                return kept(own)
            own.mkdir(parents=True)
            size = Size(*made().size) if mark else BY_NAME[args.size]
            return live(args.release, own, client, size, args.queues, mark)

        bad = 0
        for name in args.cases or CASES:
            if EVERY[name].needs <= features(args.release, args.queues):
                work = Path(tempfile.mkdtemp(prefix="reput-whole-case-"))
                bad += not _tell(
                    name, Ways(made(), work, lambda: made("second-"), args.kill), client, args.v
                )
                shutil.rmtree(work)
    if not args.kept:
        shutil.rmtree(folder)
    return 1 if bad else 0


def _tell(name: str, ways: Ways, client: Driver, verbose: bool) -> bool:
    begin = time.time()
    try:
        served = EVERY[name].run(ways)
        ran = time.time() - begin
        got = ledger.run(served.version, served.store, client, served.expected, served.settings)
        found = wrong(served, got)
        text = "; ".join(f"{each}: {what}" for each, what in found.items()) or "each once"
        said, sound = ways.said, not found
    except (CommandFailed, RuntimeError) as error:
        lines = str(error).splitlines()
        ran, text, said, sound = time.time() - begin, f"{lines[0]} {lines[-1]}", str(error), False
        sound = isinstance(error, Refused) and EVERY[name].is_refused(ways.made.queues)
    sys.stdout.write(f"| {name} | {text} | {ran:.0f} + {time.time() - begin - ran:.0f} s |\n")
    if verbose:
        sys.stdout.write(said + "\n")
    sys.stdout.flush()
    return sound


if __name__ == "__main__":
    sys.exit(main())
