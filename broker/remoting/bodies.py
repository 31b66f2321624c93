"""Bodies of answers: JSON as fastjson writes it for RocketMQ's objects (RemotingSerializable)."""

import json
from collections.abc import Iterable
from typing import Any

_text = json.JSONEncoder(ensure_ascii=False).encode
_ascii_text = json.JSONEncoder(ensure_ascii=True).encode


class Entries:
    """A map whose keys are objects, such as MessageQueues: fastjson writes them as JSON objects."""

    def __init__(self, pairs: Iterable[tuple[Any, Any]]) -> None:
        self.pairs = list(pairs)


def fastjson(value: Any, standard: bool = False) -> bytes:
    """A value as RemotingSerializable.encode writes it; integer keys have no quotes.

    standard: integer keys have quotes, and text is ASCII. A name server answers so if a client asks
    for standard JSON (SerializerFeature.QuoteFieldNames, BrowserCompatible).
    """
    return _written(value, standard).encode("utf-8", "replace")


def _written(value: Any, standard: bool) -> str:
    if isinstance(value, Entries):
        members = (f"{_written(k, standard)}:{_written(v, standard)}" for k, v in value.pairs)
        return "{" + ",".join(members) + "}"
    if isinstance(value, dict):
        members = (
            f"{_key(name, standard)}:{_written(each, standard)}" for name, each in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, str):
        return _ascii_text(value) if standard else _text(value)
    if isinstance(value, list | tuple | set | frozenset):
        return "[" + ",".join(_written(each, standard) for each in value) + "]"
    return json.dumps(value)


def _key(name: Any, standard: bool) -> str:
    if isinstance(name, int):
        return f'"{name}"' if standard else str(name)
    return _ascii_text(name) if standard else _text(name)
