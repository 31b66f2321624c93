"""The small files that a broker's services keep: of timers, and the JSON of config/."""

import json
import re
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from reput.store_format.faults import StoreError
from reput.store_format.files.protocol import PART, Files, check_small, read_small, replace_small
from reput.store_format.java import quoted_keys
from reput.store_format.layouts import TIMER_CHECK_FILE_BYTES
from reput.store_format.names import (
    CONFIG,
    LMQ_PREFIX,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    TIMER_LOG,
    TOPICS,
    is_wheel,
    parse_segment_name,
)
from reput.store_format.names import STAGED_TIMER_LOG as STAGED
from reput.store_format.release.profiles import Profile
from reput.store_format.state.timers import TIMER_CHECK_PATH, Timers, timer_check, timer_log_files

# ---
# The timer's files, written in steps of which each can be killed.
#
# Until the new timerlog has its name, a broker would deliver the delivered messages again; from
# then on none. A broker loses no message at any step: the wheel's file is removed only once
# timercheck has the broker make the wheel from the whole timerlog.


def replace_timer_files(files: Files, timers: Timers, file_bytes: int) -> None:
    """Replace the timerlog by one of these units, step by step. Raises OSError."""
    remove_folder(files, STAGED)
    files.add_folder(STAGED)
    for name, content in timer_log_files(timers.units, file_bytes, timers.turned.precision):
        with closing(files.create(f"{STAGED}/{name}")) as file:
            file.set_length(file_bytes)
            file.write_at(0, content)
            file.sync()
    files.sync_folder(STAGED)
    files.make_folder(CONFIG)
    # From here on a broker makes the wheel from the whole timerlog, the old or the new.
    _write_check(files, lastTimerLogFlushPos=0)
    for name in filter(is_wheel, files.names("")):
        files.remove(name)
    files.sync_folder("")
    if files.exists(TIMER_LOG):
        files.exchange(STAGED, TIMER_LOG)
    else:
        files.rename(STAGED, TIMER_LOG)
    files.sync_folder("")
    _write_check(files, **timers.check)
    remove_folder(files, STAGED)


def _write_check(files: Files, **fields: int) -> None:
    """Change fields of timercheck, all in one sector."""
    old = b""
    if files.exists(TIMER_CHECK_PATH):
        old = read_small(files, TIMER_CHECK_PATH, TIMER_CHECK_FILE_BYTES)
    replace_small(files, TIMER_CHECK_PATH, timer_check(old, **fields))
    files.sync_folder(CONFIG)


def check_can_replace(files: Files) -> None:
    """Raise StoreError where a file to be changed is a link, or is none of a broker's."""
    for folder in (TIMER_LOG, STAGED):
        if not files.exists(folder):
            continue
        if not files.is_folder(folder):
            raise StoreError(f"{folder}: is not a folder; it is left as it is")
        for name in files.names(folder):
            try:
                parse_segment_name(name)
            except ValueError as error:
                raise StoreError(f"{folder}: {error}; it is left as it is") from None
            check_small(files, f"{folder}/{name}")
    for path in (*filter(is_wheel, files.names("")), TIMER_CHECK_PATH, TIMER_CHECK_PATH + PART):
        check_small(files, path)


def remove_folder(files: Files, folder: str) -> None:
    """Remove a folder of files of ours, if it is there."""
    if not files.exists(folder):
        return
    for name in files.names(folder):
        files.remove(f"{folder}/{name}")
    files.remove(folder)


# ---
# Files of config/ as a broker writes them: JSON with unquoted integer keys, and a .bak.
#
# MixAll.string2File keeps the old content as .bak. Here either file appears whole or not at all.

_TOPICS = f"{CONFIG}/{TOPICS}"

_READ_AND_WRITE = 6  # PermName: PERM_READ | PERM_WRITE
_BYTES_MAX = 256 << 20
_MARK = "#"  # put before a key that had no quotes; no topic or group name begins with it
_NEW, _BACKUP = ".tmp", ".bak"  # as in MixAll.string2File
_SURROGATE = re.compile("[\ud800-\udfff]")
_MARKED = re.compile(rf"{_MARK}-?[0-9]+")


def read_json(files: Files, path: str) -> dict[str, Any]:
    """A file's JSON object; {} where there is no file. Keys that had no quotes begin with `#`.

    Raises StoreError for anything but a JSON object, so that it is not overwritten.
    """
    raw = _read(files, path)
    if raw is None:
        return {}
    try:
        found = json.loads(quoted_keys(raw, _MARK.encode()))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise StoreError(f"{path}: offset 0: is not a JSON object; it is left as it is")
    return found


def read_offsets(files: Files, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A file's JSON object, and the `offsetTable` in it, which the caller may change.

    Raises StoreError where either is no JSON object, or where the folder or a file that
    `write_json` is to write is a link or the like.
    """
    folder = path.rpartition("/")[0]
    if files.exists(folder) and not files.is_folder(folder):  # it raises for a link
        raise StoreError(f"{folder}: is not a folder")
    for name in (path + _BACKUP, path + _BACKUP + _NEW, path + _NEW):
        check_small(files, name)
    whole = read_json(files, path)
    table = whole.setdefault("offsetTable", {})
    if not isinstance(table, dict):
        raise StoreError(f"{path}: offsetTable: is not a JSON object; it is left as it is")
    return whole, table


def add_topics(
    files: Files, queues: Mapping[str, int], like: Mapping[str, Any], profile: Profile, now: int
) -> list[str]:
    """Add topics that config/topics.json lacks, so that a broker has a route to them.

    A broker makes a topic of its own only for a producer, if autoCreateTopicEnable is on
    (TopicConfigManager.createTopicInSendMessageMethod). queues: topic -> least number of queues;
    like: another store's topicConfigTable, whose entries are taken over; now: milliseconds.
    Returns the topics that were added. Raises StoreError where the file is none of a broker's.
    """
    whole = read_json(files, _TOPICS)
    table = whole.setdefault("topicConfigTable", {})
    if not isinstance(table, dict):
        raise StoreError(f"{_TOPICS}: topicConfigTable: is not a JSON object; it is left as it is")
    # a broker makes these by itself, or has none for the queue
    own = {n for n in queues if n in SYSTEM_TOPICS or n.startswith((SYSTEM_PREFIX, LMQ_PREFIX))}
    added = [name for name in sorted(queues) if name not in table and name not in own]
    for name in added:
        about = like.get(name)
        table[name] = _topic(name, queues[name], about if isinstance(about, dict) else {}, profile)
    if added:
        version = whole.get("dataVersion")
        counter = version.get("counter") if isinstance(version, dict) else None
        whole["dataVersion"] = {
            "counter": counter + 1 if isinstance(counter, int) else 1,
            **({"stateVersion": 0} if profile.abort_process_id else {}),  # both since 5.0.0
            "timestamp": now,
        }
        write_json(files, _TOPICS, dict(sorted(whole.items())), profile)
    return added


def _topic(name: str, queues: int, about: dict[str, Any], profile: Profile) -> dict[str, Any]:
    """A TopicConfig."""
    made = {
        **({"attributes": {}} if profile.abort_process_id else {}), "order": False,
        "perm": _READ_AND_WRITE, "topicFilterType": "SINGLE_TAG", "topicName": name,
        "topicSysFlag": 0, **about,
    }  # fmt: skip
    for count in ("readQueueNums", "writeQueueNums"):
        known = about.get(count)
        made[count] = max(queues, known if isinstance(known, int) else 0)
    return dict(sorted(made.items()))


def integer_key(number: int | str) -> str:
    """A key without quotes, as `read_json` returns it."""
    return f"{_MARK}{number}"


def write_json(files: Files, path: str, value: dict[str, Any], profile: Profile) -> None:
    """Replace a file durably, and keep its old content as .bak. Raises OSError."""
    before = _read(files, path)
    text = pretty(value, profile.config_entry_lines).encode()
    if before == text:
        return
    folder = path.rpartition("/")[0]
    files.make_folder(folder)
    for name, content in ((path + _BACKUP, before), (path, text)):
        if content is not None:
            replace_small(files, name, content, beside=_NEW)
    files.sync_folder(folder)


def pretty(value: Any, entry_lines: bool, depth: int = 0) -> str:
    """RemotingSerializable.toJson(value, true).

    entry_lines: each entry and element has a line of its own (fastjson2, from 5.4.0 on). Before,
    maps with unquoted keys only, and lists, are on one line (fastjson).
    """
    if isinstance(value, dict):
        parts = [
            f"{key[len(_MARK) :] if _MARKED.fullmatch(key) else _json(key)}:"
            f"{pretty(each, entry_lines, depth + 1)}"
            for key, each in value.items()
        ]
        inline = not entry_lines and bool(value) and all(map(_MARKED.fullmatch, value))
        return _block("{", parts, "}", inline, depth)
    if isinstance(value, list):
        parts = [pretty(each, entry_lines, depth + 1) for each in value]
        return f"[{','.join(parts)}]" if not entry_lines else _block("[", parts, "]", False, depth)
    return _json(value)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)  # half a pair cannot be encoded
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _block(opens: str, parts: list[str], closes: str, inline: bool, depth: int) -> str:
    if not parts:
        return opens + closes
    line = "\n" + "\t" * (depth + 1)
    begin, between = ("", ",") if inline else (line, f",{line}")
    end = "\n" + "\t" * depth
    return f"{opens}{begin}{between.join(parts)}{end}{closes}"


def _read(files: Files, path: str) -> bytes | None:
    """A file's bytes; None where there is none. Raises StoreError, OSError."""
    try:
        raw = read_small(files, path, _BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    if len(raw) > _BYTES_MAX:
        raise StoreError(f"{path}: more than {_BYTES_MAX} bytes are too many")
    return raw
