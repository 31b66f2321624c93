"""Goes round the tests that explore (the mark `explore`), each time with a seed that is new.

A failure is a line in tests/ledger/failures.tsv: when, on which commit, the seed, the test.
CONTRIBUTING.md says how it becomes a fixed test.
"""

import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.ledger import batches, budget, digests, records

FAILURES = "tests/ledger/failures.tsv"
ROUND_SECONDS = 90.0  # what a round is taken for
HANG_SECONDS = 1800.0


def explore(tests: list[str], until: float, cores: int, root: Path = digests.ROOT) -> int:
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
        if not skipped:  # else it would be each time
            waiting.append(test)
        if code:
            words = f".venv/bin/python -m pytest -n0 --hypothesis-seed={seed} '{test}'"
            print(f"FAILED (pytest: {code}): REPUT_SEED={seed} {words}\n  {log}", flush=True)
            with (root / FAILURES).open("a", encoding="utf-8") as file:
                file.write(f"{records.moment()}\t{digests.commit(root)}\t{seed}\t{test}\n")
        else:
            log.unlink()

    to_its_end = budget.run_all(next_job, until, cores)
    print("rounds:", ", ".join(f"{count} {verdict}" for verdict, count in rounds.items()))
    return 130 if not to_its_end else 1 if rounds["failed"] else 0
