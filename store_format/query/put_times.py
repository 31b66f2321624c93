"""When messages were put: counts by topic and time, and by size, from one walk over the log.

Spans of time begin short and grow as the log turns out to be long. So both a store of a minute and
one of a year have some hundreds of spans, and memory does not depend on the length.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from reput.store_format.log.reader import LogReader
from reput.store_format.log.walk import Step
from reput.store_format.query.counts import Count, CountSums, add_up

SPANS_MOST = 240  # with more, spans are made longer
_KEYS_MOST = 200_000  # of topics and spans; each topic keeps at least one span
# Seconds. Each width is a multiple of the one before, so that sums stay right.
_LADDER = (1, 5, 15, 60, 300, 900, 3600, 21_600, 86_400, 604_800)


class PutSpan(NamedTuple):
    """The messages of one topic put in one span of time."""

    topic: str
    begin: int  # milliseconds
    messages: int
    bytes: int


class PutTimes(NamedTuple):
    """All counts of a walk."""

    width: int  # milliseconds of each span
    spans: list[PutSpan]
    topics: list[Count]
    sizes: list[Count]


class _Spans(CountSums):
    """Sums by topic and time, in spans that grow."""

    def __init__(self) -> None:
        super().__init__(("topic", "hour"), _LADDER[0] * 1000)
        self._begins: set[int] = set()

    def put(self, key: tuple[Any, ...], more: list[int]) -> None:
        topic, time = key
        # the width may have grown since the step began
        begin = time // self.span * self.span
        super().put((topic, begin), more)
        self._begins.add(begin)
        while len(self._begins) > SPANS_MOST or (
            len(self.found) > _KEYS_MOST and len(self._begins) > 1
        ):
            self._widen()

    def _widen(self) -> None:
        self.span = next((s * 1000 for s in _LADDER if s * 1000 > self.span), self.span * 4)
        before, self.found, self._begins = self.found, {}, set()
        for (topic, time), sums in before.items():
            begin = time // self.span * self.span
            super().put((topic, begin), sums)
            self._begins.add(begin)


def put_times(
    log: LogReader, split: bool, batch: Sequence[str], seen: Callable[[int], None],
    note: Callable[[str], None], behind: Callable[[int], Iterable[Step]] | None = None,
) -> PutTimes:  # fmt: skip
    """Count messages by topic and time, by topic, and by size; arguments as for `add_up`."""
    spans, topics, sizes = _Spans(), CountSums(("topic",)), CountSums(("size",))
    add_up(log, (spans, topics, sizes), split, batch, seen, note, behind)
    by_span = sorted(spans.found.items(), key=lambda item: item[0])
    found = [PutSpan(topic, begin, sums[1], sums[2]) for (topic, begin), sums in by_span]
    return PutTimes(spans.span, found, topics.counts(), sizes.counts())
