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

Give settings by a broker's file (`--broker-conf FILE`) or one by one (`--set NAME=VALUE`, which
goes over the file). Every setting that a release from 4.1.0 to 5.5.1 takes is allowed. `reput`
treats each in one of four ways:

- **obeyed**: `reput` does what RocketMQ does.
- **warned**: RocketMQ would do something else than `reput`. A warning says so if the value is not
  the default.
- **refused**: only the default is allowed. With any other value the command does nothing and ends
  with exit code 2.
- **harmless**: the setting changes neither the derived or written bytes nor their durability.
  There is no message, whatever the value.

*Derive* is every command that derives files from a log: `rebuild`, `verify`, `check`, `recover`,
`repair`. *Append* is `reput append`. Who uses the writer from Python gets its warnings from
`setting_warnings(given, release, "append")`.

- An unknown name is an error. The error shows the nearest known name.
- An older spelling is the same setting: `mapedFileSizeCommitLog=X` is obeyed as
  `mappedFileSizeCommitLog=X`, with a warning if the given release ignores that spelling. Both
  spellings with different values are an error.
- A switch that the given release does not have yet keeps its default, as in that release's
  broker. A warning says so.
- Values are read as RocketMQ reads them (MixAll.properties2Object). RocketMQ silently takes its
  default for `maxIndexNum=4_00` or for a number with a blank behind it, and false for
  `enableLmq=yes`. `reput` reports an error with setting and value. Blanks around texts are dropped.

Names, types, releases and defaults come from RocketMQ's own jars, by
`tests/rocketmq/test_setting_releases.py` (4.9.6, 5.1.2 and 5.3.4 are not in Maven Central). A
default of `...` depends on the machine.

[RocksDB](rocksdb.md) lists what each setting moves into RocksDB, and what `reput` does with such a
store.

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
