"""`reput resolve-transactions STORE --decide WHAT`: commit or roll back pending half messages."""

import argparse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from reput.jobs.console.declared import OfService, option, shown
from reput.jobs.console.options import DAMAGE, DONE, add_service, asked_of, show
from reput.jobs.engines.choice import alone
from reput.store_format.faults import StoreError
from reput.store_format.names import OFFSETS
from reput.store_format.release.settings import writer_settings_from

if TYPE_CHECKING:
    from reput.broker.services.resolve import Decisions, ResolutionPlan
    from reput.broker.writer.writer import CommitLogWriter
    from reput.jobs.in_place.service import Look
    from reput.store_format.query.reader import OpenedStore

_FILE_BYTES_MAX = 1 << 30
_EPILOG = """\
Ends the half messages that `reput transactions` lists as pending: commit puts the message into its
real topic, rollback drops it; op messages then tell a broker not to ask about it. One that was
checked transactionCheckMax (15) times goes to TRANS_CHECK_MAX_TIME_TOPIC, as a broker puts it; with
--discarded it is decided as the others are, and so are those that a broker has discarded or gone
past.

WHAT: commit, rollback, or a file with lines `UNIQ_KEY commit` (or `PHYSICAL_OFFSET rollback`); what
it does not name stays pending. Nothing is ended twice, however often this is run, or killed.
docs/fate.md has the rules.

Exit codes: 0 done, or nothing to do; 1 a message could not be put, a transaction has ended
otherwise, or --dry-run found something; 2 nobody said yes, or wrong usage.

examples:
  reput resolve-transactions /data/store --decide rollback --dry-run
  reput resolve-transactions /data/store --decide decisions.txt --yes
  reput resolve-transactions /data/store --decide commit --discarded --rocketmq 4.9.7 --yes

"""


@dataclass
class ResolveReport:
    """Numbers of transactions to end, ended and left."""

    store: str
    to_commit: int = 0
    to_roll_back: int = 0
    to_discard: int = 0  # checked too often: to TRANS_CHECK_MAX_TIME_TOPIC
    to_finish: int = 0  # ended before, and an op message is missing
    committed: int = 0
    rolled_back: int = 0
    discarded: int = 0
    finished: int = 0
    pending: int = 0  # not decided
    given_up: int = 0  # discarded or abandoned by a broker, and left so
    otherwise: list[str] = field(default_factory=list)  # ended before, in another way than decided
    refused: list[str] = field(default_factory=list)  # messages refused: place and reason
    needed: bool = False
    done: bool = False
    stopped: int = 0  # exit code of a signal that ended the work early

    def text(self) -> str:
        if self.done:
            line = (
                f"committed {self.committed}, rolled back {self.rolled_back}, discarded "
                f"{self.discarded}; wrote the missing op messages of {self.finished}"
            )
        elif self.needed:
            line = (
                f"would commit {self.to_commit}, roll back {self.to_roll_back}, discard "
                f"{self.to_discard}, and write the missing op messages of {self.to_finish}"
            )
        else:
            line = "nothing to do"
        lines = [line, f"{self.pending} stay pending"]
        if self.given_up:
            lines.append(f"{self.given_up} were given up by a broker: --discarded decides these")
        lines += [f"ended before: {each}" for each in self.otherwise]
        return "\n".join([*lines, *(f"refused: {each}" for each in self.refused)])


@dataclass(frozen=True, kw_only=True)
class ResolveTransactions(OfService):
    """What `reput resolve-transactions` is asked."""

    decide: str | Mapping[str | int, str] = field(
        metadata=shown(
            "commit or rollback all that are pending, or a file that says which of them how",
            metavar="WHAT",
        )
    )
    discarded: bool = option(
        "also those that a broker has discarded, would discard, or has gone past", False
    )


@alone(ResolveTransactions)
def resolve_transactions(asked: ResolveTransactions) -> ResolveReport:
    """End the pending transactions of a local store that nobody has open.

    decide: "commit" or "rollback" for all, or a mapping of UNIQ_KEYs or physical offsets to these.
    A signal ends it between two messages.
    Raises StoreError (StoreInUse, DamageFound), SettingError, UnknownRelease, OSError.
    """
    from reput.broker.services.resolve import plan_resolution, resolve_planned
    from reput.jobs.in_place.service import Service, one_by_one, refuse_damage, run_service
    from reput.store_format.discover.config import config_in_rocksdb
    from reput.store_format.fate import transactions
    from reput.store_format.fate.rows import gathered_transactions

    decisions, given = _decisions(asked.decide), asked.settings or {}
    checks_most = writer_settings_from(given, release=asked.rocketmq).transaction_check_max
    report = ResolveReport(asked.store)

    def plan(look: "Look") -> "ResolutionPlan":
        if not look.store.profile.half_topic:
            raise StoreError(
                f"RocketMQ {look.store.profile.release} has no topic of half messages (4.3.0)"
            )
        elsewhere = config_in_rocksdb(look.store.folder, OFFSETS)
        if elsewhere is not None:
            raise StoreError(
                f"{elsewhere}: RocksDB tells a broker up to where half messages are done, and that "
                "cannot be written: it could discard what is committed here"
            )
        gathered, position, rows = gathered_transactions(look.store, look.notes)
        refuse_damage(gathered, look.store)
        return plan_resolution(
            look.store.log, transactions.resolve(gathered, position, rows), decisions,
            asked.discarded, checks_most, position, look.store.profile.split_properties,
        )  # fmt: skip

    def question(planned: "ResolutionPlan") -> str:
        if not planned.needed:
            return ""
        return (
            f"commit {len(planned.commits)}, roll back {len(planned.rollbacks)} and discard "
            f"{len(planned.discards)} transactions"
        )

    def act(writer: "CommitLogWriter", opened: "OpenedStore", planned: "ResolutionPlan") -> None:
        many = len(planned.commits) + len(planned.rollbacks) + len(planned.discards)
        with one_by_one(asked.shows, "resolve", many, "transactions") as work:
            made = resolve_planned(writer, opened, planned, work.go_on)
        report.stopped = work.stopped
        report.committed, report.rolled_back, report.discarded, report.finished = made[:4]
        report.refused, report.done = made.refused, True

    planned = run_service(Service(plan, question, act), asked)
    report.to_commit, report.to_roll_back = len(planned.commits), len(planned.rollbacks)
    report.to_discard, report.to_finish = len(planned.discards), len(planned.unfinished)
    report.pending, report.given_up = len(planned.undecided), planned.given_up
    report.otherwise, report.needed = planned.ended_otherwise, planned.needed
    return report


def _decisions(decide: str | Mapping[str | int, str]) -> "Decisions":
    """The decisions that are given. Raises StoreError for a word that is no decision."""
    from reput.broker.services.resolve import Decisions, Outcome

    try:
        if isinstance(decide, str):
            return Decisions(Outcome(decide), {})
        return Decisions(None, {name: Outcome(word) for name, word in decide.items()})
    except ValueError as error:
        raise StoreError(f"decide: {error}: expected commit or rollback") from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_service(parser, ResolveTransactions, _EPILOG)


def run(arguments: argparse.Namespace) -> int:
    decide = _decide(arguments.decide)
    report = resolve_transactions(asked_of(arguments, ResolveTransactions, decide=decide))
    show(arguments, asdict(report), report.text())
    if report.stopped:
        return report.stopped
    if report.refused or report.otherwise or (report.needed and not report.done):
        return DAMAGE
    return DONE


def _decide(word: str) -> str | Mapping[str | int, str]:
    """The decision, or those in the file of that name. Raises StoreError."""
    from reput.broker.services.resolve import Outcome, read_decisions

    if word in list(Outcome):
        return word
    try:
        with open(word, encoding="utf-8-sig") as file:
            text = file.read(_FILE_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise StoreError(f"--decide {word}: {reason}; name commit, rollback or a file") from None
    return dict(read_decisions(word, text).named)
