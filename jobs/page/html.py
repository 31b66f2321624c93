"""One HTML file that has everything in it: styles, scripts, and what was found as JSON.

The page's Content-Security-Policy lets the browser load nothing, and run only the page's own
scripts, by their hashes: a script in a hostile name would not run.
"""

import json
from base64 import b64encode
from dataclasses import asdict
from hashlib import sha256
from html import escape
from importlib.resources import files

from reput.jobs.outputs.report import time_text
from reput.jobs.page.headline import headline
from reput.jobs.page.log_sections import (
    damage_section,
    derived_section,
    put_section,
    sizes_section,
    topics_section,
)
from reput.jobs.page.model import Section, name_text
from reput.jobs.page.store_facts import Facts
from reput.jobs.page.store_sections import (
    disk_section,
    fates_section,
    groups_section,
    index_section,
    queues_section,
)

# The first bytes of each of our pages: --replace replaces no other file.
BEGINS = b'<!doctype html>\n<html lang="en">\n<meta name="generator" content="reput report">\n'
_SCRIPTS = ("vega.min.js", "vega-lite.min.js", "vega-interpreter.js", "page.js")
_SECTIONS = (
    put_section, topics_section, sizes_section, queues_section, groups_section, index_section,
    damage_section, derived_section, fates_section, disk_section,
)  # fmt: skip


def page(facts: Facts) -> bytes:
    """The page, as UTF-8."""
    sections = [_printable(make(facts)) for make in _SECTIONS]
    sections.sort(key=lambda section: not section.alarms)  # what is wrong comes first
    title = f"RocketMQ store {name_text(facts.store)}"
    whole = {
        "title": title,
        "made": f"Read by reput at {time_text(facts.now)}. The store was not changed.",
        **headline(facts),
        "notes": [name_text(each) for each in facts.notes["store"]],
        "sections": [asdict(section) for section in sections],
    }
    scripts = [_asset(name) for name in _SCRIPTS]
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
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


def _printable(section: Section) -> Section:
    """The section with printable sentences, which may name files and topics; no empty tables."""
    for lines in (section.words, section.alarms, section.notes):
        lines[:] = map(name_text, lines)
    section.tables = [each for each in section.tables if each.rows]
    return section


def _asset(name: str) -> str:
    return (files("reput.jobs.page") / "assets" / name).read_text("utf-8")


def _hash(script: str) -> str:
    return b64encode(sha256(script.encode()).digest()).decode()
