"""Reads topics, subscription groups and consumer offsets from a store's config/.

The files are a broker's JSON; integer keys may be unquoted (fastjson). As a broker does
(ConfigManager.load), the .bak beside a file is read where the file is missing or cannot be read.
Whatever cannot be read is noted, and counts as missing.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from reput.store_format.discover.databases import config_in_rocksdb
from reput.store_format.files.protocol import InputStorage
from reput.store_format.java import quoted_keys
from reput.store_format.names import CONFIG, is_queue_id
from reput.store_format.notes import Notes
from reput.store_format.rocksdb.database import RocksDBError, open_database
from reput.store_format.rocksdb.rows import config_rows

_GROUP_SEPARATOR = "@"  # ConsumerOffsetManager.TOPIC_GROUP_SEPARATOR

Offsets = dict[tuple[str, str], dict[int, int]]  # (group, topic) -> queue id -> next position


def configured_topics(storage: InputStorage, store: str, notes: Notes) -> Mapping[str, Any] | None:
    """Each topic of config/topics.json, or of its .bak; None where there is neither."""
    return config_table(storage, store, "topics.json", "topicConfigTable", notes)


def subscription_groups(
    storage: InputStorage, store: str, notes: Notes
) -> Mapping[str, Any] | None:
    """Each group of config/subscriptionGroup.json, or of its .bak; None where there is neither."""
    return config_table(storage, store, "subscriptionGroup.json", "subscriptionGroupTable", notes)


def topic_attributes(storage: InputStorage, store: str, notes: Notes) -> dict[str, dict[str, Any]]:
    """Each topic's attributes, by config/topics.json; empty for a topic that has none."""
    return attributes_of(configured_topics(storage, store, notes) or {})


def attributes_of(topics: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """As `topic_attributes`, of a topicConfigTable."""
    return {
        name: about["attributes"]
        if isinstance(about, dict) and isinstance(about.get("attributes"), dict)
        else {}
        for name, about in topics.items()
    }


def batch_topics(storage: InputStorage, store: str, notes: Notes) -> list[str]:
    """The topics whose queue.type is BatchCQ, by config/topics.json."""
    return batch_topics_of(configured_topics(storage, store, notes) or {})


def batch_topics_of(topics: Mapping[str, Any]) -> list[str]:
    """As `batch_topics`, of a topicConfigTable."""
    return [
        name for name, attributes in attributes_of(topics).items()
        if attributes.get("queue.type") == "BatchCQ"
    ]  # fmt: skip


def queues_of(storage: InputStorage, store: str, topic: str, notes: Notes) -> int:
    """A topic's writeQueueNums in config/topics.json; 0 where there is none."""
    about = (configured_topics(storage, store, notes) or {}).get(topic)
    count = about.get("writeQueueNums") if isinstance(about, dict) else None
    return count if isinstance(count, int) else 0


def consumer_offsets(storage: InputStorage, store: str, notes: Notes) -> Offsets:
    """How far each group has consumed each topic, by config/consumerOffset.json, or its .bak."""
    table = config_table(storage, store, "consumerOffset.json", "offsetTable", notes)
    return offsets_of_table(table or {}, notes)


def offsets_of_table(table: Mapping[str, Any], notes: Notes) -> Offsets:
    """The offsets of an offsetTable, whose keys are `topic@group`."""
    found: Offsets = {}
    for name, queues in table.items():
        topic, separator, group = name.partition(_GROUP_SEPARATOR)
        if separator and not isinstance(queues, dict):
            notes.note(
                f"{CONFIG}/consumerOffset.json: offsets of a topic and group are no JSON object"
            )
        elif separator:
            found[group, topic] = {
                int(queue): offset
                for queue, offset in queues.items()
                if is_queue_id(queue) and isinstance(offset, int)
            }
    return found


def config_table(
    storage: InputStorage, store: str, file: str, name: str, notes: Notes
) -> Mapping[str, Any] | None:
    """The table `name` in a file of config/ or in its .bak; None where neither file has it.

    Where a broker reads a RocksDB in place of the file, the RocksDB is read.
    """
    elsewhere = config_in_rocksdb(storage, store, file)
    if elsewhere is not None:
        try:
            with closing(open_database(storage, elsewhere)) as database:
                return config_rows(database, file)
        except RocksDBError as error:
            notes.note(f"{error}; a broker reads it in place of {file}")
    for path in (f"{store}/{CONFIG}/{file}", f"{store}/{CONFIG}/{file}.bak"):
        try:
            raw = storage.read_bytes(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            table = json.loads(quoted_keys(raw))[name]
        except (ValueError, KeyError, TypeError, RecursionError):
            notes.note(f"{path}: is no JSON with {name}; it is left out")
            continue
        if isinstance(table, dict):
            return table
        notes.note(f"{path}: {name} is no JSON object; it is left out")
    return None
