"""Finds given texts in other texts, all at once, to see whether a redacted value is repeated."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST = 4  # least bytes of a text to look for: shorter ones are everywhere
_ANYWHERE = 12  # shorter texts count only as words: 4711 is not in 1547110
_CHUNK = 1 << 20
_IS_WORD = np.zeros(257, np.bool_)  # the last item: before and after a text
for _first, _last in ("09", "az", "AZ"):
    _IS_WORD[ord(_first) : ord(_last) + 1] = True
_OUTSIDE = 256

Bytes = npt.NDArray[np.uint8]


class Repeats:
    """The texts to look for, without those of fewer than LEAST bytes."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.texts = frozenset(text for text in texts if len(text) >= LEAST)

    @cached_property
    def _lengths(self) -> dict[int, list[int]]:
        """For each four bytes (as a number) that begin texts, the lengths of these texts."""
        found: dict[int, set[int]] = {}
        for text in self.texts:
            found.setdefault(int.from_bytes(text[:LEAST], "big"), set()).add(len(text))
        return {start: sorted(lengths) for start, lengths in found.items()}

    @cached_property
    def _starts(self) -> npt.NDArray[np.uint32]:
        return np.sort(np.array(list(self._lengths), np.uint32))

    def found_in(self, texts: list[bytes]) -> set[int]:
        """The numbers of those of `texts` that contain one of the texts to look for."""
        if not self.texts or not texts:
            return set()
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        found: set[int] = set()
        whole = b"".join(texts)
        for at in self._candidates(np.frombuffer(whole, np.uint8)):
            number = int(np.searchsorted(ends, at, side="right"))
            if number not in found:
                start = int(ends[number]) - len(texts[number])
                if self._is_at(texts[number], at - start):
                    found.add(number)
        return found

    def _candidates(self, data: Bytes) -> Iterator[int]:
        """The places of four bytes with which a text to look for begins."""
        starts = self._starts
        for first in range(0, len(data) - LEAST + 1, _CHUNK):
            part: Any = data[first : first + _CHUNK + LEAST - 1].astype(np.uint32)
            four = part[:-3] << 24 | part[1:-2] << 16 | part[2:-1] << 8 | part[3:]
            near = np.minimum(np.searchsorted(starts, four), len(starts) - 1)
            yield from (np.flatnonzero(starts[near] == four) + first).tolist()

    def _is_at(self, text: bytes, at: int) -> bool:
        for length in self._lengths.get(int.from_bytes(text[at : at + LEAST], "big"), ()):
            end = at + length
            if end > len(text):
                return False
            if text[at:end] in self.texts and (length >= _ANYWHERE or _is_word(text, at, end)):
                return True
        return False


def _is_word(text: bytes, at: int, end: int) -> bool:
    before = text[at - 1] if at else _OUTSIDE
    after = text[end] if end < len(text) else _OUTSIDE
    return not (
        (_IS_WORD[before] and _IS_WORD[text[at]]) or (_IS_WORD[after] and _IS_WORD[text[end - 1]])
    )
