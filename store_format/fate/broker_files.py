"""How far a broker has gone, by the small files in which it keeps that."""

import json
import re
from typing import Any

import numpy as np

from reput.store_format.fate.delays import Read
from reput.store_format.faults import StoreError
from reput.store_format.layouts import TIMER_CHECK
from reput.store_format.message.message import HALF_TOPIC
from reput.store_format.names import ABORT, CONFIG
from reput.store_format.storage.protocol import Storage

_BYTES_MOST = 64 << 20
_CHECKER = "CID_RMQ_SYS_TRANS"  # MixAll.CID_SYS_RMQ_TRANS, the group that checks
# A text, or a number that is a key without quotes, as fastjson writes those of a Java map.
_TEXT_OR_KEY = re.compile(r'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?[0-9]+)(\s*:)')


class BadBrokerFile(StoreError):
    """A broker's own small file cannot be read; says which one and why."""


def broker_json(text: str) -> Any:
    """JSON as a broker writes it, also with integer keys that have no quotes. Raises ValueError."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(_TEXT_OR_KEY.sub(_quoted, text))


def _quoted(found: re.Match[str]) -> str:
    if found[2] is None:
        return found[0]
    return f'{found[1]}"{found[2]}"{found[3]}'


def read_progress(storage: Storage, store: str) -> Read:
    """Raises BadBrokerFile."""
    levels = _offsets(storage, f"{store}/{CONFIG}/delayOffset.json", None)
    raw = _small_file(storage, f"{store}/{CONFIG}/timercheck") or b""
    position, read = None, 0
    if len(raw) >= TIMER_CHECK.itemsize:
        check = np.frombuffer(raw, TIMER_CHECK, 1)[0]
        position, read = int(check["lastTimerQueueOffset"]), int(check["lastReadTimeMs"])
    return Read(levels, position, read, _small_file(storage, f"{store}/{ABORT}") is None)


def half_position(storage: Storage, store: str) -> int:
    """The queue offset up to which the broker has checked half messages; 0 where it is not told.

    Raises BadBrokerFile.
    """
    found = _offsets(storage, f"{store}/{CONFIG}/consumerOffset.json", f"{HALF_TOPIC}@{_CHECKER}")
    return (found or {}).get(0, 0)


def _offsets(storage: Storage, path: str, name: str | None) -> dict[int, int] | None:
    """The offsetTable, or what it has by a name; None where there is no such file.

    The `.bak` is read where the file is missing or empty (ConfigManager.load).
    """
    for each in (path, f"{path}.bak"):
        text = (_small_file(storage, each) or b"").decode("utf-8", "replace")
        if not text.strip():
            continue
        try:
            table = broker_json(text)["offsetTable"]
            found = table if name is None else table.get(name, {})
            return {int(key): int(value) for key, value in found.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadBrokerFile(f"{each}: is no table of offsets as brokers write it") from None
    return None


def _small_file(storage: Storage, path: str) -> bytes | None:
    """Its bytes; None where there is no such file."""
    try:
        reader = storage.open(path)
        length = reader.state.size
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if length > _BYTES_MOST:
            raise BadBrokerFile(
                f"{path}: {length} bytes are too many for this file: {_BYTES_MOST} at most"
            )
        raw = np.empty(length, np.uint8)
        reader.read_into(0, raw)
    finally:
        reader.close()
    return raw.tobytes()
