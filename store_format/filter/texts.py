"""Texts found in messages: a filter by a regular expression, and given texts that repeat."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reput.store_format.faults import WrongFilter
from reput.store_format.filter.filters import Filter
from reput.store_format.filter.rows import Match, Verdicts
from reput.store_format.kernels.jit import kernel
from reput.store_format.layouts import PROPERTY_END, PROPERTY_NAME_END, SYS_COMPRESSED
from reput.store_format.log.record import Record
from reput.store_format.log.records import Bytes, Rows
from reput.store_format.log.walk import Step
from reput.store_format.message.bodies import BodyError, BodyPastCap, decompressed

# ---
# The filter by a regular expression, over bodies and properties.
#
# RE2, which pyarrow has, takes time linear in the text for any expression, and searches all texts
# of a window in one call.

_NULLS_BETWEEN = 0x55  # a bitmap: every second text counts, the gaps between are null


class WrongPattern(WrongFilter):
    """RE2 refuses this regular expression."""


class GrepFilter(Filter):
    """The messages in which a regular expression is found: in the body, or in the name or the value
    of a property, each by itself.

    A compressed body is searched decompressed, or as it is in the log if that fails.
    """

    def __init__(
        self, pattern: str, cap: int, tell: Callable[[str], object] = lambda _: None
    ) -> None:
        """cap: the most bytes of a decompressed body that are held and searched; tell: called with
        a sentence if a body is longer. Raises WrongPattern.
        """
        self.pattern, self.cap, self.tell = pattern, cap, tell
        try:
            self._found_in([b""])
        except pa.ArrowInvalid as error:
            reason = str(error).rpartition("Invalid regular expression: ")[2]
            raise WrongPattern(f"regular expression: {reason}") from None

    def matches(
        self, record: Record, properties: Mapping[str, str], body: Callable[[], bytes]
    ) -> bool:
        texts = [text.encode() for pair in properties.items() for text in pair]
        return self._found_in(texts) or self._found_in([self._searched(record, body())])

    def _searched(self, record: Record, body: bytes) -> bytes:
        try:
            return decompressed(body, record.sys_flag, self.cap)
        except BodyPastCap as error:
            place = record.physical_offset
            self.tell(f"physical offset {place}: only {self.cap} bytes of the body are searched")
            return error.start
        except BodyError:
            return body

    def _found_in(self, texts: list[bytes]) -> bool:
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        return bool(self._found(b"".join(texts), ends, None).any())

    def _found(self, data: Any, ends: npt.NDArray[np.int64], valid: Any) -> npt.NDArray[np.bool_]:
        """One bool for each text data[ends[i]:ends[i + 1]]: whether the expression is in it."""
        # RE2 accepts bytes that are not UTF-8; they just match no character
        texts = pa.LargeStringArray.from_buffers(
            len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(data), valid
        )
        found = pc.match_substring_regex(texts, self.pattern)
        said: npt.NDArray[np.bool_] = found.fill_null(False).to_numpy(zero_copy_only=False)
        return said

    def judge(self, step: Step, split_properties: bool) -> Verdicts:
        """See Filter. Never YES: only `matches` knows which pairs of the properties count."""
        rows, window = step.rows, step.window
        verdicts = np.empty(len(rows), np.uint8)
        ends = np.empty(2 * (_count_separators(window, rows) + 2 * len(rows)) + 1, np.int64)
        owners = np.empty(len(ends), np.int64)
        count = _find_texts(window, rows, ends, owners, verdicts)
        valid = pa.py_buffer(np.full(count // 8 + 1, _NULLS_BETWEEN, np.uint8))
        found = self._found(window, ends[: count + 1], valid)
        verdicts[owners[:count][found]] = Match.ASK
        return verdicts


_NO, _ASK = int(Match.NO), int(Match.ASK)


@kernel
def _count_separators(window: Bytes, rows: Rows) -> int:
    count = 0
    for i in range(len(rows)):
        at = rows[i].propertiesAt
        for j in range(at, at + rows[i].propertiesLength):
            count += window[j] in (PROPERTY_NAME_END, PROPERTY_END)
    return count


@kernel
def _find_texts(
    window: Bytes,
    rows: Rows,
    ends: npt.NDArray[np.int64],
    owners: npt.NDArray[np.int64],
    verdicts: Verdicts,
) -> int:
    """Fill ends with the starts and ends of texts, in turn, and owners with their rows' numbers.

    A verdict becomes ASK if the body is not in the window in the form to be searched, or if a
    property has a separator in its value or is not ASCII, since Java may decode it to another text.
    Returns the number of texts and of gaps between them.
    """
    count = 0
    for i in range(len(rows)):
        row = rows[i]
        verdicts[i] = _NO
        if row.sysFlag & SYS_COMPRESSED or row.bodyElided:
            verdicts[i] = _ASK
        else:
            ends[count] = row.bodyAt
            ends[count + 1] = row.bodyAt + row.bodyLength
            owners[count] = owners[count + 1] = i
            count += 2
        at = row.propertiesAt
        end = at + row.propertiesLength
        ends[count] = at
        names = 0  # ends of names since the last pair's end
        while at < end:
            byte = window[at]
            names = 0 if byte == PROPERTY_END else names + (byte == PROPERTY_NAME_END)
            if byte >= 0x80 or names > 1:
                verdicts[i] = _ASK
            if byte in (PROPERTY_NAME_END, PROPERTY_END):
                ends[count + 1] = at
                ends[count + 2] = at + 1
                owners[count] = owners[count + 1] = i
                count += 2
            at += 1
        ends[count + 1] = end
        owners[count] = owners[count + 1] = i
        count += 2
    ends[count] = ends[count - 1] if count else 0
    return count


# ---
# Finds given texts in other texts, all at once, to see whether a redacted value is repeated.

LEAST = 4  # least bytes of a text to look for: shorter ones are everywhere
_ANYWHERE = 12  # shorter texts count only as words: 4711 is not in 1547110
_CHUNK = 1 << 20
_IS_WORD = np.zeros(257, np.bool_)  # the last item: before and after a text
for _first, _last in ("09", "az", "AZ"):
    _IS_WORD[ord(_first) : ord(_last) + 1] = True
_OUTSIDE = 256


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
