"""`python -m tests.ledger run|tested|of|explore|fold`: `make test-long BUDGET=60m` and others."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Container, Iterable

from tests.ledger import batches, budget, covers, due, records
from tests.ledger.due import Due
from tests.ledger.records import RED, Runs
from tests.ledger.sources import Tree, commit

_SHOWN = 12  # files of a kind, without --all
_SLOWEST = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ledger", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("run", "tested", "explore"):
        command = commands.add_parser(name)
        command.add_argument("--cores", type=int, default=os.cpu_count() or 1)
        command.add_argument("--only", default="", help="tests whose ids hold these words")
        command.add_argument("--under", type=budget.seconds, metavar="30s", help="no slower tests")
        if name != "tested":
            command.add_argument("--budget", type=budget.seconds, required=True, metavar="30m")
        if name != "explore":
            command.add_argument("--long", action="store_true", help="long tests alone")
            command.add_argument("--commits", type=int, default=0, help="due after so many, too")
            command.add_argument("--all", action="store_true", help="name each test; run all")
    commands.add_parser("fold")
    of = commands.add_parser("of", help="the tests of a module")
    of.add_argument("module", metavar="PATH")
    begun, args = time.time(), parser.parse_args()
    if args.command == "fold":
        records.fold()
        return 0
    if args.command == "of":
        for line in covers.lines(Tree(), args.module):
            print(line)
        return 0
    if args.command == "explore":
        from tests.ledger.explore import explore

        return explore(begun + args.budget, args.cores, args.only)
    known = {each["test"]: each["long"] for each in batches.collect()}
    runs = records.fold(known)
    tests = due.look(known, runs, Tree(), args.commits)
    tests = [each for each in tests if args.only in each.test and each.long >= args.long]
    if args.under:
        tests = [each for each in tests if each.seconds < args.under]
    if args.command == "tested":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make tested | head`
        left = tell(tests, args.all, args.cores)
        slowest(runs, {each.test for each in tests if each.long == args.long})
        return 1 if left else 0
    return run(tests, args, known, begun + args.budget)


def run(tests: list[Due], args: argparse.Namespace, known: dict[str, bool], end: float) -> int:
    wanted = [each for each in tests if args.all or each.why_due]
    print(
        f"{len(wanted):,} of {len(tests):,} tests are due, {budget.text(total(wanted))} of one "
        f"core; there are {budget.text(args.budget)} of {args.cores}",
        flush=True,
    )
    done, to_its_end = batches.run(wanted, end, args.cores)
    runs = records.fold(known)
    ran = [runs[test] for test in done.begun if test in runs]
    counts = Counter(run.verdict for run in ran)
    print(
        ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common()) or "none ran"
    )
    still = [each for each in wanted if each.test not in done.begun]
    if still:
        print(f"{len(still):,} due tests were not begun: {budget.text(total(still))} of one core")
    return 130 if not to_its_end else 1 if done.red else 0


def tell(tests: list[Due], everything: bool, cores: int) -> int:
    """What is not green on what it tests now, by reason and file, and how long it would take."""
    left = [each for each in tests if each.why_due]
    print(
        f"{len(tests):,} tests at {commit()}: {len(tests) - len(left):,} green, {len(left):,} not"
    )
    for why in sorted({each.why_due for each in left}, key=lambda why: (why not in RED, why)):
        of_why = [each for each in left if each.why_due == why]
        print(f"\n{why}: {len(of_why):,}, {budget.text(total(of_why))} of one core")
        if everything or why in RED:
            for each in of_why:
                at, on = (each.run.at, each.run.commit) if each.run else ("", "")
                print(f"  {each.test}  {each.seconds:.0f} s  {at}  {on}")
        else:
            _by_file(of_why)
        if why == "skipped":  # a reason is known on the machine that skipped it
            reasons = Counter(each.run.why for each in of_why if each.run and each.run.why)
            print(
                "".join(f"  {count:,}: {said}\n" for said, count in reasons.most_common()), end=""
            )
    if left:
        guessed = sum(each.run is None for each in left)
        cost = budget.text(total(left) / cores * 1.1 + 60)
        note = f"; {guessed:,} of them were never timed" if guessed else ""
        print(f"\nmake test-long BUDGET=... runs them: about {cost} of {cores} cores{note}")
    return 1 if left else 0


def slowest(runs: Runs, tests: Container[str]) -> None:
    """The tests that took longest when they last ran here, what they set up included."""
    timed = [
        run for run in runs.values() if run.test in tests and run.verdict not in ("skipped", "cut")
    ]
    timed.sort(key=lambda run: -run.seconds)
    took = budget.text(sum(run.seconds for run in timed))
    print(f"\nthe slowest of {len(timed):,} that ran here, {took}:")
    for run in timed[:_SLOWEST]:
        print(f"  {run.seconds:6.1f} s  {run.test}")


def _by_file(tests: Iterable[Due]) -> None:
    files: Counter[str] = Counter()
    counts: Counter[str] = Counter(each.file for each in tests)
    for each in tests:
        files[each.file] += each.seconds  # type: ignore[assignment]
    for file, seconds in files.most_common(_SHOWN):
        print(f"  {file}: {counts[file]:,}, {budget.text(seconds)}")
    if len(files) > _SHOWN:
        rest = sum(seconds for _, seconds in files.most_common()[_SHOWN:])
        print(
            f"  and {len(files) - _SHOWN} files more, {budget.text(rest)} (--all names each test)"
        )


def total(tests: Iterable[Due]) -> float:
    return sum(each.seconds for each in tests)


if __name__ == "__main__":
    sys.exit(main())
