"""What is said beside an answer: notes on what was skipped or cut, progress of long work."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

_SKIPPED_MOST = 100  # places that are named: a hostile store has millions


class Notes:
    """Lines for people, each a sentence; none quotes a message.

    say: called with each line as it comes; watch: a context entered while the log is scanned.
    """

    def __init__(
        self,
        say: Callable[[str], Any] = lambda _: None,
        watch: Callable[["Notes"], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> None:
        self.lines: list[str] = []
        self._skipped = 0
        self.cut = False  # there are more messages than were asked for
        self.lacking = False  # the answer lacks what nobody asked to leave out
        self.scanned = self.to_scan = 0  # bytes of the log
        self._say, self._watch = say, watch

    def note(self, text: str) -> None:
        """Add a line and say it, unless the same line is there already."""
        if text not in self.lines:
            self.lines.append(text)
            self._say(text)

    def lacks(self, text: str) -> None:
        """Note what the answer lacks: damage, or a file that cannot be read."""
        self.lacking = True
        self.note(text)

    def skip(self, text: str) -> None:
        """Note one skipped place; after many, only that there are more."""
        if self._skipped < _SKIPPED_MOST:
            self._skipped += text not in self.lines
            self.note(text)
        else:
            self.note(f"more was skipped; only the first {_SKIPPED_MOST} places are named")

    def watching(self) -> AbstractContextManager[None]:
        """To be entered while the log is scanned."""
        return self._watch(self)


# ---
# The progress of long work; jobs/console/options.py shows it.


class Done(NamedTuple):
    """The progress of a stage. share: 0 to 1, None if the total is unknown; text: to show."""

    share: float | None
    text: str


class Progress:
    """Shows nothing; the default of library calls."""

    @contextmanager
    def stage(self, name: str, done: Callable[[], Done]) -> Iterator[None]:
        """Show a stage while the block runs; `done` is called now and then."""
        yield
