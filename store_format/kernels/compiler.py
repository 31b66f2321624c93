"""How kernels are compiled by numba, and where compiled kernels are kept.

numba's own cache notices a change in a kernel's file, but not in another file whose kernel it
calls, and would go on with the old rule. So a compiled kernel's file is named by a hash of its
module and of all modules that this imports (docs/decisions/0005).

Only what compiles imports this module, and only this one imports numba: that takes a quarter of a
second, and most processes of a command call no kernel.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FunctionType
from typing import Any, TypeVar

from reput.store_format.files.private import cache_folder, source_key
from reput.store_format.kernels.jit import Late

Function = TypeVar("Function", bound=Callable[..., Any])

_YAML = "yaml"


@contextmanager
def _without_settings_of_the_folder() -> Iterator[None]:
    """A numba imported within takes PyYAML for missing, for good.

    As it is imported, and each time it compiles, numba reads `.numba_config.yaml` from the current
    folder, if PyYAML is installed. Whoever writes the file would decide how kernels are compiled.
    """
    modules: dict[str, Any] = sys.modules
    before = {name: modules[name] for name in (_YAML,) if name in modules}
    modules[_YAML] = None  # importing it raises ImportError
    warnings.filterwarnings("ignore", "A Numba config file is found", UserWarning)
    try:
        yield
    finally:
        del modules[_YAML]
        modules.update(before)


with _without_settings_of_the_folder():
    import numba
    from llvmlite import binding
    from llvmlite import ir as ir
    from numba.core import types as types
    from numba.core.caching import FunctionCache, _CacheLocator
    from numba.core.datamodel import models as models
    from numba.core.runtime.nrt import rtsys
    from numba.extending import register_model as register_model

# What numba's stubs do not say: settings are attributes, njit knows _nrt, an intrinsic loses its
# context.
config: Any = numba.core.config
cgutils: Any = numba.core.cgutils
intrinsic: Any = numba.extending.intrinsic
_njit: Any = numba.njit
_FunctionCache: Any = FunctionCache

if config.DISABLE_JIT:
    raise RuntimeError("NUMBA_DISABLE_JIT is set, but kernels read numbers by LLVM: unset it")


def has(feature: str) -> bool:
    """Whether this processor has what LLVM calls so; never if numba compiles for another one."""
    for_this_processor = not (config.CPU_NAME or config.CPU_FEATURES)
    return for_this_processor and bool(binding.get_host_cpu_features().get(feature))


CAN_FOLD = has("pclmul")  # for `carryless`
_CACHE_FOLDER = cache_folder().path


def settled(function: Function) -> Function:
    """The function, with what its code names `Late` made, and what these name: numba resolves such
    names as it compiles.
    """
    assert isinstance(function, FunctionType)
    names = function.__globals__
    for name in function.__code__.co_names:
        late = names.get(name)
        if isinstance(late, Late):
            names[name] = late.made()
            if late.function is not None:
                settled(late.function)
    return function


class _MendingCache(_FunctionCache):  # type: ignore[misc]
    """numba's cache of one kernel, which treats a truncated file as if it were missing.

    A power cut can leave such a file, and numba's own cache would fail at every start after it.
    """

    def __init__(self, function: Any, counts: bool) -> None:
        """counts: whether the kernel counts references (by numba's runtime)."""
        super().__init__(function)
        self._function, self._counts = function, counts

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        # numba would first import its whole compiler, which takes a quarter of a second, longer
        # than the rest of the work for a kernel. A compiled kernel needs only its runtime, and that
        # only if it makes arrays: LLVM compiles it anew in each process.
        with suppress(Exception):
            if self._counts:
                rtsys.initialize(target_context)
            found = self._load_overload(sig, target_context)
            if found is not None:
                return found
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 (a damaged pickle may raise any exception)
            with suppress(OSError):
                self.flush()  # removes the index, so that the kernel can be saved again
            found = None
        if found is None:
            settled(self._function)
        return found

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


def compiled(function: Function, **options: Any) -> Function:
    """The function as numba's, with numba's options for it; its code is kept in our folder."""
    if _CACHE_FOLDER is None:
        return _njit(**options)(settled(function))  # type: ignore[no-any-return]
    # numba chooses a function's cache as that is made. Releases without locator classes take the
    # folder, and divide it by paths.
    ours = {
        "CACHE_DIR": _CACHE_FOLDER,
        "CACHE_LOCATOR_CLASSES": f"{SourcesLocator.__module__}.{SourcesLocator.__qualname__}",
    }
    before = {name: getattr(config, name, "") for name in ours}
    try:
        for name, value in ours.items():
            setattr(config, name, value)
        kernel: Any = _njit(**options)(function)
        kernel._cache = _MendingCache(function, options.get("_nrt", True))
        return kernel  # type: ignore[no-any-return]
    finally:
        for name, value in before.items():
            setattr(config, name, value)
