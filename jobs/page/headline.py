"""The top of the page: the store, the verdict, the next command, the key figures."""

import shlex
from typing import Any, NamedTuple

from reput.jobs.console.voice import duration, time_text
from reput.jobs.judging.report import compared_text
from reput.jobs.judging.shown import left_open_text
from reput.jobs.outputs.report import counted
from reput.jobs.page.facts import Facts
from reput.jobs.page.log_sections import drawn_spans
from reput.jobs.page.model import name_text
from reput.store_format.discover.store import ERAS
from reput.store_format.fate.rows import ENDED
from reput.store_format.fate.transactions import TransactionState
from reput.store_format.query.counts import PutTimes

_DAY = 86_400_000
_UNITS = (
    (10**18, "EB"), (10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"),
)  # fmt: skip


class Figure(NamedTuple):
    """A key figure on top of the page. section: the id of the section with its details."""

    name: str
    value: str
    note: str
    section: str
    alarm: bool = False


class PageVerdict(NamedTuple):
    """Whether the store is sound. sections: ids of those that show why; command: the next step."""

    kind: str  # sound, crashed, bad, unknown: the page's colours
    text: str
    sections: tuple[str, ...] = ()
    advice: str = ""
    command: str = ""


def headline(facts: Facts) -> dict[str, Any]:
    """The data for the top of the page, as the page's script takes them."""
    release = f"RocketMQ {facts.release}" if facts.release else "the release is not known"
    if facts.check and ERAS in facts.check.discovered:  # several releases wrote it
        release = f"RocketMQ {facts.check.discovered[ERAS]['value']}"
    return {
        "name": name_text(facts.store.rstrip("/").rpartition("/")[2] or facts.store),
        "about": f"{release} · {name_text(facts.store)}",
        "verdict": verdict(facts)._asdict(),
        "figures": [each._asdict() for each in figures(facts)],
    }


def verdict(facts: Facts) -> PageVerdict:
    """The verdict of the page: a sentence with numbers, and the next command."""
    report = facts.check
    if report is None:
        return PageVerdict("unknown", f"Not checked: {name_text(facts.unknown['check'])}",
                       advice="To check the store:", command=_command(facts, "check"))  # fmt: skip
    if report.looks_like:
        return PageVerdict(
            "bad", f"This looks like RocketMQ {report.looks_like}, not {report.rocketmq}",
            ("derived",), f"As {report.looks_like} it is sound:",
            _command(facts, "check", release=report.looks_like),
        )  # fmt: skip
    files, wrong = report.derived_files or 0, len(report.differences)
    derived = compared_text(files, counted(files, "derived file"), report.in_rocksdb)
    if report.undamaged and report.crashed:
        return PageVerdict("crashed", f"Needs recovery: abort {left_open_text(report)}",
                           ("damage", "derived"), *_next(facts))  # fmt: skip
    if report.sound and not files and not report.in_rocksdb:
        return PageVerdict(
            "sound", f"Sound: {counted(report.messages, 'message')}; the store has no queue and no "
            f"index file", ("damage",), "To make them from the log:",
            _command(facts, "rebuild", "--output", "rebuilt"),
        )  # fmt: skip
    if report.sound:
        return PageVerdict(
            "sound", f"Sound: {counted(report.messages, 'message')} and "
            f"{derived} are as they should be", ("damage", "derived"),
        )  # fmt: skip
    found, sections = [], []
    if report.damage["range_count"]:
        found.append(damage_text(report.damage))
        sections.append("damage")
    if report.findings:
        found.append(f"{counted(len(report.findings), 'file')} of the log in doubt")
        sections = ["damage"]
    if wrong:
        found.append(
            f"{counted(wrong, 'difference')} of {derived} from what the log gives"
            if report.in_rocksdb
            else f"{wrong:,} of {derived} do not match the log"
        )
        sections.append("derived")
    return PageVerdict("bad", f"Not sound: {'; '.join(found)}", tuple(sections), *_next(facts))


def damage_text(damage: dict[str, Any]) -> str:
    """`1 damaged range of 521 bytes`, and what is known to be missing."""
    size = sum(cause["bytes"] for cause in damage["causes"])
    text = f"{counted(damage['range_count'], 'damaged range')} of {counted(size, 'byte')}"
    if damage["messages_missing"]:
        text += f", {counted(damage['messages_missing'], 'message')} missing"
    return text


def _next(facts: Facts) -> tuple[str, str]:
    """What to do with a store that is not sound: advice, and a command."""
    report = facts.check
    if facts.crashed and not (report and report.damage["bytes_lost"]):
        return "To see what a recovery would do:", _command(facts, "recover", "--dry-run")
    if report and report.only_derived_differ:
        return "To make all queues and the index anew from the log:", _command(
            facts, "rebuild", "--output", "rebuilt"
        )
    return "To make a copy that a broker serves past the damage:", _command(
        facts, "repair", "--output", "repaired"
    )


def _command(facts: Facts, name: str, *words: str, release: str = "") -> str:
    if facts.check and facts.check.assumed and "--output" in words:
        release = "VERSION"  # a command that writes needs the release
    given = dict(facts.given) | ({"--rocketmq": release} if release else {})
    options = [word for option in given.items() for word in option]
    for setting in facts.settings:
        options += ["--set", setting]
    return name_text(shlex.join(["reput", name, facts.store, *words, *options]))


def figures(facts: Facts) -> list[Figure]:
    found = [*_of_log(facts), *_of_check(facts), *_waiting(facts)]
    if facts.groups:
        behind = sum(max(row.lag, 0) for row in facts.groups)
        late = {row.group for row in facts.groups if row.lag > 0}
        note = f"by {counted(len(late), 'group')}"
        found.append(Figure("Not yet consumed", f"{behind:,}", note, "groups"))
    return found


def _of_log(facts: Facts) -> list[Figure]:
    size = (facts.check or facts).log_end - facts.log_start  # without the unwritten end
    found = []
    if facts.put is not None:
        messages = sum(row.messages for row in facts.put.topics)
        records = sum(row.records for row in facts.put.sizes)
        mean = sum(row.bytes for row in facts.put.sizes) // records if records else 0
        note = f"{bytes_text(mean)} each" if records else ""
        found.append(Figure("Messages", f"{messages:,}", note, "time"))
        queues = "" if facts.queues is None else f" in {counted(len(facts.queues), 'queue')}"
        found.append(
            Figure("Topics", f"{len(facts.put.topics):,}", f"with messages{queues}", "topics")
        )
        begin, end = _period(facts.put)
        if end >= begin:
            days = (end - begin) // _DAY
            long = counted(days, "day") if days > 1 else duration(end - begin)
            first, last = time_text(begin)[:10], time_text(end)[:10]
            note = first if first == last else f"from {first} on"
            found.append(Figure("Stored within", long, note, "time"))
    found.append(
        Figure("Log", bytes_text(size), f"in {counted(facts.segments, 'segment')}", "damage")
    )
    return found


def _period(put: PutTimes) -> tuple[int, int]:
    """The first and last storeTimestamp, without those of wrong clocks; (0, -1) for none."""
    drawn = drawn_spans(put)
    if not drawn:
        return 0, -1
    begin, end = drawn[0].begin, max(span.end for span in drawn) - 1
    times = [time for row in put.topics for time in (row.first, row.last)]
    inside = [time for time in times if begin <= time <= end]
    return min(inside, default=begin), max(inside, default=end)


def _of_check(facts: Facts) -> list[Figure]:
    report = facts.check
    if report is None:
        return [Figure("Damage", "?", "not checked", "damage")]
    damage, wrong = report.damage, len(report.differences)
    size = sum(cause["bytes"] for cause in damage["causes"])
    notes = [counted(damage["range_count"], "range")] if damage["range_count"] else []
    if damage["messages_missing"]:
        notes.append(f"{counted(damage['messages_missing'], 'message')} missing")
    if report.findings:
        notes.append(f"{counted(len(report.findings), 'file')} in doubt")
    value = bytes_text(size) if size else "found" if notes else "none"
    found = [
        Figure("Damage", value, ", ".join(notes) or "all checksums match", "damage", bool(notes))
    ]
    if report.derived_files is not None:
        note = "do not match the log" if wrong else "match the log"
        if report.behind and not wrong:
            note = f"{len(report.behind):,} behind the log"
        files = f"{f'{wrong:,} of ' if wrong else ''}{report.derived_files:,}"
        if report.in_rocksdb:
            files = f"{files} and RocksDB" if report.derived_files else "in RocksDB"
        found.append(Figure("Derived files", files, note, "derived", bool(wrong)))
    return found


def _waiting(facts: Facts) -> list[Figure]:
    if facts.fates is None:
        return []
    half = facts.fates.transactions.get(TransactionState.PENDING, 0)
    delayed = sum(many for (_, state), many in facts.fates.delayed.items() if state not in ENDED)
    if not facts.fates.transactions and not facts.fates.delayed:
        return []
    return [Figure("Waiting", f"{half + delayed:,}", f"{delayed:,} delayed, {half:,} half",
                   "fates")]  # fmt: skip


def bytes_text(size: int) -> str:
    """A size with three digits at most, as `1.9 GB`."""
    for unit, name in _UNITS:
        if size >= unit - unit // 2000:  # less than that is 999 of the next unit, rounded
            value = size / unit
            return f"{value:.1f} {name}" if value < 99.95 else f"{value:.0f} {name}"
    return counted(size, "byte")
