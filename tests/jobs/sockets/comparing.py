"""Answers of a broker and ours, made alike where they may differ."""

import re
from typing import Any

from reput.broker.serving.broker import Answer, Caller
from reput.broker.serving.store import LogRange

CALLER = Caller(1, "127.0.0.1:1000", "127.0.0.1:9876", 1_795_246_245_000)


# What a broker says besides is a link to a page, or the client's port.
_BESIDES = re.compile(r"\s*(See|For more information, please visit|consumer:\[).*", re.S)


def whole(said: Answer) -> Answer:
    body = said.body + b"".join(
        each.read() if isinstance(each, LogRange) else bytes(each) for each in said.pieces
    )
    return said._replace(body=body, pieces=())


def plain(answered: list[Any], name: str) -> list[Any]:
    code, remark, fields, *body = answered
    if name == "mixed_4.9.7":  # it puts an event into the log for each client that is too far
        fields = {each: value for each, value in fields.items() if "indexLast" not in each}
    return [code, _BESIDES.sub("", remark or "") or None, fields, *body]
