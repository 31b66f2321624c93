"""What a new store takes over beside records: configuration, the queues of several stores, and the
user's changes, checked.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from reput.jobs.converting.new_log import QueueKey
from reput.jobs.converting.ordered import Marks, Source
from reput.jobs.opening.plan import Plan
from reput.jobs.outputs.report import counted
from reput.store_format.discover.config import (
    LIGHT,
    batch_topics_of,
    config_content,
    config_in_rocksdb,
    config_table,
    consumer_offsets,
    queues_of,
    with_light,
)
from reput.store_format.dispatch.queue_table import SCHEDULE_NAME
from reput.store_format.faults import StoreError
from reput.store_format.java import quoted_keys
from reput.store_format.message.message import TIMER_TOPIC, check_sendable, check_topic, encode_host
from reput.store_format.message.refusals import Refused
from reput.store_format.names import (
    CONFIG,
    DELAY_OFFSETS,
    LMQ_OFFSETS,
    LMQ_PREFIX,
    OFFSETS,
    ORDER_INFO,
    TOPICS,
    is_queue_id,
)
from reput.store_format.notes import Notes
from reput.store_format.query.pop_leftovers import Pop
from reput.store_format.release.profiles import Profile
from reput.store_format.release.setting_table import SettingError
from reput.store_format.rewrite.changes import (
    WAIT,
    Changes,
    Fate,
    is_shared,
    moved_order,
    order_offsets,
)
from reput.store_format.state_table import CONFIG_DBS, CONFIG_ROWS, Keys, config_to_carry

# ---
# The configuration of a new store: topics, groups and consumer offsets.
#
# Files in which names or offsets change are written anew; other files are copied unchanged.

# File -> its table whose keys are `topic` or `topic@group`.
_BY_TOPIC = {name: row.table for name, row in CONFIG_ROWS.items() if row.keys == Keys.TOPIC}
_GROUP = "@"  # ConsumerOffsetManager.TOPIC_GROUP_SEPARATOR
_TOPIC_FIELDS = ("topic", "topicName")
_OF_GROUPS = (OFFSETS, LMQ_OFFSETS)
_QUEUE_COUNTS = ("readQueueNums", "writeQueueNums")
SCHEDULE = SCHEDULE_NAME.tobytes().decode()

Config = dict[str, bytes]  # file name below config/ -> content


def positions_of(source: Source, pops: Iterable[Pop]) -> Marks:
    """The positions in queues that may be numbered anew that something beside the log names:
    consumer offsets, delay offsets, what is popped, and the ends of what waits. pops: of all
    stores, which may share records.
    """
    plan, changes = source.job.plan, source.changes
    if not changes.selects:
        return {}
    found: dict[tuple[str, int], set[int]] = {}
    own = consumer_offsets(plan.folder, Notes())
    topics = [(topic, queues) for (_, topic), queues in own.items()]
    for topic, queues in (*topics, *((key[0], more) for key, more in source.groups.items())):
        if changes.merges or is_shared(topic):
            for queue_id, offset in queues.items():
                found.setdefault((topic, queue_id), set()).add(offset)
    popped = [(pop.topic, pop.queue_id, pop.offsets) for pop in pops]
    orders = [(topic, queue_id, order_offsets(info)) for topic, queue_id, info in _orders(plan)]
    for topic, queue_id, offsets in (*popped, *orders):
        if changes.merges or is_shared(topic):
            several = {at for offset in offsets for at in (offset, offset + 1)}
            found.setdefault((topic, queue_id), set()).update(several)
    timers = source.measured.queues.get(QueueKey(TIMER_TOPIC, 0))
    if timers is not None:
        found.setdefault((TIMER_TOPIC, 0), set()).add(timers.greatest + 1)
    for queue_id, offset in delivered_up_to(plan).items():
        found.setdefault((SCHEDULE, queue_id), set()).add(offset)
    return {key: tuple(sorted(offsets)) for key, offsets in found.items()}


def _orders(plan: Plan) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """(topic, queue id, OrderInfo) of what is popped in order."""
    table = config_table(plan.folder, ORDER_INFO, Notes()) or {}
    for name, queues in table.items():
        for queue, info in _infos(queues):
            yield name.partition(_GROUP)[0], int(queue), info


def _infos(queues: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Queue id and OrderInfo of each queue that an entry of consumerOrderInfo.json tells of."""
    for queue, info in queues.items() if isinstance(queues, Mapping) else ():
        if is_queue_id(queue) and isinstance(info, Mapping) and info.get("o"):
            yield queue, info


def delivered_up_to(plan: Plan) -> dict[int, int]:
    """Queue id of the schedule topic -> the position up to which its messages are delivered."""
    delays = config_table(plan.folder, DELAY_OFFSETS, Notes()) or {}
    return {
        int(level) - 1: offset for level, offset in delays.items()
        if is_queue_id(level) and isinstance(offset, int)
    }  # fmt: skip


def carried_config(source: Source, warnings: list[str]) -> Config:
    """The files of config/ for the new store. warnings: gets a line for each file left out, or
    without some of its entries.
    """
    files = {}
    for name in config_to_carry():
        content = _content(source.job.plan, name, warnings)
        if content is None and name == OFFSETS and source.groups:
            content = b"{}"
        if content is not None and source.changes.by_topic:
            content = _changed(name, json.loads(quoted_keys(content)), source, warnings)
        if content is not None:
            files[name] = content
    return files


def _content(plan: Plan, name: str, warnings: list[str]) -> bytes | None:
    """The content of the old store's file of config/, or of its RocksDB; None without either."""
    # With enableLmq a broker reads another file of offsets, where it has no RocksDB of them.
    source = OFFSETS if name == LMQ_OFFSETS else name
    if source in CONFIG_DBS and config_in_rocksdb(plan.folder, source) is not None:
        notes = Notes()
        table = config_table(plan.folder, source, notes)
        warnings += notes.lines
        whole = {CONFIG_ROWS[name].table: table}
        if name == LMQ_OFFSETS and table is not None:
            whole = with_light(whole)
            table = whole if whole[LIGHT] or plan.settings.enable_lmq else None
        return None if table is None else json.dumps(whole).encode()
    return config_content(plan.folder, f"{CONFIG}/{name}", warnings)


def _changed(name: str, whole: dict[str, Any], source: Source, warnings: list[str]) -> bytes:
    """The content of a file with the topics' new names, and without dropped topics."""
    if name in _OF_GROUPS:
        _add_groups(whole.setdefault(_BY_TOPIC[name], {}), source)
    table = whole.get(_BY_TOPIC.get(name, ""))
    if name == LMQ_OFFSETS and isinstance(whole.get(LIGHT), dict):
        whole[LIGHT] = {
            key: moved["0"] for key, offset in whole[LIGHT].items()
            if (moved := _new_offsets(key.partition(_GROUP)[0], {"0": offset}, source))
        }  # fmt: skip
    if isinstance(table, dict):
        table = _without_stale(name, table, source, warnings)
        whole[_BY_TOPIC[name]] = {
            new: value for key, about in table.items()
            for new, value in _entry(name, key, about, source)
        }  # fmt: skip
    if name == DELAY_OFFSETS and isinstance(whole.get("offsetTable"), dict):
        levels = {str(int(level) - 1): offset for level, offset in whole["offsetTable"].items()
                  if is_queue_id(level)}  # fmt: skip
        moved = _new_offsets(SCHEDULE, levels, source)
        whole["offsetTable"] = {str(int(queue) + 1): offset for queue, offset in moved.items()}
    return json.dumps(whole).encode()


def _without_stale(
    name: str, table: dict[str, Any], source: Source, warnings: list[str]
) -> dict[str, Any]:
    """The table without entries of a topic that the store has no more, and whose name another topic
    gets: they would take the place of that topic's own, with offsets that skip its messages.
    """
    changes = source.changes
    renames = {new: old for old, new in changes.renames}
    gone = renames.keys() - {old for old, _ in changes.renames} - set(changes.dropped)
    stale: dict[str, list[str]] = {}
    for key in table:
        topic = changes.own(key.partition(_GROUP)[0])
        if topic in gone:
            stale.setdefault(topic, []).append(key)
    for topic, keys in stale.items():
        warnings.append(
            f"{source.job.plan.store}/{CONFIG}/{name}: {counted(len(keys), 'entry')} of topic "
            f"{topic[:127]!r}, which the store has no more, left out: {renames[topic][:127]!r} "
            "gets this name, and keeps its own"
        )
    left_out = {key for keys in stale.values() for key in keys}
    return {key: about for key, about in table.items() if key not in left_out}


def _add_groups(table: Any, source: Source) -> None:
    """Add positions of groups to an offsetTable that has no offset for the group and queue."""
    for (topic, group), queues in source.groups.items():
        own = table.setdefault(f"{topic}{_GROUP}{group}", {})
        for queue, offset in queues.items():
            own.setdefault(str(queue), offset)


def _entry(name: str, key: str, about: Any, source: Source) -> list[tuple[str, Any]]:
    topic, group_mark, group = key.partition(_GROUP)
    decision = source.changes.of_queue(topic)
    if decision.fate == Fate.LEFT_OUT:
        return []
    if name in _OF_GROUPS and isinstance(about, dict):
        about = _new_offsets(topic, about, source)
    if name == ORDER_INFO:
        about = _new_orders(topic, about, source)
        if not about:
            return []
    if name == TOPICS and isinstance(about, dict) and decision.queue_shift:
        counts = {field: about[field] + decision.queue_shift for field in _QUEUE_COUNTS
                  if isinstance(about.get(field), int)}  # fmt: skip
        about = {**about, **counts}
    new_key = f"{source.changes.renamed(topic)}{group_mark}{group}"
    return [(new_key, _with_names(about, source.changes))]


def _new_offsets(topic: str, offsets: Mapping[str, Any], source: Source) -> dict[str, int]:
    """New queue id -> new offset, without queues of which no record is taken."""
    found = {}
    for queue, offset in offsets.items():
        if is_queue_id(queue) and isinstance(offset, int):
            new = source.offset(topic, int(queue), offset)
            if new is not None:
                shift = source.changes.of_queue(topic).queue_shift
                found[str(int(queue) + shift)] = new
    return found


def _new_orders(topic: str, queues: Any, source: Source) -> dict[str, Any]:
    """New queue id -> OrderInfo with new queueOffsets, without queues of which none is taken."""
    shift = source.changes.of_queue(topic).queue_shift
    moved = {
        str(int(queue) + shift): moved_order(info, partial(source.message, topic, int(queue)))
        for queue, info in _infos(queues)
    }
    return {queue: info for queue, info in moved.items() if info is not None}


def _with_names(about: Any, changes: Changes) -> Any:
    """The value of a topic in a file, with the topic's new name in its fields."""
    if isinstance(about, Mapping):
        return {
            name: changes.renamed(value)
            if name in _TOPIC_FIELDS and isinstance(value, str) else _with_names(value, changes)
            for name, value in about.items()
        }  # fmt: skip
    return [_with_names(each, changes) for each in about] if isinstance(about, list) else about


def batch_topics_in(config: Config) -> list[str]:
    whole = json.loads(quoted_keys(config.get(TOPICS, b"{}")))
    table = whole.get(_BY_TOPIC[TOPICS])
    return batch_topics_of(table) if isinstance(table, dict) else []


def merged_config(configs: Sequence[Config], warnings: list[str]) -> Config:
    """Merge the configurations of several stores. If stores share an entry, that of the first store
    counts, but with the greatest queue numbers of a topic, and the lowest offsets.
    """
    if any(LMQ_OFFSETS in config for config in configs):
        # a broker that has this file has all offsets there (LmqConsumerOffsetManager)
        configs = [{LMQ_OFFSETS: config.get(OFFSETS, b"{}"), **config} for config in configs]
    merged: Config = {}
    for name in dict.fromkeys(name for config in configs for name in config):
        # as a broker does, take a missing file, or a file without its table, for an empty table
        wholes = [json.loads(quoted_keys(config.get(name, b"{}"))) for config in configs]
        if name == LMQ_OFFSETS:
            wholes = [with_light(whole) for whole in wholes]
        whole: dict[str, Any] = next((each for each in wholes if each), {})
        table = CONFIG_ROWS[name].table if name in CONFIG_ROWS else ""
        for other in wholes:
            ours, theirs = whole.get(table, {}), other.get(table, {})
            if table and isinstance(ours, dict) and isinstance(theirs, dict):
                whole[table] = _joined_tables(name, ours, theirs)
                if name == LMQ_OFFSETS:
                    whole[LIGHT] = _lowest(whole[LIGHT], other[LIGHT])
            elif other and other != whole:
                warnings.append(f"{CONFIG}/{name}: is that of the first store; the stores differ")
        merged[name] = json.dumps(whole).encode()
    return merged


def _joined_tables(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    if name == DELAY_OFFSETS:  # a level without an offset is at 0 (ScheduleMessageService.start)
        levels = {**ours, **theirs}
        return {level: min(ours.get(level, 0), theirs.get(level, 0)) for level in levels}
    shared = {key: _joined(name, about, theirs[key]) for key, about in ours.items()
              if key in theirs}  # fmt: skip
    return {**ours, **theirs, **shared}


def _joined(name: str, one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        if name == TOPICS:
            counts = {field: max(one.get(field, 0), other.get(field, 0)) for field in _QUEUE_COUNTS}
            return {**one, **counts}
        if name == ORDER_INFO:  # the groups' offsets are those of what was not acknowledged
            return {**other, **one}
        if name in _OF_GROUPS:
            return _lowest(one, other)
    return one


def _lowest(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    low = {key: min(one[key], other[key]) for key in one if key in other}
    return {**one, **other, **low}


# ---
# Decides what becomes of a queue that several stores have.

MEET_REFUSE, RENUMBER, APART = "refuse", "renumber", "apart"
MEETS = (MEET_REFUSE, RENUMBER, APART)
_JOIN = (SCHEDULE, *WAIT)  # topics of waiting messages, which are numbered anew in any case


def meet(sources: Sequence[Source], how: str) -> None:
    """Refuse queues that several stores have, or keep them apart: a later store's queues then get
    ids above those of the stores before it. Raises StoreError.

    The queues of waiting messages are internal to the broker, and are always joined.
    """
    if how == APART:
        _part(sources)
        return
    if how == RENUMBER:
        return
    owners: dict[QueueKey, Source] = {}
    for source in sources:
        for key, queue in source.measured.queues.items():
            if not (queue.taken or queue.counted) or key.topic in _JOIN:
                continue
            new = source.new_queue(key)
            other = owners.setdefault(new, source)
            if other is not source:
                ways = "--meet renumber or apart joins them by store time"
                if not new.topic.startswith(LMQ_PREFIX):
                    ways = (
                        "--meet apart gives its queues other ids, --meet renumber joins them by "
                        "store time, --rename or --drop keeps one out"
                    )
                raise StoreError(
                    f"{source.job.plan.store}: queue {new.queue_id} of topic {new.topic[:127]!r} "
                    f"is in {other.job.plan.store} too: {ways}"
                )


def _part(sources: Sequence[Source]) -> None:
    counts: dict[str, int] = {}  # a topic's new name -> number of queues of earlier stores
    for source in sources:
        own: dict[str, int] = {}
        for key, queue in source.measured.queues.items():
            if queue.taken and key.topic not in _JOIN:
                plan = source.job.plan
                known = own.get(key.topic) or queues_of(plan.folder, key.topic, Notes())
                own[key.topic] = max(known, key.queue_id + 1)
        shifts = {topic: counts.get(source.changes.renamed(topic), 0) for topic in own}
        moved = tuple((topic, shift) for topic, shift in shifts.items() if shift)
        source.changes = replace(source.changes, shifts=moved)
        for topic, count in own.items():
            counts[source.changes.renamed(topic)] = shifts[topic] + count


# ---
# The user's changes, checked: topics, new names, the store's host.

_NAMES_SHOWN = 5
_V1_MOST, _V2_MOST = 127, 255  # characters of a topic: HookUtils.MAX_TOPIC_LENGTH


def parse_renames(pairs: Iterable[str]) -> dict[str, str]:
    """`A=B` words, as --rename takes them. Raises SettingError."""
    renames: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old or not new:
            raise SettingError(f"--rename {pair[:80]!r}: expected OLD=NEW, two topics' names")
        if old in renames:
            raise SettingError(f"--rename {pair[:80]!r}: {old!r} has a new name already")
        renames[old] = new
    return renames


def wanted_changes(
    topics: Sequence[str], dropped: Sequence[str], renames: Mapping[str, str],
    store_host: str | None, release: Profile,
) -> Changes:  # fmt: skip
    """The changes for a new store of a release. Raises SettingError."""
    if topics and dropped:
        raise SettingError("--topic names all topics that are taken: --drop has nothing to add")
    for old, new in renames.items():
        _check_rename(old, new, release)
    if len(set(renames.values())) < len(renames):
        raise SettingError("--rename: two topics would get the same name; choose two names")
    host = b""
    if store_host is not None:
        try:
            host = encode_host(store_host)
        except Refused as error:
            raise SettingError(f"--store-host: {error}; HOST is an IP address") from None
    return Changes(
        tuple(dict.fromkeys(topics)),
        tuple(dict.fromkeys(dropped)),
        tuple(renames.items()),
        store_host=host,
    )


def _check_rename(old: str, new: str, release: Profile) -> None:
    for name in (old, new):
        if is_shared(name):
            raise SettingError(
                f"--rename {old[:80]!r}: {name[:80]!r} is a topic of the broker's, or of a group's "
                "own; only the topics of producers can be renamed"
            )
    try:
        check_sendable(new)
        check_topic(new, _V2_MOST if release.long_topics else _V1_MOST)
    except Refused as error:
        raise SettingError(f"--rename {old[:80]!r}: {error}") from None


def refuse_unknown_topics(changes: Changes, there: set[str]) -> None:
    """Raise SettingError for a topic that the store lacks, or a new name that is in use."""
    asked = (*changes.topics, *changes.dropped, *(old for old, _ in changes.renames))
    for name in asked:
        if name not in there:
            near = get_close_matches(name, there, _NAMES_SHOWN) or sorted(there)[:_NAMES_SHOWN]
            raise SettingError(f"no topic {name[:80]!r} in this store; it has {', '.join(near)}")
    left = there - {old for old, _ in changes.renames}
    for old, new in changes.renames:
        if new in left and changes.of_queue(new).fate:
            raise SettingError(
                f"--rename {old}={new}: the store has a topic {new}: their messages would be one "
                "topic's; choose another name, or --drop the other"
            )
