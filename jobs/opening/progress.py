"""How far long work is; jobs/console/progress_lines.py shows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Done(NamedTuple):
    """How far a stage is: a share of 1, None where the whole is not known, and what to show."""

    share: float | None
    text: str


class Progress:
    """Says nothing; what library calls use unless another is given."""

    @contextmanager
    def stage(self, name: str, done: Callable[[], Done]) -> Iterator[None]:
        """Show a stage while the block runs; `done` is asked now and then."""
        yield
