"""What a store shows by itself, so that the user is not asked: sizes, release, kinds of queues; and
the same as texts for people.

All commands use this module. What the user gives goes before what is found, but must not contradict
it: a size that no file of the store has is an error. Files go before a found configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from reput.store_format.derived.index_names import INDEX_NAMES
from reput.store_format.derived.index_reader import file_bytes
from reput.store_format.discover import sizes
from reput.store_format.discover.config import FoundConf, found_conf
from reput.store_format.discover.config_faults import FORCED, unsealed
from reput.store_format.discover.delay_levels import SCHEDULE, SETTING, OlderDelays, shown_delays
from reput.store_format.discover.purpose import Purpose, Unknown
from reput.store_format.discover.release import Clues, clues_of, looked_at, open_all, release_found
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.files.folder import Folder, Place
from reput.store_format.files.protocol import Storage
from reput.store_format.log.groups import log_folders
from reput.store_format.log.segments import Segment
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    CONFIG,
    CONSUME_QUEUE,
    INDEX,
    LMQ_OFFSETS,
    LMQ_PREFIX,
    MANIFEST,
)
from reput.store_format.release import profiles
from reput.store_format.release.setting_table import BY_NAME, SettingError
from reput.store_format.release.settings import Settings, merge_layers, settings_from

# ---
# A store as a user names it, before anything of it is read.


class StoreAt(NamedTuple):
    """Where a store is, and what the user gives for it."""

    storage: Storage
    path: str  # as `storage` resolves it
    rocketmq: str | None = None  # the release; None where the store's files are to show it
    settings: Mapping[str, str] = {}  # by any of RocketMQ's spellings

    @property
    def folder(self) -> Place:
        return Place(self.storage, self.path)


def store_at(
    path: str, rocketmq: str | None = None, settings: Mapping[str, str] | None = None,
    storage: Storage | None = None,
) -> StoreAt:  # fmt: skip
    """The store at a path or URL. storage: None for the file system that the URL names."""
    at = place_at(path, storage)
    return StoreAt(at.storage, at.path, rocketmq, settings or {})


# ---
# What a store shows, as texts for people.

RELEASE, ERAS = "rocketmq", "eras"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_PHRASES = {
    sizes.SEGMENT: "segments of {}",
    sizes.QUEUE: "queue files of {}",
    sizes.BATCH_QUEUE: "batch queue files of {}",
    sizes.SLOTS: "index files of {} slots",
    sizes.ENTRIES: "{} entries",  # said after the slots
    RELEASE: "RocketMQ {}",
    ERAS: "releases {}",
    INDEX_NAMES: "index files named in {}",
}


def discovered_lines(discovered: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For people, a line for each source: what is known by it."""
    by: dict[str, list[str]] = {}
    for name, found in discovered.items():
        by.setdefault(found["by"], []).append(_phrase(name, found["value"]))
    return [f"{', '.join(what)}: {how}" for how, what in by.items()]


def _phrase(name: str, value: Any) -> str:
    form = _PHRASES.get(name)
    if form is None:
        return f"{name}={setting_text(value)}"
    if name in (sizes.SEGMENT, sizes.QUEUE, sizes.BATCH_QUEUE):
        return form.format(size_text(value))
    return form.format(f"{value:,}" if isinstance(value, int) else value)


def size_text(size: int) -> str:
    """16 MiB, or where it is no whole number of any unit, 6,000,000 bytes."""
    for unit, name in _UNITS:
        if not size % unit:
            return f"{size // unit:,} {name}"
    return f"{size:,} bytes"


def setting_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_DEFAULTS = Settings().by_name()
_TIMES_DEFAULT = 16  # times the default: a larger size is only taken from the user
_NOBODY = "RocketMQ's default, as no file of the store shows another"
NEW_STORE = "the newest, as the store is new; --rocketmq names another"


class FoundValue(NamedTuple):
    """A value that a store shows, and by what it is known."""

    value: Any
    by: str


@dataclass(frozen=True)
class Discovered:
    """What a command works with: its release, its settings, and what of them the store shows."""

    release: str
    settings: dict[str, str]
    # by RocketMQ's names, and "rocketmq"
    found: dict[str, FoundValue] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    torn: str = ""  # why the size of segments is in doubt: the only one seems to be a part
    eras: tuple[
        profiles.Era, ...
    ] = ()  # the releases that the store's broker had, where it had several
    again: tuple[tuple[int, int], ...] = ()  # messages indexed twice, see ScanRules
    others: tuple[str, ...] = ()  # releases that may be meant instead, where it is assumed
    left: tuple[str, ...] = ()  # the releases that may have written last, where the user named none
    conf: FoundConf | None = None  # a broker's configuration that lies with the store
    contradicted: str = ""  # why the release that was given cannot be the one that wrote last
    alike: str = ""  # the releases that would write the same, where the user named none
    log_folders: tuple[str, ...] = ()  # where segments are, of either kind of log
    delays_wrong: str = ""  # why the levels of delay that are given or shown cannot all be right
    delays_shown: frozenset[int] | None = None  # levels, by queues; None: all are given
    older_delays: OlderDelays = ()  # see ShownDelays.older

    @property
    def releases(self) -> str:
        """The release, or the range of those that write the same where the files tell no more."""
        return self.alike or self.release

    def dispatched_from(self, start: int) -> "Discovered":
        """What holds once the last release has dispatched the log from `start` on again."""
        if len(self.eras) < 2 or self.eras[-1].start <= start:
            return self
        older = tuple(era for era in self.eras[:-1] if era.start < start)
        eras = (*older, self.eras[-1]._replace(start=start))
        again = tuple(each for each in self.again if each[0] < start)
        found = {**self.found, ERAS: self.found[ERAS]._replace(value=profiles.eras_text(eras))}
        return replace(self, eras=eras, again=again, found=found)

    def of_one_release(self) -> "Discovered":
        """What holds for files that are all derived anew, by the release that wrote last."""
        if len(self.eras) < 2:
            return replace(self, again=())
        text = (
            f"the store's own files are of several releases ({profiles.eras_text(self.eras)}); all "
            f"is derived as RocketMQ {self.release} would, which wrote last"
        )
        return replace(self, eras=(), again=(), warnings=[*self.warnings, text])

    def as_json(self) -> dict[str, dict[str, Any]]:
        """What --json and the manifest have under `discovered`."""
        return {name: found._asdict() for name, found in self.found.items()}

    def of_release(self) -> dict[str, dict[str, Any]]:
        """The part of `as_json` that is about the release."""
        return {name: found for name, found in self.as_json().items() if name in (RELEASE, ERAS)}


def discover(
    at: StoreAt,
    purpose: Purpose,
    *,
    derived: Folder | None = None,
    manifest: Mapping[str, Any] | None = None,
) -> Discovered:
    """What the store shows besides what is given. Nothing is written, no Spark is needed.

    derived: where its derived files are, by default the store; manifest: of a rebuilt set there.
    Raises UnknownRelease, which lists the candidates, SettingError (of which SizeDisagrees is one),
    StoreError, OSError.
    """

    def discovered(at: StoreAt) -> Discovered:
        discovery = _Discovery(at, purpose, derived or at.folder)
        discovery.of_the_manifest(manifest or {})
        return discovery.result()

    try:
        found = discovered(at)
    except profiles.UnknownRelease:
        if purpose.unknown is not Unknown.NEWEST or at.rocketmq:
            raise
        found = discovered(at._replace(rocketmq=profiles.RELEASES[-1]))
    if purpose.agrees and found.contradicted:  # what is added would not fit
        raise SettingError(f"{found.contradicted}; leave --rocketmq out")
    if purpose.due_times and found.delays_wrong:  # other times of delivery than the queues have
        raise SettingError(found.delays_wrong)
    if purpose.sizes and found.torn:
        raise StoreError(found.torn)
    return found.of_one_release() if purpose.one_release else found


class _Discovery:
    def __init__(self, at: StoreAt, purpose: Purpose, derived: Folder) -> None:
        self.purpose = purpose
        self.store = store = at.folder
        self.release = profiles.release_named(at.rocketmq) if at.rocketmq else None
        self.derived = derived
        self.conf: FoundConf | None = found_conf(store)
        self.user = merge_layers(dict(at.settings))
        parsed = settings_from(self.user).by_name()
        named = {BY_NAME[name].name for name in self.user}
        self.given: dict[str, Any] = {name: parsed.get(name) for name in named}
        self.conf_layers = [self.conf.settings] if self.conf else []
        self.conf_path = self.conf.path if self.conf else ""
        self.conf_names = {BY_NAME[name].name for layer in self.conf_layers for name in layer}
        self.of_conf = settings_from(*self.conf_layers).by_name()
        self.folders = log_folders(store, settings_from(*self.conf_layers, self.user))
        self.files = sizes.FileSizes(store.storage, self.folders, derived)
        self.found: dict[str, FoundValue] = {}
        self.warnings = list(self.conf.warnings) if self.conf else []
        self.torn = self.contradicted = self.alike = self.delays_wrong = ""
        self.eras: tuple[profiles.Era, ...] = ()
        self.others, self.left = tuple[str, ...](), tuple[str, ...]()
        self.again: tuple[tuple[int, int], ...] = ()
        self.by_manifest = False
        self.delays_shown: frozenset[int] | None = None
        self.older_delays: OlderDelays = ()
        self.log: list[Segment] = []

    def result(self) -> Discovered:
        self._of_the_conf()
        self._segments()
        for name, kind in ((sizes.QUEUE, CONSUME_QUEUE), (sizes.BATCH_QUEUE, BATCH_CONSUME_QUEUE)):
            self._queues(name, kind)
        self._index()
        self._multi_dispatch()
        shown = [each for each in self.found.items() if each[0] not in (RELEASE, ERAS)]
        texts = {name: setting_text(found.value) for name, found in shown}
        whole = merge_layers(*self.conf_layers, texts, self.user)
        whole |= self._delays(settings_from(whole))
        release = self._release(whole)
        forced = settings_from(whole, release=release).force_verify_prop_crc
        if forced and unsealed(self.store.storage, self.log):
            self._add(FORCED, False, "by the log's first records")
            whole |= {FORCED: "false"}
        return Discovered(
            release, whole, self.found, self.warnings, self.torn, self.eras, self.again,
            self.others, self.left, self.conf, self.contradicted, self.alike, tuple(self.folders),
            self.delays_wrong, self.delays_shown, self.older_delays,
        )  # fmt: skip

    def of_the_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Take release and settings from a rebuilt set's manifest, which may be tampered with."""
        release, settings = manifest.get(RELEASE), manifest.get("settings")
        by = f"by {self.derived}/{MANIFEST}"
        if self.release is None and isinstance(release, str):
            self.release, self.by_manifest = profiles.release_named(release), True
            self._add(RELEASE, self.release, by)
        for name, value in settings.items() if isinstance(settings, dict) else ():
            counts = (
                name in _DEFAULTS and "storepath" not in name.lower() and name not in sizes.SIZES
            )
            if counts and name not in self.given and value != _DEFAULTS[name]:
                BY_NAME[name].value(setting_text(value))
                self._add(name, value, by)

    def _add(self, name: str, value: Any, by: str) -> None:
        self.found[name] = FoundValue(value, by)

    def _of_the_conf(self) -> None:
        for name, text in self.conf.settings.items() if self.conf else ():
            known = BY_NAME[name]
            counts = known.name in self.of_conf and known.name not in (*sizes.SIZES, *self.given)
            if counts and known.differs(text, name):
                self._add(known.name, self.of_conf[known.name], f"by {self.conf_path}")

    # --- sizes -------------------------------------------------------------------------------

    def _segments(self) -> None:
        shown = self.files.segment()
        if shown is None:
            self._nobody(sizes.SEGMENT)
            if sizes.SEGMENT in self.found and self.found[sizes.SEGMENT].by == _NOBODY:
                self._unshown()
            return
        wanted = self.given.get(sizes.SEGMENT)
        short = shown.files < 2 and wanted is not None and shown.value < wanted
        if wanted is not None and wanted not in shown.lengths and not short:
            self._disagrees(sizes.SEGMENT, wanted, shown.value, "segments", shown.files)
        self._size(sizes.SEGMENT, shown.value)

    def _unshown(self) -> None:
        """Doubt the default where there are segments of another length, which show none."""
        segments = self.files.segments
        wrong = next(
            (each for each in segments if each.state.size != _DEFAULTS[sizes.SEGMENT]), None
        )
        if wrong is None or self.store.storage.back_to_back:
            return
        able = ", ".join(f"{size} ({size_text(size)})" for size in sizes.fitting_sizes(segments))
        self.torn = (
            f"{wrong.path}: has {wrong.state.size} bytes, and no file shows how long the broker "
            f"makes its segments; its broker.conf does: --broker-conf FILE, or --set "
            f"{sizes.SEGMENT}=..." + (f", of which these would fit: {able}" if able else "")
        )
        self.warnings.append(self.torn)

    def _queues(self, name: str, kind: str) -> None:
        batch = name == sizes.BATCH_QUEUE
        shown = self.files.queue(batch)
        if shown is None:
            if not batch:
                self._nobody(name)
            return
        wanted = self.given.get(name)
        if wanted is not None:
            wanted = sizes.rounded(name, wanted)
            if wanted not in shown.lengths and (shown.files > 1 or shown.value > wanted):
                self._disagrees(name, wanted, shown.value, f"files in {kind}/", shown.files)
        self._size(name, shown.value)

    def _index(self) -> None:
        given = {
            name: self.given[name] for name in (sizes.SLOTS, sizes.ENTRIES) if name in self.given
        }
        usual = {name: self.of_conf[name] for name in (sizes.SLOTS, sizes.ENTRIES)}
        shown = self.files.index(usual, given)
        if shown is None:
            self._nobody(sizes.SLOTS, sizes.ENTRIES)
            return
        self._doubt(shown.end)
        if shown.pair is None:
            self._index_without_entries(shown.length, usual | given)
            return
        pair = sizes.agreed_pair(f"{self.derived}/{INDEX}", shown, shown.pair, given)
        for name, value in pair.items():
            self._size(name, value, "by their length and first entry")

    def _doubt(self, index_end: int) -> None:
        """Warn if the log's only segment is a part: the index has messages after its end."""
        segments = self.files.segments
        if self.torn or sizes.SEGMENT not in self.found or len(segments) != 1:
            return
        if index_end >= (only := segments[0]).end:
            self.torn = (
                f"{only.path}: ends at {only.end}, but the index has messages up to {index_end}: "
                "it is a part of a larger segment "
                f"(--set {sizes.SEGMENT}=... says how large it was), or "
                f"later segments are missing (--set {sizes.SEGMENT}={only.end - only.start})"
            )
            self.warnings.append(self.torn)

    def _index_without_entries(self, length: int, pair: dict[str, int]) -> None:
        """Take the given or default sizes for index files without any entry, if they fit."""
        if sizes.SLOTS in self.given and sizes.ENTRIES in self.given:
            return
        if file_bytes(pair[sizes.SLOTS], pair[sizes.ENTRIES]) == length:
            for name in (sizes.SLOTS, sizes.ENTRIES):
                self._size(name, pair[name], "by their length")
            return
        self.warnings.append(
            f"{self.derived}/{INDEX}: files of {length} bytes and no entry that would show "
            f"{sizes.SLOTS} and {sizes.ENTRIES}: RocketMQ's defaults are taken; --set gives others"
        )

    def _size(self, name: str, value: int, by: str = "by their size") -> None:
        if name in self.given:
            return
        if name != sizes.SEGMENT and value > _TIMES_DEFAULT * _DEFAULTS[name]:
            raise SettingError(
                f"{self.store}: its files say {name}={value}, more than {_TIMES_DEFAULT} times "
                f"RocketMQ's default {_DEFAULTS[name]}; if that is so, give --set {name}={value}"
            )
        if name in self.conf_names and sizes.rounded(name, self.of_conf[name]) != value:
            self.warnings.append(
                f"{self.conf_path}: {name}={self.of_conf[name]}, but the store's files say "
                f"{value}, which is obeyed"
            )
        self._add(name, value, by)

    def _nobody(self, *names: str) -> None:
        for name in (each for each in names if each not in self.given):
            by = f"by {self.conf_path}" if name in self.conf_names else _NOBODY
            self._add(name, self.of_conf[name], by)

    def _disagrees(self, name: str, wanted: int, value: int, what: str, files: int) -> None:
        raise sizes.SizeDisagrees(
            f"{self.store}: {files:,} {what} have {value} bytes, and {name} is {wanted}; "
            f"give --set {name}={value}, or leave it out"
        )

    # --- queues ------------------------------------------------------------------------------

    def _multi_dispatch(self) -> None:
        """Queues of %LMQ% topics are only made by multi-dispatch."""
        names = ("enableMultiDispatch", "enableLmq")
        if all(name in self.given or name in self.found for name in names):
            return
        by = ""
        topics = self.derived.listed(CONSUME_QUEUE)
        if any(name.startswith(LMQ_PREFIX) for name, state in topics if state is None):
            by = f"by queues of {LMQ_PREFIX} topics"
        elif any(n == LMQ_OFFSETS for n, _ in self.store.listed(CONFIG)):
            by = f"by {CONFIG}/{LMQ_OFFSETS}"
        for name in names if by else ():
            if name not in self.given and name not in self.found:
                self._add(name, True, by)

    def _delays(self, settings: Settings) -> dict[str, str]:
        """The levels of delay that queues show; the store's own before those of a set."""
        of_conf = self.conf_path if SETTING in self.conf_names else ""
        by = "the settings" if SETTING in self.given else of_conf
        stores = self.store, self.derived
        shown = shown_delays(self.store.storage, self.files.segments, stores)
        given = by or SETTING in self.found
        self.delays_shown = None if given else frozenset(shown.last)
        self.delays_wrong = shown.contradiction(settings.delays, by)
        if self.delays_wrong or not shown.last:
            return {}
        text = settings.message_delay_level if by else shown.text(settings.delays)
        self.older_delays = shown.older(replace(settings, message_delay_level=text).delays)
        if by:
            return {}
        if text != settings.message_delay_level:
            self._add(SETTING, text, f"by queues of {SCHEDULE}")
        return {SETTING: text}

    # --- the release -------------------------------------------------------------------------

    def _release(self, settings: Mapping[str, str]) -> str:
        if self.release is not None and (self.by_manifest or not self.files.segments):
            return self.release
        if not self.files.segments:  # whoever reads the log reports what is missing
            if self.purpose.adds:
                self._add(RELEASE, profiles.RELEASES[-1], NEW_STORE)
            return profiles.RELEASES[-1]
        parsed = settings_from(settings)
        self.log = self.files.log(parsed.mapped_file_size_commit_log)
        clues = clues_of(self.store, self.log, parsed, self.derived, self.purpose.index)
        release, self.again = self.release or self._which(clues, parsed), clues.again
        left = profiles.left_by(clues.hard)
        if left and release not in left:
            shown = next(
                clue.seen for clue in clues.hard if release not in profiles.left_by([clue])
            )
            self.contradicted = (
                f"--rocketmq {release}: the store's files are of {profiles.span(left)}: {shown}"
            )
            self.warnings.append(self.contradicted)
        elif len(clues.periods) > 1:
            self.eras = profiles.eras_of(clues.periods, release, left)
            if len(self.eras) > 1:
                self._add(ERAS, profiles.eras_text(self.eras), "by what the index shows")
        return release

    def _which(self, clues: Clues, settings: Settings) -> str:
        hints = list(clues.hints)
        if self.purpose.adds and clues.text_ends is not None:
            hints.append(
                profiles.Clue("", "5.2.0") if clues.text_ends else profiles.Clue("", "", "5.1.4")
            )
        has = profiles.Has(settings.enable_multi_dispatch, not clues.has_keys, self.purpose.adds)

        def look(has: profiles.Has) -> profiles.Has:
            return looked_at(self.store.storage, self.log, self.left, has, settings)

        self.left = tuple(profiles.left_by(clues.hard))
        try:
            compared = self.purpose.unknown is Unknown.NEWEST_LEFT
            found = release_found(clues.hard, hints, has, look, compared)
        except profiles.UnknownRelease:
            open_all(self.store.storage, self.log)  # an unreadable segment is reported as that
            raise
        self.others, self.alike = found.others, found.alike
        self._add(RELEASE, found.release, found.by)
        return found.release
