"""`python -m tests.ledger run|tested|explore`: `make test-long BUDGET=60m` and others."""

import argparse
import os
import signal
import sys
import time
from collections import Counter

from tests.ledger import batches, budget, records
from tests.ledger.digests import Tree, commit
from tests.ledger.explore import explore
from tests.ledger.records import Run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ledger", description=__doc__)
    parser.add_argument("command", choices=["run", "tested", "explore"])
    parser.add_argument("--budget", type=budget.seconds, default="24h", metavar="30m")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="tests whose ids hold these words")
    parser.add_argument("--all", action="store_true", help="run what is green too; name each test")
    args = parser.parse_args()
    until = time.time() + args.budget - budget.GRACE_SECONDS
    if args.command == "explore":
        tests = batches.collect("explore", {"REPUT_SEED": "1"})
        return explore([each for each in tests if args.only in each], until, args.cores)
    known = batches.collect("long")
    runs = records.keep([], set(known))
    now = records.now([test for test in known if args.only in test], runs, Tree())
    due = [each for each in now if args.all or each.verdict != "ok"]
    print(f"{_count(now)}, at {commit()}; due: {_count(due)}", flush=True)
    if args.command == "tested":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make tested | head`
        tell(due, args.all)
        return 1 if due else 0
    made = batches.Batches(due, until)
    to_its_end = budget.run_all(made.next, until, args.cores)
    print(*(f"{count:,} {verdict}," for verdict, count in Counter(made.verdicts.values()).items()))
    print(f"not begun: {_count([each for each in due if each.test not in made.verdicts])}")
    return 130 if not to_its_end else 1 if made.red else 0


def tell(tests: list[Run], all_named: bool) -> None:
    """What there is of each verdict, the slowest first: red tests by name, the others by file."""
    found: dict[tuple[str, str], list[Run]] = {}
    for each in tests:
        name = each.test if all_named or each.verdict in records.RED else each.file
        found.setdefault((each.verdict, name), []).append(each)
    for (verdict, name), runs in sorted(found.items(), key=lambda each: -records.total(each[1])):
        print(f"{verdict}: {name}: {_count(runs)}")


def _count(tests: list[Run]) -> str:
    return f"{len(tests):,} tests ({budget.text(records.total(tests))} of one core)"


if __name__ == "__main__":
    sys.exit(main())
