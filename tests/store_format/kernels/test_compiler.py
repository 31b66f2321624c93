"""How kernels are compiled: cached by the hash of their sources, and numba left as it was."""

import runpy
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config
from numba.core.caching import FunctionCache

from reput.store_format.files.private import cache_folder, source_key
from reput.store_format.kernels import bytes as blocks
from reput.store_format.kernels import bytes as ints
from reput.store_format.kernels import compiler, jit
from reput.store_format.kernels.bytes import find_byte
from reput.store_format.kernels.compiler import SourcesLocator
from tests.processes import run_python

SETTINGS = ("CACHE_DIR", "CACHE_LOCATOR_CLASSES")


FOLDER = "/srv/reput/blocks.py"
COPY: Any = blocks.copy_bytes
FIRST: Any = blocks.first_unlike


def located(kernel: Any, file: str = FOLDER) -> SourcesLocator:
    return SourcesLocator.from_function(kernel.py_func, file)


def test_a_kernel_is_the_same_in_a_zip_differs_by_its_lines_and_lies_in_our_own_folder() -> None:
    found = [located(COPY, file) for file in (FOLDER, "/tmp/app-1/reput.zip/blocks.py")]
    assert found[0].get_disambiguator() == found[1].get_disambiguator()
    assert [each.get_source_stamp() for each in found] == ["", ""]  # no time of a file counts
    names = [located(each).get_disambiguator() for each in (COPY, FIRST)]
    assert len(set(names)) == 2
    key = source_key("reput.store_format.kernels.bytes")
    for name in names:
        assert name.startswith("reput.store_format.kernels.bytes-")
        assert name.endswith(f"-{key}")
    folder = cache_folder().path
    assert located(COPY).get_cache_path() == folder
    assert folder is None or folder.endswith("kernels")


@pytest.mark.parametrize("how", [jit.kernel, jit.inlined, jit.allocating, jit.unlocked])
def test_numbas_own_settings_are_left_as_they_were(how: Any, monkeypatch) -> None:
    def twice(number: int) -> int:
        return 2 * number

    twice.__module__ = ints.__name__  # one whose sources have a key
    for name in SETTINGS:
        monkeypatch.setattr(config, name, f"a user's {name}", raising=False)
    compiled = how(twice)
    assert [getattr(config, name) for name in SETTINGS] == [f"a user's {n}" for n in SETTINGS]
    assert compiled.py_func(3) == 6


def test_other_threads_run_beside_kernels_and_what_is_not_called_does_not_load_numba() -> None:
    options = {}
    for how in (jit.kernel, jit.inlined, jit.allocating, jit.unlocked):

        def nothing(buf: np.ndarray) -> None: ...

        nothing.__module__ = ints.__name__
        found = how(nothing).targetoptions  # type: ignore[attr-defined]
        options[how.__name__] = (found.get("nogil", False), found.get("_nrt", True))
    assert options == {
        "kernel": (True, False), "inlined": (False, False), "allocating": (False, True),
        "unlocked": (True, True),
    }  # fmt: skip
    # Processes that call no kernel, as a command's own in a rebuild, spare its quarter second.
    done = run_python(
        "-c", "import sys, reput.udfs.rebuild.scan, reput.store_format.query.counts\n"
        "from reput.store_format.kernels.crc import crc32\nprint('numba' in sys.modules)\n"
        "import numpy\nprint(crc32(numpy.zeros(70, 'u1'), 0, 70), 'numba' in sys.modules)",
    )  # fmt: skip
    assert done.stdout.split() == ["False", str(zlib.crc32(bytes(70))), "True"]


def test_what_an_inlined_kernel_names_is_made_too_and_without_a_folder_nothing_is_cached(
    monkeypatch,
) -> None:
    """numba compiles its code as a part of its caller's, here of one whose code is not kept yet."""

    def found(buf: np.ndarray) -> int:
        return find_byte(buf, 0, len(buf), 7)

    found.__module__ = ints.__name__
    assert jit.kernel(found)(np.arange(99, dtype=np.uint8)) == 7
    monkeypatch.setattr(compiler, "_CACHE_FOLDER", None)

    @jit.kernel
    def nothing() -> None: ...

    assert not isinstance(nothing._cache, FunctionCache)  # type: ignore[attr-defined]


def test_kernels_that_numba_would_not_compile_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python their reads of numbers would be calls of LLVM's."""
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="NUMBA_DISABLE_JIT"):
        runpy.run_path(str(Path(compiler.__file__)))
