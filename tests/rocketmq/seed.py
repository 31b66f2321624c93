"""`python -m tests.rocketmq.seed N`: the store of one seed, made and judged again, and kept.

`--count` goes on with the seeds after it, `--engine` says what is judged.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.rocketmq.build import VERSIONS
from tests.rocketmq.case import case
from tests.rocketmq.engines import engine
from tests.rocketmq.judge import Drivers, NoVerdictError, clear, judge


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rocketmq.seed", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--rocketmq", choices=VERSIONS, help="instead of the seed's own version")
    parser.add_argument("--engine", choices=["local", "spark", "reference"], default="local")
    args = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="reput-seed-"))
    failed = 0
    with engine(args.engine) as rebuild, Drivers() as drivers:
        for seed in range(args.seed, args.seed + args.count):
            chosen = case(seed, args.rocketmq)
            begin = time.monotonic()
            try:
                found = judge(chosen, base / str(seed), drivers, rebuild)
            except NoVerdictError as refusal:
                print(f"no verdict: {refusal}")
                continue
            print(f"{'DIFFERS' if found else 'ok'} ({time.monotonic() - begin:.1f} s) {chosen}")
            if found:
                failed += 1
                print(f"  {found}\n  kept in {base / str(seed)}: store, theirs, ours")
            else:
                clear(base / str(seed))
    if not failed:
        clear(base)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
