"""Unpacks the archives of test stores that are committed."""

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        # Debian 12's Python, 3.11.2, has no filters
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
