"""`python -m tests.rocketmq.flips`: what RocketMQ makes of flipped bits and cuts, beside reput.

One JVM recovers one small store after the other, as after a crash; each is then compared with
what it derives of the whole log. Prints a table for docs/reliability.md.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.flips import COUNT, KINDS, PLACES, SETTINGS, Outcomes, State, cuts, flips, messages
from tests.logs.encoder import build_log
from tests.rocketmq.build import VERSIONS
from tests.rocketmq.driver import Driver, JobFailedError
from tests.rocketmq.judge import derived_files

Files = dict[str, bytes]


class Judge:
    def __init__(self, version: str, folder: Path, driver: Driver, last: dict[str, object]) -> None:
        self.version, self.folder, self.driver = version, folder, driver
        made = messages(last=last)
        self._whole = self._derived(build_log(made, SETTINGS["mappedFileSizeCommitLog"])[0])
        self._prefix = self._derived(build_log(made[:-1], SETTINGS["mappedFileSizeCommitLog"])[0])

    def _derived(self, segment: bytes) -> tuple[Files, int]:
        """What is derived, and how many messages of it are in queues."""
        store = self.folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        (store / "commitlog").mkdir(parents=True)
        (store / "commitlog" / f"{0:020d}").write_bytes(segment)
        self.driver.derive(store, SETTINGS, mode="crash", pace=5)
        files = {name: path.read_bytes() for name, path in derived_files(store)}
        queues = [files[name] for name in files if name.startswith("consumequeue/")]
        entries = [q[at : at + 20] for q in queues for at in range(0, len(q), 20)]
        blank = (bytes(20), bytes(8) + b"\x7f\xff\xff\xff" + bytes(8))
        return files, sum(entry not in blank for entry in entries)

    def of(self, state: State) -> str:
        try:
            files, count = self._derived(state.segment)
        except JobFailedError as error:
            return "does not start" if "refused" in str(error) else "fails"
        if files == self._whole[0]:
            return "same"
        if files == self._prefix[0]:
            return "1 lost"
        lost = self._whole[1] - count
        return f"{lost} lost" if lost > 0 else "other"


def _row(name: str, mine: Counter[str], theirs: Counter[str]) -> str:
    def words(counts: Counter[str]) -> str:
        return ", ".join(f"{word} {count}" for word, count in sorted(counts.items()))

    return f"| {name} | {sum(mine.values())} | {words(mine)} | {words(theirs)} |"


def _table(states: Iterable[State], ours: Outcomes, judge: Judge) -> None:
    print("| field | states | reput rebuild | RocketMQ |\n|---|---|---|---|", flush=True)
    by_field: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for state in states:
        mine, theirs = by_field.setdefault(state.field, (Counter(), Counter()))
        mine[ours.of(state)] += 1
        theirs[judge.of(state)] += 1
    for name, (mine, theirs) in by_field.items():
        print(_row(name, mine, theirs))
    sums = [sum((pair[side] for pair in by_field.values()), Counter()) for side in (0, 1)]
    print(_row("all", *sums) + "\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.rocketmq.flips", description=__doc__)
    parser.add_argument("--rocketmq", default="5.4.0", choices=VERSIONS)
    parser.add_argument("--every", type=int, default=1, help="only each so manieth bit")
    parser.add_argument("--places", nargs="*", default=list(PLACES), choices=list(PLACES))
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    args = parser.parse_args()
    with Driver(args.rocketmq) as driver, tempfile.TemporaryDirectory() as folder:
        for place in args.places:
            print(f"Bits of the {place} of {COUNT} records, RocketMQ {args.rocketmq}\n")
            judge = Judge(args.rocketmq, Path(folder), driver, {})
            _table(flips(PLACES[place], every=args.every), Outcomes(), judge)
        for kind in args.kinds:
            print(f"The last record cut at each byte, {kind}, RocketMQ {args.rocketmq}\n")
            judge = Judge(args.rocketmq, Path(folder), driver, KINDS[kind])
            _table(cuts(kind), Outcomes(last=KINDS[kind]), judge)


if __name__ == "__main__":
    main()
