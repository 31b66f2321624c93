"""The progress of long work; jobs/console/progress_lines.py shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


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
