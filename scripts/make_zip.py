"""Makes dist/reput.zip, the code as spark-submit --py-files takes it: no wheel, no dependencies.

The same sources give the same bytes. Several may make it at once. In a checkout that the user
cannot write it is made in the user's cache. Prints where it is.
"""

import hashlib
import os
import sys
import tempfile
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
    handle, unfinished = tempfile.mkstemp(".tmp", target.name, target.parent)
    try:
        with open(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for path in files:
                entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), (1980, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes())
        os.chmod(unfinished, 0o644)  # executors of other users read it
        os.replace(unfinished, target)
    except BaseException:
        os.unlink(unfinished)
        raise


def in_cache(root: Path) -> Path:
    """Where the zip of this checkout is if the checkout cannot be written."""
    cache = os.environ.get("REPUT_CACHE") or Path.home() / ".cache" / "reput"
    return Path(cache) / hashlib.sha256(bytes(root)).hexdigest()[:12] / "reput.zip"


if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    targets = [root / "dist" / "reput.zip", in_cache(root)]
    if len(sys.argv) > 1:
        targets = [Path(sys.argv[1])]
    for target in targets:
        try:
            make_zip(root, target)
        except OSError as error:
            if target is targets[-1]:
                sys.exit(f"make_zip.py: {target}: {error.strerror}")
        else:
            print(target)
            break
