"""How kernels are compiled, and where compiled kernels are kept.

A `kernel` fills arrays of its caller and allocates none, so numba need not count references to
arrays (`_nrt=False`): that took more than half of the time of a dispatch. Functions that must make
arrays, and are called once for thousands of records, are `allocating`.

numba's own cache notices a change in a kernel's file, but not in another file whose kernel it
calls, and would go on with the old rule. So a compiled kernel's file is named by a hash of its
module and of all modules that this imports (docs/decisions/0005).
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from numba import njit
from numba.core import config
from numba.core.caching import FunctionCache, _CacheLocator
from numba.core.dispatcher import Dispatcher
from numba.core.runtime.nrt import rtsys

from reput.store_format.files.private import cache_folder, source_key

Function = TypeVar("Function", bound=Callable[..., Any])

_njit: Any = njit  # its stub does not know _nrt
_config: Any = config  # nor that its settings are attributes

if _config.DISABLE_JIT:
    raise RuntimeError("NUMBA_DISABLE_JIT is set, but kernels read numbers by LLVM: unset it")


_CACHE_FOLDER = cache_folder().path


_FunctionCache: Any = FunctionCache  # numba's is untyped


class _MendingCache(_FunctionCache):  # type: ignore[misc]
    """numba's cache of one kernel, which treats a truncated file as if it were missing.

    A power cut can leave such a file, and numba's own cache would fail at every start after it.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # numba would first import its whole compiler, which takes a quarter of a second, longer
        # than the rest of the work for a kernel. A compiled kernel needs only its runtime.
        with suppress(Exception):
            rtsys.initialize(target_context)
            return self._load_overload(sig, target_context)
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 (a damaged pickle may raise any exception)
            with suppress(OSError):
                self.flush()  # removes the index, so that the kernel can be saved again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # on a full disk, the kernel is compiled again next time
            super().save_overload(sig, data)


class SourcesLocator(_CacheLocator):
    """Finds the kernels compiled from these sources, be they in a checkout, a wheel or a zip.

    numba's own locators use a module's path. On a cluster each application has the zip in another
    folder, and would compile all kernels again.
    """

    def __init__(self, function: Any, file: str) -> None:
        self._py_file = file  # numba's messages name it
        line, key = function.__code__.co_firstlineno, source_key(function.__module__)
        self._name = f"{function.__module__}-{line}-{key}"

    def get_cache_path(self) -> str:
        return str(_CACHE_FOLDER)

    def get_source_stamp(self) -> str:
        return ""  # the file's name has a hash of the sources

    def get_disambiguator(self) -> str:
        return self._name

    @classmethod
    def from_function(cls, function: Any, file: str) -> "SourcesLocator":
        return cls(function, file)


def _compiled(function: Function, **options: Any) -> Function:
    if _CACHE_FOLDER is None:
        return _njit(**options)(function)  # type: ignore[no-any-return]
    # numba chooses a function's cache as the function is decorated. Releases without locator
    # classes take the folder, and divide it by paths.
    ours = {
        "CACHE_DIR": _CACHE_FOLDER,
        "CACHE_LOCATOR_CLASSES": f"{SourcesLocator.__module__}.{SourcesLocator.__qualname__}",
    }
    before = {name: getattr(_config, name, "") for name in ours}
    try:
        for name, value in ours.items():
            setattr(_config, name, value)
        compiled = _njit(cache=True, **options)(function)
        if isinstance(compiled, Dispatcher):
            setattr(compiled, "_cache", _MendingCache(function))  # noqa: B010 (not in its stub)
        return compiled  # type: ignore[no-any-return]
    finally:
        for name, value in before.items():
            setattr(_config, name, value)


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
