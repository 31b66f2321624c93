"""Marks the functions that numba compiles, without numba: it is imported as one is first called.

A `kernel` fills arrays of its caller and allocates none, so numba need not count references to
arrays (`_nrt=False`): that took more than half of the time of a dispatch. Functions that must make
arrays, and are called once for thousands of records, are `allocating`.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

BLOCK = 32  # bytes that kernels look at or copy at once

_COMPILER = "reput.store_format.kernels.compiler"


class Late:
    """What a kernel's code names, made when it is first called, or when such code is compiled."""

    __slots__ = ("_made", "_make", "function")

    def __init__(self, make: Callable[[], Any], function: Any = None) -> None:
        """function: that of a kernel."""
        self._make, self._made, self.function = make, None, function

    def made(self) -> Any:
        """The kernel as numba's, or whatever else it is."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def __call__(self, *args: Any) -> Any:
        return (self._made or self.made())(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.made(), name)


def late(module: str, name: str) -> Any:
    """A name of a module that imports numba."""
    return Late(lambda: getattr(import_module(module), name))


def _compiled(function: Function, **options: Any) -> Function:
    def make() -> Any:
        return import_module(_COMPILER).compiled(function, **options)

    return Late(make, function)  # type: ignore[return-value]


def kernel(function: Function) -> Function:
    """Compile a function that allocates nothing. Other threads run meanwhile."""
    return _compiled(function, _nrt=False, nogil=True)


def inlined(function: Function) -> Function:
    """A kernel so small that a call would cost more than its work."""
    return _compiled(function, _nrt=False, inline="always")


def allocating(function: Function) -> Function:
    """Compile a function that makes arrays."""
    return _compiled(function)


def unlocked(function: Function) -> Function:
    """Compile a kernel that may make arrays, and during which other threads run."""
    return _compiled(function, nogil=True)
