"""How kernels are compiled.

Kernels fill arrays that they are given and allocate none, so numba need not count references
to arrays (`_nrt=False`): counting cost more than half of a dispatch. What must allocate, and is
called once for thousands of records, uses numba's plain `njit(cache=True)`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_njit: Any = njit  # its stub does not know _nrt
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function that allocates nothing; cached on disk where that can be written."""
    compiled: Function = _njit(cache=True, _nrt=False)(function)
    return compiled


def inlined(function: Function) -> Function:
    """A kernel so small that a call would cost more than its work."""
    compiled: Function = _njit(cache=True, _nrt=False, inline="always")(function)
    return compiled
