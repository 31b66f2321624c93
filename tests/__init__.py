"""Tests, and what helps them."""

import tarfile
from typing import Any

if not hasattr(tarfile, "data_filter"):  # Debian 12's Python, 3.11.2; the archives are all ours
    _extractall: Any = tarfile.TarFile.extractall

    def _without_filter(archive: tarfile.TarFile, *words: Any, **named: Any) -> None:
        _extractall(archive, *words, **{k: v for k, v in named.items() if k != "filter"})

    tarfile.TarFile.extractall = _without_filter  # type: ignore[method-assign]
