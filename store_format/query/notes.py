"""What a query tells besides its messages: what was skipped or cut, and how far a scan has come."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_SKIPPED_MOST = 100  # places that are named: a hostile store has millions


def _nobody(_: str) -> None: ...


def _unseen(_: "Told") -> AbstractContextManager[None]:
    return nullcontext()


class Told:
    """Notes, each a sentence for a person; none has any text of a message.

    tell: called with each note as it comes; watch: entered while the log is scanned.
    """

    def __init__(
        self,
        tell: Callable[[str], Any] = _nobody,
        watch: Callable[["Told"], AbstractContextManager[None]] = _unseen,
    ) -> None:
        self.notes: list[str] = []
        self._skipped = 0
        self.cut = False  # there are more messages than were asked for
        self.scanned = self.to_scan = 0  # bytes of the log
        self._tell, self._watch = tell, watch

    def note(self, text: str) -> None:
        """Tell it, unless the same was told before."""
        if text not in self.notes:
            self.notes.append(text)
            self._tell(text)

    def skip(self, text: str) -> None:
        """Tell of one place that was skipped; of very many only the first ones."""
        if self._skipped < _SKIPPED_MOST:
            self._skipped += text not in self.notes
            self.note(text)
        else:
            self.note(f"more was skipped; only the first {_SKIPPED_MOST} places are told")

    def watching(self) -> AbstractContextManager[None]:
        """To be entered while the log is scanned."""
        return self._watch(self)
