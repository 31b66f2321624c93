"""Pages of the site (`make docs`) that are made from the code and the repository's own files.

A hook of mkdocs: a page for each command from argparse, the page for Python with parameters as
tables, the page of imports, the tables of settings, and the change log and its like, which stand at
the root of the repository, with their links turned.
"""

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import reput
from reput.jobs import cli
from scripts import imports, settings_page

ROOT = Path(__file__).resolve().parent.parent
_OF_THE_ROOT = {
    "changes.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
}
_TO_THE_ROOT = re.compile(r"\]\(((?:\.\./)*)\.\./(CHANGELOG\.md|SECURITY\.md|CONTRIBUTING\.md)")
_COMMANDS_HEAD = """\
# Commands

A page for each command, from the code; `reput help COMMAND` says the same. Exit codes and `--json`
are the same for all: see [quick start](quick-start.md#what-it-says).

| command | what it does |
|---|---|
"""
_API_HEAD = """\
# From Python

For programs: which functions does `import reput` have, and what do they take?

`import reput` costs nothing and needs no Spark: each name is loaded when it is first asked for.
Work on a whole store runs on the processes of this machine: `reput.rebuild(store, output)`; or on
Spark, where your SparkSession comes first: `reput.rebuild(spark, store, output)`. Questions about a
store need neither.

An opened store answers one thread at a time: open one a thread. A forked child may go on with it. A
writer takes many threads, but only those of the process that opened it. Nothing here is `async`:
`await asyncio.to_thread(reput.rebuild, store, output)`.

"""
# Of parameters that a docstring says nothing of.
_KNOWN = {
    "engine": "a SparkSession; left out, the work runs in processes of this machine",
    "store": "a folder that holds `commitlog/`, path or URL",
    "path": "a folder that holds `commitlog/`, path or URL",
    "spark": "a SparkSession",
    "rocketmq": "a release; by default what the store's files say",
    "settings": "by RocketMQ's names, as text",
    "replace": "whether an older output may be replaced",
    "progress": "what hears how far the work has come",
    "storage": "what to read by instead of what the URL says",
    "output": "a folder or URL to write to, absent or empty",
    "output_storage": "what to write by instead of what the URL says",
    "dry_run": "report what would be done, and change nothing",
    "confirm": "asked before the first change; raises StoreError to stop",
    "check_crc": "whether body CRCs are checked",
    "cut": "how the log is cut into splits",
    "index_start_name": "the name of the first index file (default: its first message)",
}
_FUNCTION = re.compile(r"^::: (\S+)\.([a-z]\w*)$", re.M)


def on_config(config: Any) -> Any:
    """Put a page for each command under Commands, as mkdocs asks its hooks."""
    pages = ["commands.md", *({name: f"commands/{name}.md"} for name in cli._COMMANDS)]
    config["nav"] = _with_commands(config["nav"], pages)
    return config


def _with_commands(nav: list[Any], pages: list[Any]) -> list[Any]:
    return [
        {title: pages if below == "commands.md" else _with_commands(below, pages)
         if isinstance(below, list) else below for title, below in each.items()}
        if isinstance(each, dict) else each for each in nav
    ]  # fmt: skip


def on_files(files: Any, config: Any) -> Any:
    """Add the made pages, as mkdocs asks its hooks."""
    from mkdocs.structure.files import File

    made = {f"commands/{name}.md": command_page(name) for name in cli._COMMANDS}
    rows = (f"| [`{name}`](commands/{name}.md) | {says} |" for name, says in cli._COMMANDS.items())
    made["commands.md"] = _COMMANDS_HEAD + "\n".join(rows) + "\n"
    made["api.md"] = api_page()
    made["imports.md"] = imports.page(imports.arrows())
    made |= {
        name: moved((ROOT / source).read_text("utf-8")) for name, source in _OF_THE_ROOT.items()
    }
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turn links to the repository's root, and show functions by tables, as mkdocs asks."""
    if page.file.src_uri == "api.md":
        markdown = _FUNCTION.sub(_function, markdown)
    if page.file.src_uri == "settings.md":
        markdown += settings_page.tables()
    names = {source: name for name, source in _OF_THE_ROOT.items()}
    return _TO_THE_ROOT.sub(lambda link: f"]({link[1]}{names[link[2]]}", markdown)


def api_page() -> str:
    """A heading for each public name, in the words of mkdocstrings."""
    return _API_HEAD + "\n".join(f"::: {module}.{name}\n" for name, module in reput._PUBLIC.items())


def moved(text: str) -> str:
    """A page of the repository's root as one of docs/, whose links lead on."""
    text = re.sub(r"\]\(docs/", "](", text)
    for name, source in _OF_THE_ROOT.items():
        text = text.replace(f"]({source}", f"]({name}")
    return text


# --- a page for a command ------------------------------------------------------------------------


def command_page(name: str) -> str:
    """A command: what it does, its words and options as tables, the rest of its help."""
    parser = next(
        action.choices
        for action in cli._parser(False)._actions
        if isinstance(action, argparse._SubParsersAction)
    )[name]
    parser.fill()
    says = cli._COMMANDS[name]
    text = f"# reput {name}\n\n{_plain(says[0].upper() + says[1:])}.\n\n"
    shown = [each for each in parser._actions if each.help != argparse.SUPPRESS]
    words = [each for each in shown if not each.option_strings]
    named = [each for each in shown if each.option_strings and each.dest != "help"]
    form = " ".join(["reput", name, *map(_word, words), "[options]"])
    text += f"```text\n{form}\n```\n\n" + "".join(_help(parser.epilog or ""))
    for title, actions in (("word", words), ("option", named)):
        if actions:
            rows = (f"| {_names(each)} | {_meaning(parser, each)} |" for each in actions)
            text += f"| {title} | meaning |\n|---|---|\n" + "\n".join(rows) + "\n\n"
    return text


def _word(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    return f"[{name}]" if action.nargs in ("?", "*") else name


def _names(action: argparse.Action) -> str:
    if not action.option_strings:
        return f"`{_word(action)}`"
    value = ""
    if action.nargs != 0:
        value = f" {action.metavar or '|'.join(map(str, action.choices or [action.dest.upper()]))}"
    needed = " (needed)" if action.required else ""
    return "<br>".join(f"<code>{escape(each + value).replace('|', '&#124;')}</code>"
                       for each in action.option_strings) + needed  # fmt: skip


def _meaning(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    text = parser._get_formatter()._expand_help(action) if action.help else ""
    return _plain(" ".join(text.split())).replace("|", "&#124;")


def _help(text: str) -> Iterator[str]:
    """What stands below the options: sentences, and what is indented as it is."""
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        head = [line for line in lines if line[:1].strip()]
        rest = lines[len(head) :] if lines[: len(head)] == head else []
        if head and (rest or len(head) == len(lines)):
            yield _plain(" ".join(head)) + "\n\n"
        else:
            rest = lines
        if rest:
            yield "```text\n" + inspect.cleandoc("\n" + "\n".join(rest)) + "\n```\n\n"


def _plain(text: str) -> str:
    """A sentence of the code as Markdown that means nothing else; `code` stays."""
    parts = text.split("`")
    for n in range(0, len(parts), 2):
        parts[n] = re.sub(r"([*_\[\]])", r"\\\1", escape(parts[n], quote=False))
    return "`".join(parts)


# --- a function, with its parameters as a table --------------------------------------------------


def _function(found: re.Match[str]) -> str:
    name = found[2]
    function = getattr(importlib.import_module(found[1]), name)
    parameters = list(inspect.signature(function).parameters.values())
    prose, meanings = _documented(inspect.getdoc(function) or "", [p.name for p in parameters])
    means = {**_KNOWN, **meanings}
    rows = [
        f"| `{each.name}` | {_type(each)} | {_default(each)} | {_plain(means.get(each.name, ''))} |"
        for each in parameters
    ]
    given = [f"{each.name}={each.default!r}" if each.default is not each.empty else each.name
             for each in parameters if each.default is each.empty or not meanings]  # fmt: skip
    more = ", ..." if len(given) < len(parameters) else ""
    return (
        f"### {name}\n\n```python\nreput.{name}({', '.join(given)}{more})\n```\n\n"
        + "\n\n".join(map(_plain, prose[:1]))
        + "\n\n| parameter | type | default | meaning |\n|---|---|---|---|\n"
        + "\n".join(row.replace("\n", " ") for row in rows)
        + "\n\n"
        + "\n\n".join(map(_plain, prose[1:]))
        + "\n"
    )


def _type(parameter: inspect.Parameter) -> str:
    if parameter.annotation is parameter.empty:
        return ""
    text = parameter.annotation
    text = text if isinstance(text, str) else inspect.formatannotation(text)
    text = re.sub(r"(?:\w+\.)+(\w+)", r"\1", text).replace("'", "").replace("|", "&#124;")
    return f"<code>{text}</code>"


def _default(parameter: inspect.Parameter) -> str:
    return "" if parameter.default is parameter.empty else f"`{parameter.default!r}`"


def _documented(doc: str, names: list[str]) -> tuple[list[str], dict[str, str]]:
    """A docstring's sentences, and what it says of each parameter: `name, other: meaning`."""
    name = "|".join(sorted(names, key=len, reverse=True))
    begins = re.compile(rf"(?:^|(?<=[;.,] ))((?:{name})(?:, (?:{name}))*): ")
    prose, meanings = [], {}
    for part in doc.split("\n\n"):
        text = " ".join(part.split())
        ends = re.search(r"(?<=[.] )(?:Raises|The others) ", text)
        tail = text[ends.start() :] if ends else ""
        text = text[: ends.start()] if ends else text
        found = list(begins.finditer(text))
        prose.append(text[: found[0].start()] if found else text)
        for each, after in zip(found, [*found[1:], None], strict=False):
            meaning = text[each.end() : after.start() if after else None].rstrip(" ;,.")
            meanings |= dict.fromkeys(each[1].split(", "), meaning)
        prose.append(tail)
    return [each.strip() for each in prose if each.strip()], meanings
