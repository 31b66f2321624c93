"""All that a wheel is built from."""

import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent


def package_source(to: Path) -> Path:
    """Copy all that a wheel is built from; returns `to`."""
    for name in ("reput", "jobs", "udfs", "broker", "store_format"):
        shutil.copytree(ROOT / name, to / name, symlinks=True)
    (to / "docs").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "docs/reput.1"):
        shutil.copy(ROOT / name, to / name)
    return to
