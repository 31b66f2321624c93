"""The number of messages given to clients, in total and per second (StoreStatsService)."""

from collections import deque

_SPANS = (10, 60, 600)  # seconds
_TICK_MILLISECONDS = 1000


class Given:
    """A count of messages, with its values of the last ten minutes."""

    def __init__(self, now: int) -> None:
        self.total = 0
        self._past: deque[tuple[int, int]] = deque([(now, 0)], _SPANS[-1] + 1)

    def tick(self, now: int) -> None:
        """Note the count for `rates`, at most once a second."""
        if now - self._past[-1][0] >= _TICK_MILLISECONDS:
            self._past.append((now, self.total))

    def rates(self, now: int) -> list[float]:
        """Messages a second over the last ten seconds, minute and ten minutes."""
        return [self._rate(now, now - span * 1000) for span in _SPANS]

    def _rate(self, now: int, since: int) -> float:
        begin, count = next((each for each in self._past if each[0] >= since), self._past[-1])
        return (self.total - count) * 1000 / (now - begin) if now > begin else 0.0
