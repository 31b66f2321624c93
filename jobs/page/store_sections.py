"""Sections about the rest of a store (queues, groups, index files, fates of messages, the disk),
and the one HTML file of all sections.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files

from reput.jobs.console.voice import duration, time_text
from reput.jobs.outputs.report import counted
from reput.jobs.page import log_sections, model
from reput.jobs.page.facts import Facts, section_of
from reput.jobs.page.headline import headline
from reput.store_format.derived.index_reader import IndexFileStats
from reput.store_format.fate.rows import ENDED, OPEN, FateSums
from reput.store_format.query.inventory import QueueRow


@section_of("queues", "Queues", "queues")
def queues_section(section: model.Section, facts: Facts, rows: list[QueueRow]) -> None:
    if not rows:
        section.words.append("There is no queue.")
        return
    deepest = sorted(rows, key=lambda row: (-row.messages, row.topic, row.queue_id))
    shown = deepest[: model.BARS_MOST]
    section.words.append(
        f"{counted(len(rows), 'queue')}, with {sum(row.messages for row in rows):,} messages that "
        f"the log still has{_most(rows, shown)}."
    )
    put = sum(row.messages for row in facts.put.topics) if facts.put else 0
    apart = put - sum(row.messages for row in rows)
    if apart > 0:
        be = "is" if apart == 1 else "are"
        section.words.append(f"{counted(apart, 'message')} of the log {be} in no queue.")
    names = model.labels(f"{row.topic} / {row.queue_id}" for row in shown)
    drawn = [model.Bar(name, row.messages) for name, row in zip(names, shown, strict=True)]
    if len(drawn) > 1:
        section.draw("Messages in each queue", model.bars(drawn, "messages"))
    section.show(
        "Queues", deepest, "topic", "queue=queue_id#", "messages#", "first position=min_offset#",
        "end=max_offset#", "bytes#", "oldest (UTC)=min_timestamp@", "newest (UTC)=max_timestamp@",
    )  # fmt: skip


def _most(rows: Sequence[object], shown: Sequence[object]) -> str:
    return f"; the picture has the {len(shown):,} largest" if len(rows) > len(shown) else ""


@section_of("groups", "Consumer groups", "queues", noted=False)
def groups_section(section: model.Section, facts: Facts, _: list[QueueRow]) -> None:
    if not facts.groups:
        section.words.append("No group has an offset in config/consumerOffset.json.")
        return
    lags: dict[str, int] = {}
    for row in facts.groups:
        lags[row.group] = lags.get(row.group, 0) + max(row.lag, 0)
    most = sorted(lags, key=lambda group: (-lags[group], group))
    shown = most[: model.BARS_MOST]
    behind = sum(lag > 0 for lag in lags.values())
    section.words.append(
        f"{counted(len(lags), 'group')}, {behind:,} of them with messages not yet consumed"
        f"{_most(most, shown)}."
    )
    drawn = [
        model.Bar(name, lags[group]) for name, group in zip(model.labels(shown), shown, strict=True)
    ]
    if len(drawn) > 1 and behind:
        section.draw("Messages not yet consumed, by group", model.bars(drawn, "messages"))
    section.show(
        "Groups", sorted(facts.groups, key=lambda row: -row.lag), "group", "topic",
        "queue=queue_id#", "next position=consumer_offset#", "queue's end=max_offset#", "lag#",
    )  # fmt: skip


@section_of("index", "Index files", "index")
def index_section(section: model.Section, facts: Facts, files: list[IndexFileStats]) -> None:
    """Index files: how full they are, how long their chains are, which times they cover."""
    if not files:
        section.words.append(
            "There is none that can be read." if section.notes else "There is no index file."
        )
        return
    chains: dict[int, int] = {}
    for file in files:
        for least, slots in file.chains.items():
            chains[least] = chains.get(least, 0) + slots
    entries, slots = sum(file.header.entries for file in files), sum(chains.values())
    section.words.append(
        f"{counted(len(files), 'file')} with {entries:,} entries in {slots:,} slots. "
        f"A query by key reads the entries of one slot's chain; the longest chain has "
        f"{max(file.longest for file in files):,}."
    )
    shown = files[-model.BARS_MOST :]
    names = model.labels(_file_name(file) for file in shown)
    full = [model.Bar(name, file.header.entries) for name, file in zip(names, shown, strict=True)]
    if len(full) > 1:
        newest = f"of the newest {len(shown):,} index files" if len(files) > len(shown) else "file"
        section.draw(
            f"Entries in each {newest}", model.bars(full, f"entries, of {shown[-1].room:,}")
        )
    if len(chains) > 1:
        drawn = [
            model.Bar("1 entry" if n == 1 else f"{n} to {2 * n - 1} entries", slots)
            for n, slots in sorted(chains.items())
        ]
        section.draw("Slots, by how many entries their chain has", model.bars(drawn, "slots"))
    times = [
        (name, file.header.begin_timestamp, file.header.end_timestamp)
        for name, file in zip(names, shown, strict=True)
        if file.header.entries
        and model.drawable(file.header.begin_timestamp)
        and model.drawable(file.header.end_timestamp)
    ]
    if len(times) > 1:
        section.draw("From the oldest to the newest message of each file", model.lanes(times))
    section.show(
        "Index files", files, model.PageColumn("file", _file_name), "entries=header.entries#",
        "room for=room#", "slots in use=header.slots_used#", "of slots=slots#",
        model.PageColumn("longest chain", lambda file: file.longest or None, True),
        "oldest (UTC)=header.begin_timestamp@", "newest (UTC)=header.end_timestamp@",
        model.PageColumn("age", lambda file: duration(facts.now - file.header.end_timestamp)),
    )  # fmt: skip


def _file_name(file: IndexFileStats) -> str:
    return file.path.rpartition("/")[2]


@section_of("fates", "Half and delayed messages", "fates")
def fates_section(section: model.Section, facts: Facts, found: FateSums) -> None:
    """Half messages and delayed messages, by what became of them."""
    if not found.transactions and not found.delayed:
        section.words.append("The log has none.")
        return
    section.words.append("What had become of them when the log ended:")
    if found.transactions:
        drawn = [model.Bar(str(state), many) for state, many in sorted(found.transactions.items())]
        if len(drawn) > 1:
            section.draw(
                "Half messages, by what became of them", model.bars(drawn, "half messages")
            )
        else:
            section.words.append(f"Half messages: {drawn[0].value:,} {drawn[0].label}.")
        section.show(
            "Half messages that are not decided, or were given up", found.open_transactions,
            "state", "topic", "unique key=unique_key", "producer group=producer_group",
            "put (UTC)=store_timestamp@", model.PageColumn("age", lambda row: duration(row.age)),
            "checks#", all_rows=sum(found.transactions.get(state, 0) for state in OPEN),
        )  # fmt: skip
    if found.delayed:
        drawn = [
            model.Bar(str(state), many, by) for (by, state), many in sorted(found.delayed.items())
        ]
        parts = sorted({by for by, _ in found.delayed})
        if len(drawn) > 1:
            section.draw(
                "Delayed messages, by what became of them",
                model.bars(drawn, "delayed messages", parts if len(parts) > 1 else ()),
            )
        else:
            section.words.append(f"Delayed messages: {drawn[0].value:,} {drawn[0].label}.")
        section.show(
            "Delayed messages that have not arrived", found.open_delayed, "state",
            model.PageColumn("by", lambda row: f"level {row.level}" if row.level else "timer"),
            "topic", "unique key=unique_key", "due (UTC)=due@",
            model.PageColumn(
                "late by", lambda row: None if row.late is None else duration(row.late)
            ),
            all_rows=sum(many for (_, state), many in found.delayed.items() if state not in ENDED),
        )  # fmt: skip
    counts = [("half", "", state, many) for state, many in sorted(found.transactions.items())]
    counts += [("delayed", by, state, many) for (by, state), many in sorted(found.delayed.items())]
    section.tables.insert(0, model.table(
        "How many", counts, "messages=0", "by=1",
        model.PageColumn("state", lambda row: str(row[2])), "how many=3#",
    ))  # fmt: skip


@section_of("disk", "Disk")
def disk_section(section: model.Section, facts: Facts) -> None:
    """The size of the store's folders, and what cleaning would free."""
    expired = facts.expired
    freed: dict[str, int] = {}
    if expired is None:
        section.notes.append(f"what cleaning would free is {facts.not_known('expired')}")
    else:
        for each in (*expired.segments, *expired.files):
            name = f"{each.path.partition('/')[0]}/"
            freed[name] = freed.get(name, 0) + each.length
        section.words.append(
            f"reput expire --any-hour would free {expired.bytes:,} bytes: "
            f"{counted(len(expired.segments), 'segment')}, "
            f"{counted(len(expired.files), 'file')} of queues and index."
            if expired.needed
            else "Nothing has expired that cleaning could free."
        )
        if expired.kept_segments:
            section.notes.append(
                f"cleaning leaves {counted(expired.kept_segments, 'expired segment')}, as somebody "
                f"needs what is there"
            )
        section.notes += [each.who for each in expired.kept[:20]]
    if facts.disk is None:
        section.notes.append(facts.not_known("disk"))
        return
    drawn, parts = [], ["stays"] + (["cleaning frees it"] if freed else [])
    for row, name in zip(facts.disk, model.labels(row.name for row in facts.disk), strict=True):
        gone = min(freed.get(row.name, 0), row.bytes)
        drawn.append(model.Bar(name, row.bytes - gone, "stays"))
        if gone:
            drawn.append(model.Bar(name, gone, "cleaning frees it"))
    section.words.append(
        f"{sum(row.bytes for row in facts.disk):,} bytes in "
        f"{counted(sum(row.files for row in facts.disk), 'file')}, by the files' lengths. A file "
        f"that a broker has prepared takes less of the disk."
    )
    if len(facts.disk) > 1:
        drawn = drawn[: model.BARS_MOST]
        section.draw("Bytes in each folder", model.bars(drawn, "bytes", parts if freed else ()))
    section.show(
        "Folders", facts.disk, "folder=name", "files#", "bytes#",
        model.PageColumn("cleaning frees", lambda row: freed.get(row.name, 0), True),
    )  # fmt: skip


# ---
# One HTML file that has everything in it: styles, scripts, and what was found as JSON.
#
# The page's Content-Security-Policy lets the browser load nothing, and run only the page's own
# scripts, by their hashes: a script in a hostile name would not run.

# The first bytes of each of our pages: --replace replaces no other file.
BEGINS = b'<!doctype html>\n<html lang="en">\n<meta name="generator" content="reput report">\n'
_SCRIPTS = ("vega.min.js", "vega-lite.min.js", "vega-interpreter.js", "page.js")
_SECTIONS = (
    log_sections.put_section, log_sections.topics_section, log_sections.sizes_section,
    queues_section, groups_section, index_section, log_sections.damage_section,
    log_sections.derived_section, fates_section, disk_section,
)  # fmt: skip


def page(facts: Facts) -> bytes:
    """The page, as UTF-8."""
    sections = [_printable(make(facts)) for make in _SECTIONS]
    sections.sort(key=lambda section: not section.alarms)  # what is wrong comes first
    title = f"RocketMQ store {model.name_text(facts.store)}"
    whole = {
        "title": title,
        "made": f"Read by reput at {time_text(facts.now)}. The store was not changed.",
        **headline(facts),
        "notes": [model.name_text(each) for each in facts.notes["store"]],
        "sections": [asdict(section) for section in sections],
    }
    scripts = [_asset(name) for name in _SCRIPTS]
    digests = [b64encode(sha256(each.encode()).digest()).decode() for each in scripts]
    hashes = " ".join(f"'sha256-{each}'" for each in digests)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        f"base-uri 'none'; form-action 'none'"
    )
    head = (
        f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_asset('page.css')}</style>\n"
        f'<a class="skip" href="#main">To the report</a>\n<header id="top"></header>\n'
        f'<nav aria-label="Sections"></nav>\n<main id="main" tabindex="-1"></main>\n'
        f'<footer class="soft"></footer>\n'
        f"<noscript><p>The pictures and tables of this page are drawn by its own scripts: allow "
        f"them.</p></noscript>\n"
        f'<script type="application/json" id="report">{as_data(whole)}</script>\n'
    )
    body = "".join(f"<script>{script}</script>\n" for script in scripts)
    return BEGINS + (head + body + "</html>\n").encode()


def as_data(value: object) -> str:
    """JSON for a script element, escaped so that no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _printable(section: model.Section) -> model.Section:
    """The section with printable sentences, which may name files and topics; no empty tables."""
    for lines in (section.words, section.alarms, section.notes):
        lines[:] = map(model.name_text, lines)
    section.tables = [each for each in section.tables if each.rows]
    return section


def _asset(name: str) -> str:
    return (files("reput.jobs.page") / "assets" / name).read_text("utf-8")
