"""docs/settings.md from the one declaration, store_format/release/setting_table.py.

The page in docs/ names the settings that a command obeys, warns of or refuses; the site (`make
docs`) shows tables of all settings below it, with type, releases and default.

.venv/bin/python -m scripts.settings_page          (make settings-page)
"""

from pathlib import Path

from reput.store_format.release.setting_table import SETTINGS, KnownSetting, Status

PAGE = Path(__file__).parent.parent / "docs" / "settings.md"

_HEAD = """\
# Settings

For users who give a broker's settings to a command: what does `reput` do with each of them?

Give settings by a broker's file (`--broker-conf FILE`) or one by one (`--set NAME=VALUE`, which
goes over the file). Every setting of the releases 4.1.0 to 5.5.1 is allowed. `reput` treats each in
one of four ways:

| treated | what that means |
|---|---|
| **obeyed** | `reput` does what RocketMQ does |
| **warned** | RocketMQ would do something else; a warning says so if the value is not the default |
| **refused** | only the default is allowed; any other value is an error, exit code 2 |
| **harmless** | the setting changes neither the bytes of the files nor their durability |

*Derive* is every command that derives files from a log (`rebuild`, `verify`, `check`, `recover`,
`repair`), *append* is `reput append`. In Python, `setting_warnings(given, release, "append")` gives
the writer's warnings.

- An unknown name is an error, which shows the nearest name.
- Older spellings (`mapedFileSizeCommitLog`) are the same setting, with a warning if the release
  ignores that spelling. Both spellings with different values are an error.
- A switch that the release does not have yet keeps its default, with a warning.
- A value that RocketMQ would silently replace by its default is an error: `maxIndexNum=4_00`,
  `enableLmq=yes`, a number followed by a blank.

All settings that are not named here are harmless. The site that `make docs` builds shows each one
with type, releases, default and reason, from RocketMQ's own jars (4.9.6, 5.1.2 and 5.3.4 are not in
Maven Central). [RocksDB](rocksdb.md) lists what moves into RocksDB.

"""
_TABLE = (
    "| setting | releases | type | default | derive | append | why |\n"
    "|---|---|---|---|---|---|---|\n"
)
_SPEAKS = (Status.OBEYED, Status.WARNED, Status.REFUSED)


def page() -> str:
    """The text of docs/settings.md: what is obeyed, warned of or refused, by name."""
    groups: dict[tuple[Status, Status], list[str]] = {}
    for known in _speaking():
        groups.setdefault((known.derive, known.append), []).append(f"`{known.name}`")
    text = _HEAD + "| derive | append | settings |\n|---|---|---|\n"
    for (derive, append), names in groups.items():
        text += f"| {derive} | {append} | {', '.join(names)} |\n"
    return text


def tables() -> str:
    """Tables of all settings, which the site shows below the page."""
    speaking = _speaking()
    text = "\n## What is obeyed, warned of or refused\n\n" + _TABLE
    text += "".join(_row(known) for known in speaking)
    text += "\n## Harmless\n\nA default of `...` depends on the machine.\n"
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


def _speaking() -> list[KnownSetting]:
    return [known for known in SETTINGS if {known.derive, known.append} & set(_SPEAKS)]


def _row(known: KnownSetting) -> str:
    return (
        f"| {_names(known)} | {_releases(known)} | {_kind(known)} | {_default(known)} "
        f"| {known.derive} | {known.append} | {known.reason} |\n"
    )


def _names(known: KnownSetting) -> str:
    older = "".join(f", {each.since} to {each.until} `{each.name}`" for each in known.older)
    return f"`{known.name}`{older}"


def _releases(known: KnownSetting) -> str:
    if not known.since:
        return "none"
    return f"{known.since} to {known.until}" if known.until else f"from {known.since}"


def _kind(known: KnownSetting) -> str:
    return known.kind.replace("|", ", ")


def _default(known: KnownSetting) -> str:
    if known.default is None:
        return "..."
    return f"`{known.default}`" if known.default else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
