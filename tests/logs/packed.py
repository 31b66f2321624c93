"""Logs that print short: a failed example can be pasted whole into a test."""

import base64
import pickle
import zlib

from hypothesis import strategies as st

from tests.logs.strategies import Log


class PackedLog(Log):
    """A Log whose repr is the call that makes it again."""

    def __repr__(self) -> str:
        text = base64.b85encode(zlib.compress(pickle.dumps(tuple(self)), 9)).decode()
        return f"unpack({text!r})"


def packed(drawn: st.SearchStrategy[Log]) -> st.SearchStrategy[PackedLog]:
    return drawn.map(lambda log: PackedLog(*log))


def unpack(text: str) -> PackedLog:
    return PackedLog(*pickle.loads(zlib.decompress(base64.b85decode(text))))
