"""Makes dist/reput.zip, the code as spark-submit --py-files takes it: no wheel, no dependencies.

The same sources give the same bytes.
"""

import os
import sys
import zipfile
from pathlib import Path

PACKAGE = "reput"
SUFFIXES = {".py", ".typed", ".properties", ".js", ".css", ".txt"}


def make_zip(root: Path, target: Path) -> None:
    """Write the package under `root` to `target`, which is replaced whole."""
    files = sorted(
        Path(folder) / name
        for folder, _, names in os.walk(root / PACKAGE, followlinks=True)
        for name in names
        if Path(name).suffix in SUFFIXES and not folder.endswith("__pycache__")
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_suffix(".tmp")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    unfinished.replace(target)


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else root / "dist" / "reput.zip"
    make_zip(root, target)
    print(target)
