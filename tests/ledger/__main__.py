"""`python -m tests.ledger run|tested|explore`: `make test-long BUDGET=60m` and others.

`explore` goes round the tests of that mark, each time with a seed that is new. A failure is a line
in FAILURES: when, on which commit, the seed, the test (CONTRIBUTING.md says what becomes of it).
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from tests.ledger import batches, budget, records
from tests.ledger.digests import ROOT, Tree, commit
from tests.ledger.records import RED, Run

FAILURES = "tests/ledger/failures.tsv"
ROUND_SECONDS, HANG_SECONDS = 90.0, 1800.0  # what a round is taken for, and what ends it


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ledger", description=__doc__)
    parser.add_argument("command", choices=["run", "tested", "explore"])
    parser.add_argument("--budget", type=budget.seconds, default="24h", metavar="30m")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="tests whose ids hold these words")
    parser.add_argument("--all", action="store_true", help="run what is green too")
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
        named = ((each.verdict, each.test if each.verdict in RED else each.file) for each in due)
        print(
            *(f"{count} {' '.join(each)}" for each, count in Counter(named).most_common()), sep="\n"
        )
        return 1 if due else 0
    made = batches.Batches(due, until)
    to_its_end = budget.run_all(made.next, until, args.cores)
    print(*(f"{count:,} {verdict}," for verdict, count in Counter(made.verdicts.values()).items()))
    print(f"not begun: {_count([each for each in due if each.test not in made.verdicts])}")
    return 130 if not to_its_end else 1 if made.red else 0


def _count(tests: list[Run]) -> str:
    return f"{len(tests):,} tests ({records.total(tests) / 60:.0f} min of one core)"


def explore(tests: list[str], until: float, cores: int, root: Path = ROOT) -> int:
    """Until that time since 1970; 1 where a seed failed, 130 after ctrl-c."""
    waiting = random.sample(tests, len(tests))
    rounds: Counter[str] = Counter()

    def next_job() -> budget.Job | None:
        if not waiting or until - time.time() < ROUND_SECONDS:
            return None
        test, seed = waiting.pop(0), random.randrange(1, 1 << 31)
        log = root / batches.FOLDER / "logs" / f"seed-{seed}.txt"
        words = [sys.executable, "-m", "pytest", "-q", "-x", "-rs", "-p", "no:cacheprovider"]
        return budget.Job(
            [*words, f"--hypothesis-seed={seed}", test], log,
            lambda code: ended(test, seed, log, code),
            limit=HANG_SECONDS, env={"REPUT_SEED": str(seed)}, folder=root,
        )  # fmt: skip

    def ended(test: str, seed: int, log: Path, code: int | None) -> None:
        skipped = code == 0 and " passed" not in log.read_text("utf-8", "replace")
        rounds["cut" if code is None else "failed" if code else "skipped" if skipped else "ok"] += 1
        waiting.extend([] if skipped else [test])  # it would be skipped each time
        if code:
            words = f".venv/bin/python -m pytest -n0 --hypothesis-seed={seed} '{test}'"
            print(f"FAILED (pytest: {code}): REPUT_SEED={seed} {words}\n  {log}", flush=True)
            with (root / FAILURES).open("a", encoding="utf-8") as file:
                file.write(f"{records.moment()}\t{commit(root)}\t{seed}\t{test}\n")
        else:
            log.unlink()

    to_its_end = budget.run_all(next_job, until, cores)
    print("rounds:", ", ".join(f"{count} {verdict}" for verdict, count in rounds.items()))
    return 130 if not to_its_end else 1 if rounds["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
