"""Writes docs/settings.md from the one declaration, store_format/release/setting_names.py.

.venv/bin/python -m scripts.settings_page          (make settings-page)
"""

from pathlib import Path

from reput.store_format.release.setting_table import SETTINGS, Known, Status

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"

_HEAD = """\
# Settings

Made by `make settings-page` from `store_format/release/setting_names.py`; a test holds that it
is what that declaration gives.

A broker's file (`--broker-conf`) may hold every setting that a release from 4.1.0 to 5.5.1 takes;
`--set NAME=VALUE` goes over it. What `reput` does of each is one of four:

- **obeyed**: done as RocketMQ does it.
- **warned**: RocketMQ would do something else than `reput`, and a warning says so where the value
  is not the default.
- **refused**: with any other value than the default nothing is done: exit code 2.
- **harmless**: it changes neither what is derived or written, nor when that is durable. Nothing is
  said, whatever the value.

*Derive* is every command that derives files from a log: `rebuild`, `verify`, `check`, `recover`,
`repair`. *Append* is `reput append`; who uses the writer from Python asks
`setting_warnings(given, release, "append")` for its warnings.

A name that is none of these is an error, with the nearest one that is. An older spelling is the
same setting: `mapedFileSizeCommitLog=X` is obeyed as `mappedFileSizeCommitLog=X`, with a warning
where the release given would take no notice of it; both with different values are an error. A
switch that the release given does not have yet keeps its default, as in that release's broker, and
a warning says so.

Values are read as RocketMQ reads them (MixAll.properties2Object). Where it would go on without a
word, with its default (`maxIndexNum=4_00`, or a blank after a number) or with false
(`enableLmq=yes`), it is an error that names setting and value. Blanks around texts are dropped.

Names, types, releases and defaults are read off RocketMQ's own jars by
`tests/rocketmq/test_setting_releases.py` (4.9.6, 5.1.2 and 5.3.4 are not in Maven Central). A
default of `...` depends on the machine.

[What each setting moves into RocksDB](rocksdb.md), and what is done with such a store, has a page
of its own.

"""
_TABLE = (
    "| setting | releases | type | default | derive | append | |\n|---|---|---|---|---|---|---|\n"
)
_SPEAKS = (Status.OBEYED, Status.WARNED, Status.REFUSED)


def page() -> str:
    """The text of docs/settings.md."""
    speaking = [known for known in SETTINGS if {known.derive, known.append} & set(_SPEAKS)]
    text = _HEAD + "## What is obeyed, warned of or refused\n\n" + _TABLE
    text += "".join(_row(known) for known in speaking)
    text += "\n## Harmless\n"
    reasons = dict.fromkeys(known.reason for known in SETTINGS if known not in speaking)
    for reason in reasons:
        text += f"\n{reason[0].upper()}{reason[1:]}:\n\n"
        text += "| setting | releases | type | default |\n|---|---|---|---|\n"
        text += "".join(
            f"| {_names(known)} | {_releases(known)} | {_kind(known)} | {_default(known)} |\n"
            for known in SETTINGS
            if known not in speaking and known.reason == reason
        )
    return text


def _row(known: Known) -> str:
    return (
        f"| {_names(known)} | {_releases(known)} | {_kind(known)} | {_default(known)} "
        f"| {known.derive} | {known.append} | {known.reason} |\n"
    )


def _names(known: Known) -> str:
    older = "".join(f", {each.since} to {each.until} `{each.name}`" for each in known.older)
    return f"`{known.name}`{older}"


def _releases(known: Known) -> str:
    if not known.since:
        return "none"
    return f"{known.since} to {known.until}" if known.until else f"from {known.since}"


def _kind(known: Known) -> str:
    return known.kind.replace("|", ", ")


def _default(known: Known) -> str:
    if known.default is None:
        return "..."
    return f"`{known.default}`" if known.default else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
