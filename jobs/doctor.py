"""`reput doctor`: whether this machine has what reput needs, and what is slow on it and why."""

import argparse
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from importlib import metadata
from typing import NamedTuple

from reput import __version__
from reput.jobs.console.options import DONE, USAGE, show
from reput.jobs.console.voice import add_output

_GB = 1_000_000_000
_LITTLE_DISK, _LITTLE_MEMORY = 2 * _GB, 3 * _GB
_WANTED = "only --engine spark wants it:"
_EXTRAS = (("botocore", "s3"), ("argcomplete", "completion"), ("rocksdict", "rocksdb"))


class Checkup(NamedTuple):
    """The result of one check. state: ok, slow (it works, but could be faster) or bad."""

    what: str
    state: str
    found: str
    advice: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """\
examples:
  reput doctor
  reput doctor --json
"""
    add_output(parser)


def look() -> list[Checkup]:
    """Run all checks, without any change and without starting Spark."""
    return [_python(), _pyspark(), _java(), _kernels(), *_disks(), _memory(), *_extras()]


def run(arguments: argparse.Namespace) -> int:
    """Run and report all checks: 0; 2 if something is missing that commands need."""
    looked = look()
    fine = all(each.state != "bad" for each in looked)
    lines = [f"reput {__version__} on {platform.platform()}"]
    for each in looked:
        lines.append(f"  {each.state:5} {each.what:9} {each.found}")
        lines += [f"        -> {each.advice}"] if each.advice else []
    whole = {"fine": fine, "looked": [e._asdict() for e in looked]}
    show(arguments, whole, "\n".join(lines), good=fine)
    return DONE if fine else USAGE


def _python() -> Checkup:
    version = platform.python_version()
    fitting = (3, 11) <= sys.version_info[:2] <= (3, 13)
    advice = "" if fitting else "Python 3.11 to 3.13 are tried; others are not"
    return Checkup("Python", "ok" if fitting else "slow", f"{version}, {sys.executable}", advice)


def _pyspark() -> Checkup:
    try:
        return Checkup("PySpark", "ok", metadata.version("pyspark"))
    except metadata.PackageNotFoundError:
        return Checkup("PySpark", "ok", f"not installed: {_WANTED} pip install 'reput[spark]'")


def _java() -> Checkup:
    """The check of Java, which is only needed if PySpark is installed."""
    from reput.jobs.engines.java import NoJavaError, find_java_home

    try:
        java = find_java_home()
    except NoJavaError as error:
        if importlib.util.find_spec("pyspark") is None:
            return Checkup("Java", "ok", f"none: {_WANTED} pip install 'reput[java]'")
        return Checkup("Java", "bad", "none that Spark runs on", str(error))
    return Checkup("Java", "ok", f"{java.version}, {java.home}")


def _kernels() -> Checkup:
    from reput.store_format.files.private import cache_folder, has_kernels

    kept = cache_folder()
    if kept.path is None:
        return Checkup(
            "kernels", "slow", "compiled anew at each start: " + "; ".join(kept.refused),
            "set REPUT_CACHE to a folder that only you can change",
        )  # fmt: skip
    if not has_kernels(kept.path):
        return Checkup("kernels", "slow", "the first run compiles them (20 s)", "reput warm")
    made = sum(name.endswith(".nbc") for name in os.listdir(kept.path))
    return Checkup("kernels", "ok", f"{made} compiled, {kept.path}")


def _disks() -> list[Checkup]:
    """The check of the folder in which check and verify derive files."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    found = f"{free / _GB:,.1f} GB free in {folder}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return [Checkup("staging", "bad", f"{folder} cannot be written to", "set TMPDIR")]
    if free < _LITTLE_DISK:
        advice = "check and verify derive all files there: --staging or TMPDIR names another"
        return [Checkup("staging", "slow", found, advice)]
    return [Checkup("staging", "ok", found)]


def _memory() -> Checkup:
    cores = len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = f"{cores} cores, {total / _GB:,.1f} GB of memory"
    if total < _LITTLE_MEMORY:
        return Checkup("machine", "slow", found, "3 GB or more: Spark's JVM alone takes 1 GB")
    if cores < 2:
        return Checkup("machine", "slow", found, "reading is spread over all cores: one is few")
    return Checkup("machine", "ok", found)


def _extras() -> list[Checkup]:
    found = []
    for package, extra in _EXTRAS:
        try:
            found.append(Checkup(extra, "ok", f"{package} {metadata.version(package)}"))
        except metadata.PackageNotFoundError:
            found.append(Checkup(extra, "ok", f"not installed: pip install 'reput[{extra}]'"))
    return found
