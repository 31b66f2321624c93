"""`reput deliver-delayed STORE --until TIME`: deliver due messages to their real topics, once."""

import argparse
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import OfService, option
from reput.jobs.console.voice import time_text
from reput.jobs.engines.choice import alone
from reput.jobs.outputs.report import counted
from reput.store_format.discover.config import has_rows
from reput.store_format.faults import StoreError
from reput.store_format.names import STORE_DB
from reput.store_format.release.settings import merge_layers, writer_settings_from

if TYPE_CHECKING:
    from reput.broker.services.deliver import DeliveryPlan, Until
    from reput.broker.writer.writer import CommitLogWriter
    from reput.jobs.in_place.service import Look
    from reput.store_format.query.reader import OpenedStore

_EPILOG = """\
What waits in SCHEDULE_TOPIC_XXXX (delay levels) and rmq_sys_wheel_timer (timers) and is due at
TIME is appended to its real topic and queue, as the broker would, in the order in which it is due.
What was delivered before is found in the log: nothing is delivered twice, however often this is
run, or killed. The broker's own files (config/delayOffset.json, timerlog, config/timercheck) then
say so too.
docs/fate.md has the rules.

Exit codes: 0 done, or nothing was due; 1 a message could not be put, or --dry-run found some that
are due; 2 nobody said yes, or wrong usage.

examples:
  reput deliver-delayed /data/store --until now --dry-run
  reput deliver-delayed /data/store --until 2026-01-31T12:00:00Z --yes
  reput deliver-delayed /data/store --until now --missed --rocketmq 5.2.0 --yes

"""


@dataclass
class DeliverReport:
    """Numbers of messages due, delivered and left."""

    store: str
    until: int  # milliseconds since 1970
    due: int = 0  # to be delivered
    delivered: int = 0
    levels: int = 0  # delivered from delay levels
    timers: int = 0  # delivered from the timer wheel
    missed: int = 0  # delivered although a broker had skipped them
    waiting: int = 0  # not due yet
    skipped: int = 0  # passed over by a broker, and not delivered here either
    unsure: int = 0  # skipped messages of which the log does not show whether they were delivered
    refused: list[str] = field(default_factory=list)  # messages refused: place and reason
    stopped: int = 0  # exit code of a signal that ended the delivery early

    def text(self) -> str:
        verb = f"delivered {self.delivered}" if self.delivered else "nothing was delivered"
        lines = [f"{self.due} due at {time_text(self.until)}: {verb}"]
        if self.delivered:
            lines[0] += f" ({self.levels} by level, {self.timers} by timer, {self.missed} missed)"
        lines.append(f"{self.waiting} wait")
        if self.skipped:
            lines.append(
                f"{self.skipped} were skipped by a broker and stay so ({self.unsure} of them may "
                "have been delivered; --missed delivers the others)"
            )
        return "\n".join([*lines, *(f"refused: {each}" for each in self.refused)])


@dataclass(frozen=True, kw_only=True)
class DeliverDelayed(OfService):
    """What `reput deliver-delayed` is asked. until: milliseconds since 1970, by default now."""

    until: int | None = option(
        f"what is due then: {options.TIME_FORMS}",
        type=options.milliseconds,
        metavar="TIME",
        required=True,
    )
    missed: bool = option(
        "also what a broker has skipped, as those of 5.0.0 to 5.3.2 do (reput delayed: never "
        "delivered)",
        False,
    )


@alone(DeliverDelayed)
def deliver_delayed(asked: DeliverDelayed) -> DeliverReport:
    """Deliver what is due in a local store that nobody has open.

    A signal ends it between two messages. Raises StoreError (StoreInUse, DamageFound),
    SettingError, UnknownRelease, OSError.
    """
    from reput.broker.services.deliver import Until, deliver, plan_delivery
    from reput.jobs.in_place.service import Service, one_by_one, refuse_damage, run_service
    from reput.store_format.fate import delays
    from reput.store_format.fate.rows import gathered_delays

    now = time.time_ns() // 1_000_000
    given = asked.settings or {}
    if merge_layers(given).get("timerRocksDBEnable", "false").strip().lower() == "true":
        raise StoreError("timerRocksDBEnable=true: timers in RocksDB cannot be delivered")
    precision = writer_settings_from(given, release=asked.rocketmq).timer_precision_ms
    wanted = Until(now if asked.until is None else asked.until, now, asked.missed, precision)

    def plan(look: "Look") -> "tuple[DeliveryPlan, Until, int]":
        gathered, levels, read = gathered_delays(look.store, look.notes)
        refuse_damage(gathered, look.store)
        if look.stopped is not None:
            read = read._replace(stopped=look.stopped)
        found = delays.resolve(gathered, levels, read)
        planned = plan_delivery(gathered, found, levels, wanted)
        folder = look.store.folder / STORE_DB
        if any(each.level == 0 for each in planned.due) and has_rows(folder):
            raise StoreError(
                f"{folder}: RocksDB may hold the timers that are due (timerRocksDBEnable), and a "
                "broker would deliver them again"
            )
        return planned, wanted, read.timer_read

    def question(planned: "tuple[DeliveryPlan, Until, int]") -> str:
        made = planned[0]
        if made.due:
            return f"deliver {counted(len(made.due), 'message')}"
        return "note what was delivered before" if made.levels or made.wheel is not None else ""

    report = DeliverReport(asked.store, wanted.time)

    def act(
        writer: "CommitLogWriter", opened: "OpenedStore", planned: "tuple[DeliveryPlan, Until, int]"
    ) -> None:
        with one_by_one(asked.shows, "deliver", len(planned[0].due), "messages") as work:
            made = deliver(writer, opened, *planned, work.go_on)
        report.stopped = work.stopped
        report.levels, report.timers, report.missed, report.refused = made
        report.delivered = made.levels + made.timers + made.missed

    made = run_service(Service(plan, question, act), asked)[0]
    return replace(
        report, due=len(made.due), waiting=made.waiting, skipped=made.skipped, unsure=made.unsure
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_service(parser, DeliverDelayed, _EPILOG, times=True)


def run(arguments: argparse.Namespace) -> int:
    report = deliver_delayed(options.asked_of(arguments, DeliverDelayed))
    options.show(arguments, asdict(report), report.text())
    if report.stopped:
        return report.stopped
    if report.refused or (arguments.dry_run and report.due):
        return options.DAMAGE
    return options.DONE
