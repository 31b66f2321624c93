"""A store's configuration as it is found: the broker's own file of settings, topics, groups and
offsets in config/, and what RocksDB holds beside files.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from reput.store_format.derived.extent import queue_tails
from reput.store_format.faults import NotAFile
from reput.store_format.files.folder import Folder
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import FileState
from reput.store_format.java import quoted_keys
from reput.store_format.log.segments import commit_log_folders
from reput.store_format.names import (
    CONFIG,
    CURRENT,
    GROUPS,
    LMQ_OFFSETS,
    LMQ_PREFIX,
    OFFSETS,
    POP_DB,
    STORE_DB,
    TOPICS,
    holds_rows,
    is_queue_id,
    segment_start,
)
from reput.store_format.notes import Notes
from reput.store_format.release.setting_table import BY_NAME, SettingError
from reput.store_format.release.settings import (
    Settings,
    known_settings,
    merge_layers,
    parse_properties,
    settings_from,
)
from reput.store_format.rocksdb.database import RocksDBError, is_local, open_database
from reput.store_format.rocksdb.queues import RocksDBQueues, queues_folder
from reput.store_format.rocksdb.rows import HALVES, TIMERS, config_rows
from reput.store_format.state_table import CONFIG_DBS, CONFIG_ROWS

# ---
# Finds a broker's configuration file: in a store, or beside it if the file names the store.
#
# A broker keeps its settings in a file that it is started with, or in
# STORE/config/broker.properties (BrokerPathConfigHelper.getBrokerConfigPath). That file is often
# copied with the store.

_BYTES_MAX = 1 << 20
_ROOT = "storePathRootDir"
_IN_STORE = ((CONFIG, "broker.properties"), ("", "broker.conf"), (CONFIG, "broker.conf"),
             ("conf", "broker.conf"))  # fmt: skip
_BESIDE = (("", "broker.conf"), ("conf", "broker.conf"))


class FoundConf(NamedTuple):
    """The known settings in a configuration file that was found, without paths."""

    path: str
    settings: dict[str, str]
    warnings: list[str]


def found_conf(store: Folder) -> FoundConf | None:
    """The configuration file in or beside a store; None where there is none.

    A file beside the store counts only where its storePathRootDir is this store, so that no other
    broker's is taken. Its paths are ignored: they are those of the broker's machine. Raises
    SettingError, with the file's name, where it is not certain what RocketMQ reads.
    """
    for path in _candidates(store):
        raw = parse_properties(store.storage.read_bytes(path).decode("latin-1"))
        root = raw.get(_ROOT, "").strip()
        mine = not root or os.path.realpath(root) == os.path.realpath(store.path)
        if not path.startswith(f"{store}/") and (not root or not mine):
            continue
        known, unknown = known_settings(raw)
        warnings = [f"{path}: {unknown}"] if unknown else []
        warnings += _log_elsewhere(store, path, known)
        known = {name: text for name, text in known.items() if "storepath" not in name.lower()}
        for name, text in list(known.items()):
            try:
                BY_NAME[name].value(text, name)
            except SettingError as error:
                warnings.append(f"{path}: {error}: it is not obeyed")
                del known[name]
        try:
            return FoundConf(path, merge_layers(known), warnings)
        except SettingError as error:
            raise SettingError(f"{path}: {error}") from None
    return None


def _log_elsewhere(store: Folder, path: str, known: Mapping[str, str]) -> list[str]:
    """A warning where folders that the file names have segments, which are not read."""
    given = {name: text for name, text in known.items() if "commitlog" in name.lower()}
    named = {name: text for name, text in given.items() if "storepath" in name.lower()}
    own = commit_log_folders(store.path, Settings())
    folders = commit_log_folders(store.path, settings_from(named)) if named else own
    other = (Folder(store.storage, each) for each in folders if each not in own)
    there = [each.path for each in other if _has_segments(each)]
    if not there:
        return []
    words = " ".join(f"--set {name}={text.strip()}" for name, text in named.items())
    return [f"{path}: {', '.join(there)} has segments, which are not read; {words} reads them"]


def _has_segments(folder: Folder) -> bool:
    try:
        return any(segment_start(name) is not None for name, _ in folder.listed())
    except OSError:
        return False  # a path of another machine


def _candidates(store: Folder) -> Iterator[str]:
    places = [(store.path, *each) for each in _IN_STORE]
    if isinstance(store.storage, LocalStorage):
        places += [(os.path.dirname(store.path), *each) for each in _BESIDE]
    for root, below, name in places:
        folder = f"{root}/{below}" if below else root
        try:
            names = Folder(store.storage, folder).listed()
        except PermissionError:
            if root == store.path:
                raise
            continue  # who may read a store need not be able to list its parent
        for there, state in names:
            if there == name and state is not None and state.size <= _BYTES_MAX:
                yield f"{folder}/{name}"


# ---
# What RocksDB holds in a store beside its files.

# The files of a RocksDB that change with its rows; a reader writes OPTIONS and LOG.
_ROWS = re.compile(r"[0-9]+\.(sst|log)|MANIFEST-[0-9]+")
_POPPED = (
    "messages that pop consumers have not acknowledged, in RocksDB (popConsumerKVServiceEnable)"
)
_SERVICES = {  # families of STORE_DB beside the index
    TIMERS: "timers in RocksDB (timerRocksDBEnable)",
    HALVES: "half messages in RocksDB (transRocksDBEnable)",
}


def has_database(folder: Folder) -> bool:
    return any(name == CURRENT for name, _ in folder.listed())


def has_rows(folder: Folder) -> bool:
    """Whether there is a RocksDB in a folder, and it has rows."""
    files = folder.listed()
    return any(name == CURRENT for name, _ in files) and holds_rows(
        (name, state.size if state else 0) for name, state in files
    )


def config_in_rocksdb(store: Folder, file: str) -> Folder | None:
    """The RocksDB that a broker reads in place of a file of config/; None where there is none, or
    where the file is what a broker wrote last.
    """
    there = dict(store.listed(CONFIG))
    folders = [store / CONFIG / name for name in CONFIG_DBS.get(file, ()) if name in there]
    folders = [folder for folder in folders if has_database(folder)]
    if not folders:
        return None
    # with useSingleRocksDBForAllConfigs, or configManagerVersion=v2, a broker writes another
    folder = folders[0] if not folders[1:] else max(folders, key=_written)
    as_file = there.get(file) or there.get(f"{file}.bak")
    live = as_file is not None and files_are_live(store, (as_file, folder))
    return None if live else folder


def _written(folder: Folder) -> float:
    """When a RocksDB was last written to; -1 for none."""
    times = (state.mtime for name, state in folder.listed() if state and _ROWS.fullmatch(name))
    return max(times, default=-1)


def files_are_live(store: Folder, table: tuple[FileState, Folder] | None = None) -> bool | None:
    """Whether a broker wrote files last in a store that also has RocksDBs, as of one that had
    another storeType for a time; None where nothing tells.

    The queues tell that reach further in the log, as a broker dispatches all of it. Where both
    reach as far, the times do: those of a file of config/ and of its RocksDB, `table`. A broker
    leaves the other kind as it was; only one that begins with RocksDB takes over a JSON file, if
    its dataVersion is above (RocksDBConsumerOffsetManager.merge), so that versions tell less.
    """
    in_rocksdb, in_files = _reach_in_rocksdb(store), -1
    if in_rocksdb is not None:
        in_files = max((each.greatest_offset for each in queue_tails(store)), default=-1)
        if in_files >= 0 and in_files != in_rocksdb:
            return in_files > in_rocksdb
    if table is None:
        return None
    as_file, folder = table
    newest = _written(folder)
    return None if newest == as_file.mtime else newest < as_file.mtime


def _reach_in_rocksdb(store: Folder) -> int | None:
    """The greatest physical offset in the store's queues in RocksDB; None without any."""
    folder = queues_folder(store)
    if folder is None:
        return None
    try:
        with closing(RocksDBQueues(store.path, folder)) as queues:
            return max((place for place, _ in queues.maxima.values()), default=-1)
    except RocksDBError:
        return None


def not_derived(store: Folder, settings: Mapping[str, str]) -> list[str]:
    """A line for each RocksDB that is neither derived from the log nor compared with it, and for
    that of pop if it stayed behind where a store was copied.
    """
    beside = {STORE_DB: services_in(store / STORE_DB)}
    if has_rows(store / POP_DB):
        beside[POP_DB] = [_POPPED]
    lines = [
        f"{store}/{name}: {what}: neither derived nor compared"
        for name, found in beside.items()
        for what in found
    ]
    # A broker makes it as it starts (PopConsumerRocksdbStore).
    folder, asked = store / POP_DB, settings.get("popConsumerKVServiceEnable", "")
    served = asked.strip().lower() == "true" and store.listed(CONFIG)
    if served and not has_database(folder):
        lines.append(
            f"{folder}: is missing (popConsumerKVServiceEnable=true): what pop consumers "
            "have not acknowledged does not come again; copy it from the old store"
        )
    return lines


def services_in(folder: Folder) -> list[str]:
    """Which of timers and half messages are in a RocksDB; both may be, where it cannot be read or
    its tables would have to be copied first.
    """
    if not has_rows(folder):
        return []
    if is_local(folder.storage):
        try:
            with closing(open_database(folder)) as database:
                return [
                    what
                    for family, what in _SERVICES.items()
                    if any(True for _ in database.rows(family))
                ]
        except RocksDBError:
            pass
    return [f"{what}, if there are any" for what in _SERVICES.values()]


# ---
# Reads topics, subscription groups and consumer offsets from a store's config/.
#
# The files are a broker's JSON; integer keys may be unquoted (fastjson). As a broker does
# (ConfigManager.load), the .bak beside a file is read where the file is missing or cannot be read.
# Whatever cannot be read is noted, and counts as missing.

_GROUP_SEPARATOR = "@"  # ConsumerOffsetManager.TOPIC_GROUP_SEPARATOR
LIGHT = "lmqOffsetTable"  # of LmqConsumerOffsetManager: offsets of groups that are LMQs

Offsets = dict[tuple[str, str], dict[int, int]]  # (group, topic) -> queue id -> next position


def configured_topics(store: Folder, notes: Notes) -> Mapping[str, Any] | None:
    """Each topic of config/topics.json, or of its .bak; None where there is neither."""
    return config_table(store, TOPICS, notes)


def subscription_groups(store: Folder, notes: Notes) -> Mapping[str, Any] | None:
    """Each group of config/subscriptionGroup.json, or of its .bak; None where there is neither."""
    return config_table(store, GROUPS, notes)


def topic_attributes(store: Folder, notes: Notes) -> dict[str, dict[str, Any]]:
    """Each topic's attributes, by config/topics.json; empty for a topic that has none."""
    return attributes_of(configured_topics(store, notes) or {})


def attributes_of(topics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each topic's attributes in a topicConfigTable; empty where it has none."""
    return {
        name: about["attributes"]
        if isinstance(about, dict) and isinstance(about.get("attributes"), dict)
        else {}
        for name, about in topics.items()
    }


def batch_topics(store: Folder, notes: Notes) -> list[str]:
    """The topics whose queue.type is BatchCQ, by config/topics.json."""
    return batch_topics_of(configured_topics(store, notes) or {})


def batch_topics_of(topics: Mapping[str, Any]) -> list[str]:
    """The names of the batch topics (queue.type=BatchCQ) in a topicConfigTable."""
    return [
        name for name, attributes in attributes_of(topics).items()
        if attributes.get("queue.type") == "BatchCQ"
    ]  # fmt: skip


def queues_of(store: Folder, topic: str, notes: Notes) -> int:
    """A topic's writeQueueNums in config/topics.json; 0 where there is none."""
    about = (configured_topics(store, notes) or {}).get(topic)
    count = about.get("writeQueueNums") if isinstance(about, dict) else None
    return count if isinstance(count, int) else 0


def consumer_offsets(store: Folder, notes: Notes) -> Offsets:
    """How far each group has consumed each topic: those that a broker would start with, and where
    LMQs have a file of their own what consumerOffset.json alone has.

    With enableLmq a broker has all offsets in lmqConsumerOffset.json, and does not read the other
    file any more (LmqConsumerOffsetManager, #7087).
    """
    live = live_offsets(store, notes, {})
    if live.name != LMQ_OFFSETS:
        return live.offsets
    found = offsets_of_table(config_table(store, OFFSETS, notes) or {}, notes)
    counts = live.offsets
    differs = [key for key in found if key in counts and found[key] != counts[key]]
    if differs or set(found) - set(counts):
        notes.note(
            f"{CONFIG}/{LMQ_OFFSETS}: a broker with enableLmq reads this file, and consumerOffset."
            f"json no more: {len(differs):,} groups of a topic have other offsets there, "
            f"{len(set(found) - set(counts)):,} are in consumerOffset.json alone"
        )
    return found | counts


class LiveOffsets(NamedTuple):
    """What a broker would read the groups' offsets from: a file of config/, or a RocksDB there."""

    name: str
    in_rocksdb: bool
    offsets: Offsets


def live_offsets(store: Folder, notes: Notes, given: Mapping[str, str]) -> LiveOffsets:
    """The offsets that a broker would start with.

    given: settings as text; without enableLmq, lmqConsumerOffset.json counts where it is. What
    cannot be read is noted.
    """
    elsewhere = config_in_rocksdb(store, OFFSETS)
    there = any(name.startswith(LMQ_OFFSETS) for name, _ in store.listed(CONFIG))
    light = given.get("enableLmq", str(there)).strip().lower() == "true" and elsewhere is None
    file = LMQ_OFFSETS if light else OFFSETS
    tables = {"offsetTable": config_table(store, file, notes)}
    if light:
        tables[LIGHT] = config_table(store, file, notes, LIGHT)
    name = file if elsewhere is None else elsewhere.path.rpartition("/")[2]
    return LiveOffsets(name, elsewhere is not None, offsets_in(tables, notes))


def offsets_in(whole: Mapping[str, Any], notes: Notes | None = None) -> Offsets:
    """The offsets in a file's tables; those of groups that are LMQs are in a table of their own."""
    light = {name: {"0": offset} for name, offset in (whole.get(LIGHT) or {}).items()}
    return offsets_of_table({**(whole.get("offsetTable") or {}), **light}, notes or Notes())


def with_light(whole: Mapping[str, Any]) -> dict[str, Any]:
    """What lmqConsumerOffset.json holds, with the offsets of groups that are LMQs in their table,
    where they stand in `offsetTable`, as in RocksDB and before LmqConsumerOffsetManager.
    """
    table = whole.get("offsetTable") or {}
    light = {key for key in table if key.partition(_GROUP_SEPARATOR)[2].startswith(LMQ_PREFIX)}
    added = {key: table[key]["0"] for key in light if "0" in table[key]}
    rest = {key: queues for key, queues in table.items() if key not in light}
    return {**whole, "offsetTable": rest, LIGHT: {**added, **(whole.get(LIGHT) or {})}}


def offsets_as_of(offsets: Offsets, end: Callable[[str, int], int | None]) -> tuple[Offsets, str]:
    """Groups' offsets for a log that ends earlier, and a text that says what they are, if any.

    A store keeps no offsets of then: they are those of now, but no further than each queue's end.
    end: the next position of a queue, by topic and id, in that log; None where it is not known.
    """
    found: Offsets = {}
    past = 0
    for (group, topic), queues in offsets.items():
        ends = {queue: end(topic, queue) for queue in queues}
        found[group, topic] = {
            queue: offset if (most := ends[queue]) is None else min(offset, max(most, 0))
            for queue, offset in queues.items()
        }
        past += sum(found[group, topic][queue] < offset for queue, offset in queues.items())
    if not offsets:
        return found, ""
    text = "the groups' offsets are those of now, as a store keeps no others"
    if not past:
        return found, f"{text}: none was past the end as of then"
    return found, (
        f"{text}, and {past:,} of them were past the end as of then: there they begin at that end, "
        "with nothing left to read; a group without offsets reads all"
    )


def offsets_of_table(table: Mapping[str, Any], notes: Notes) -> Offsets:
    """The offsets of an offsetTable, whose keys are `topic@group`."""
    found: Offsets = {}
    for name, queues in table.items():
        topic, separator, group = name.partition(_GROUP_SEPARATOR)
        if separator and not isinstance(queues, dict):
            notes.lacks(
                f"{CONFIG}/consumerOffset.json: offsets of a topic and group are no JSON object"
            )
        elif separator:
            found[group, topic] = {
                int(queue): offset
                for queue, offset in queues.items()
                if is_queue_id(queue) and isinstance(offset, int)
            }
    return found


def config_content(store: Folder, path: str, warnings: list[str]) -> bytes | None:
    """The content of a file of JSON, by its path in a store, or of its .bak: the first that is an
    object; None where neither is.
    """
    for each in (f"{store}/{path}", f"{store}/{path}.bak"):
        try:
            raw = store.storage.read_bytes(each)
            if isinstance(json.loads(quoted_keys(raw)), dict):
                return raw
        except (FileNotFoundError, NotADirectoryError):
            continue
        except NotAFile as error:
            warnings.append(f"{error}; it is left out")
            continue
        except (ValueError, RecursionError):
            pass
        warnings.append(f"{each}: is not a JSON object; it is left out")
    return None


def config_table(
    store: Folder, file: str, notes: Notes, name: str = ""
) -> Mapping[str, Any] | None:
    """The table in a file of config/ (`state_table`), or its table `name`, or that in the .bak;
    None where neither file has it.

    Where a broker reads a RocksDB in place of the file, the RocksDB is read.
    """
    name = name or CONFIG_ROWS[file].table
    elsewhere = config_in_rocksdb(store, file)
    if elsewhere is not None:
        try:
            with closing(open_database(elsewhere)) as database:
                return config_rows(database, file)
        except RocksDBError as error:
            notes.lacks(f"{error}; a broker reads it in place of {file}")
    left_out: list[str] = []
    for path in (f"{store}/{CONFIG}/{file}", f"{store}/{CONFIG}/{file}.bak"):
        try:
            raw = store.storage.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except NotAFile as error:
            left_out.append(f"{error}; it is left out")
            continue
        try:
            table = json.loads(quoted_keys(raw))[name]
        except (ValueError, KeyError, TypeError, RecursionError):
            left_out.append(f"{path}: is not JSON with {name}; it is left out")
            continue
        if isinstance(table, dict):
            for line in left_out:
                notes.note(line)
            return table
        left_out.append(f"{path}: {name} is not a JSON object; it is left out")
    for line in left_out:
        notes.lacks(line)
    return None
