"""Public reports on timers, pop and transactions after crashes, moves and failovers, as cases.

Each does to a store what its report says a crash or failover did; then a command, and RocketMQ, go
on with that. Numbers are RocketMQ's issues."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.rocketmq.whole.cases import Case, Served, Ways, replicate
from tests.rocketmq.whole.ledger import Expected
from tests.rocketmq.whole.life import Made


class Report(NamedTuple):
    """What happened to a store, and what of it is lost with the log's own end."""

    harm: Callable[[Path, Made], None]
    needs: tuple[str, ...] = ()
    cut: bool = False
    told: bool = False  # that something of config/ is to be brought back: exit code 1, too


def cut(store: Path, made: Made) -> None:
    """The log lost its end, which timerlog, timercheck, delayOffset and groups are past."""
    for path in sorted((store / "commitlog").iterdir()):
        keep = made.cut - int(path.name)
        if keep <= 0:
            path.unlink()
        elif keep < (size := path.stat().st_size):
            path.write_bytes(path.read_bytes()[:keep].ljust(size, b"\0"))


def no_wheel(store: Path, _: Made) -> None:
    """The slots of the timer wheel were in memory alone."""
    for path in store.glob("timerwheel*"):
        path.unlink()


def no_delay_offsets(store: Path, _: Made) -> None:
    """Written each ten seconds, and not when the broker stopped."""
    for path in (store / "config").glob("delayOffset.json*"):
        path.unlink()


def delay_offsets_past_the_end(store: Path, _: Made) -> None:
    for path in (store / "config").glob("delayOffset.json*"):
        path.write_text(re.sub(r"\b2(\W+)\d+", r"2\g<1>50", path.read_text()))


def empty_metrics(store: Path, _: Made) -> None:
    """They were written anew as the machine went down."""
    for name in ("timermetrics", "transactionMetrics"):
        for path in (store / "config").glob(f"{name}*"):
            path.write_bytes(b"")


REPORTS: dict[str, Report] = {
    # timerlog and timercheck (#7480) name places behind the log's end, and a group's offset (#8239)
    "10668": Report(cut, ("timers",), cut=True), "9735": Report(no_wheel, ("timers",)),
    "3473": Report(no_delay_offsets), "7077": Report(delay_offsets_past_the_end),
    "9412": Report(empty_metrics, ("timers",), told=True),
}  # fmt: skip


def _recovered(report: Report) -> Case:
    def run(ways: Ways) -> Served:
        store, expected = ways.copy("killed"), Expected.of(ways.made)
        report.harm(store, ways.made)
        if report.cut:
            for reader, keys in ways.made.tail.items():
                expected.keys[reader] = expected.keys[reader] - Counter(keys)
        # Queues name messages that the log has lost: that is said, and the exit code 1.
        ways.reput("recover", store, "--yes", leaves=store)
        assert ways.ended_with == (report.cut or report.told)
        ways.ended_with = 0
        return ways.served(store, expected)

    return Case(run, frozenset(report.needs))


# A report on a failover, where a slave goes on with what it had of the master's files: the store is
# replicated, and pop's rows in RocksDB are not sent. (#2357, an older delayOffset.json, is case
# `replicate`; #2117, a kill alone, is `recover`.)
_FAILOVERS = {"9957": Case(replicate, frozenset({"kv"}), refused="rocksdb")}
BY_REPUT = {number: _recovered(report) for number, report in REPORTS.items()} | _FAILOVERS
