"""Some pairs of two lists for long tests, so that each of either is met; all with REPUT_EVERY=1."""

import os
from collections.abc import Sequence
from itertools import product
from typing import Any


def spread(firsts: Sequence[Any], seconds: Sequence[Any], each: int = 1) -> list[tuple[Any, Any]]:
    """Every second with `each` of the firsts, which take turns."""
    if os.environ.get("REPUT_EVERY"):
        return list(product(firsts, seconds))
    turns = [(place + more) % len(firsts) for place in range(len(seconds)) for more in range(each)]
    return [(firsts[turn], seconds[at // each]) for at, turn in enumerate(turns)]
