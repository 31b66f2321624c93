"""A command's options, declared once: a frozen class whose fields are the words of the command
line, the keywords of the public function, and their help.

    @dataclass(frozen=True)
    class Rebuild(OfLog):
        output: str = field(metadata=shown("absent or empty folder", metavar="DIR"))
        _: KW_ONLY
        replace: bool = option("replace the set in DIR", False)

    @on_engine(Rebuild)                     # jobs/engines/choice.py: typed keywords for users
    def rebuild(engine: Engine, asked: Rebuild) -> Summary: ...

Fields that are neither are keywords alone: what a command line cannot say.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeVar

from reput.jobs.engines.engine import Engine
from reput.store_format.notes import Progress

if TYPE_CHECKING:
    from reput.jobs.pipeline.job import FoundStore
    from reput.jobs.pipeline.pipeline import Cut
    from reput.store_format.discover.purpose import Purpose
    from reput.store_format.discover.store import StoreAt
    from reput.store_format.files.protocol import Storage

T = TypeVar("T")

# ---
# The declaration: from fields to words of the command line, and back.


def shown(says: str, name: str = "", **words: Any) -> dict[str, Any]:
    """A field's `metadata`, if it is an option. says: its help; words: as for add_argument.

    name: if it is not the field's; without dashes it is a positional argument.
    """
    return {"name": name, "help": says, **words}


def option(says: str, default: Any = None, name: str = "", **words: Any) -> Any:
    """A field with a default that is an option, as for `shown`.

    A bool is a flag that turns the default round; `()` gathers what is given several times.
    """
    return field(default=default, metadata=shown(says, name, **words))


def add_options(parser: "argparse._ActionsContainer", options: type, *names: str) -> None:
    """Add a class's options in its order. names: only these, where argparse must group them."""
    for each in fields(options):
        if not each.metadata or (names and each.name not in names):
            continue
        words = dict(each.metadata)
        name = words.pop("name") or f"--{each.name.replace('_', '-')}"
        default = words.pop("default", each.default)  # argparse's own, where a user's is another
        if isinstance(default, bool):
            words["action"] = "store_false" if default else "store_true"
        elif default == ():
            words |= {"default": []} if "nargs" in words else {"default": [], "action": "append"}
        elif default is not MISSING:
            words["default"] = default
        elif name.startswith("-"):
            words["required"] = True
        if name.startswith("-"):
            words.setdefault("dest", each.name)
        parser.add_argument(name, **words)


def given(arguments: argparse.Namespace, options: type[T], **more: Any) -> T:
    """The options with what was given, else their defaults. more: fields that win."""
    found = {
        each.name: getattr(arguments, each.metadata.get("dest", each.name), None)
        for each in fields(options)  # type: ignore[arg-type]
    }
    return options(**{name: value for name, value in found.items() if value is not None} | more)


# ---
# What the options of several commands have in common.


def timed(says: str, name: str = "", **words: Any) -> Any:
    """An option with a time (TIME_FORMS), in milliseconds."""
    return option(says, None, name, metavar="TIME", **words)


def assumed_names(when: str = "") -> Any:
    """For segments that were swapped or renamed. when: help text on the option it needs."""
    return option(
        f"read swapped or renamed segments in the order that their records prove{when}", False
    )


def remade_lives() -> Any:
    """For topics that were deleted and made again: which records their queues have (Lives)."""
    return option(
        "queues of a topic that was deleted and made again, whose older messages the log has: "
        "those of its last life alone, or all as RocketMQ derives them from the log (default: as "
        "the store's own queues begin; without them all)",
        "", choices=("last", "all"),
    )  # fmt: skip


def staging() -> Any:
    """For files that are derived only to compare them: by default in a temporary folder."""
    return option(
        "where to derive (a cluster: a folder that all see)", name="--staging", metavar="DIR"
    )


def all_ranges(when: str = "") -> Any:
    """A file that gets every damaged range as JSON lines. when: help on the option it needs."""
    return option(
        f"write all damaged ranges and missing positions as JSON lines{when}; "
        "reports list the first 1,000 and sum up all by cause",
        metavar="FILE",
    )


@dataclass(frozen=True)
class OfStore:
    """What every job takes. settings: by RocketMQ's names, as text (`{"maxIndexNum": "400"}`).

    rocketmq: the release whose rules hold. What these two lack comes from the store.
    """

    store: str  # a folder that holds `commitlog/`, as path or URL
    _: KW_ONLY
    rocketmq: str | None = None
    settings: Mapping[str, str] | None = None
    progress: Progress | None = None

    @property
    def shows(self) -> Progress:
        return self.progress or Progress()


@dataclass(frozen=True, kw_only=True)
class InPlace(OfStore):
    """What a job takes that changes a store. confirm: asked before the first change; raises
    StoreError to stop.
    """

    dry_run: bool = False
    confirm: Callable[[str], None] = lambda _: None


@dataclass(frozen=True)
class OfRepository:
    """What a command on a whole backup repository takes."""

    repository: str = field(
        metadata=shown("a backup repository, path or URL", "repository", metavar="REPO")
    )
    _: KW_ONLY
    name: str | None = option(
        "only of this store of the repository", None, "--store", metavar="NAME"
    )


@dataclass(frozen=True, kw_only=True)
class OfService(InPlace):
    """What a service of the broker takes that runs once. tell: is called with each note."""

    tell: Callable[[str], Any] = lambda _: None


@dataclass(frozen=True, kw_only=True)
class OfLog(OfStore):
    """What a job on an engine takes. storage: reads and writes, instead of the URLs' storages."""

    cut: "Cut | None" = None
    storage: "Storage | None" = None

    def named(self) -> "StoreAt":
        from reput.store_format.discover.store import store_at

        return store_at(self.store, self.rocketmq, self.settings, self.storage)

    def found(
        self, engine: Engine, purpose: "Purpose", at: "StoreAt | None" = None, **more: Any
    ) -> "FoundStore":
        """The store, as find_store has it. Raises StoreError, SettingError, UnknownRelease."""
        from reput.jobs.pipeline.job import find_store

        return find_store(
            engine, at or self.named(), purpose, cut=self.cut, progress=self.progress,
            **{name: getattr(self, name) for name in ("assume_names", "remade")
               if hasattr(self, name)}, **more,
        )  # fmt: skip
