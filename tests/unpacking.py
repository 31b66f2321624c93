"""Packs and unpacks the archives of test stores that are committed."""

import lzma
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        # Debian 12's Python, 3.11.2, has no filters
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)


def pack(
    archive: Path, paths: Iterable[tuple[Path, str]], left_out: Callable[[str], bool] | None = None
) -> None:
    """Paths with their names in the archive, folders with all that is in them but the files whose
    names are left out: small, the same bytes each time, nothing of the machine that made it."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return None if left_out and left_out(member.name.rpartition("/")[2]) else member

    with lzma.open(archive, "wb", preset=9) as packed:  # noqa: SIM117
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, name in paths:
                tar.add(path, name, filter=plain)
