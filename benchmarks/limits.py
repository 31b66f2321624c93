"""Rows whose goal is a limit: what a bare program takes that does only that, beside ours."""

import os
import shutil
import subprocess
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import many_queues
from benchmarks.further_rows import against
from benchmarks.state import same_state
from benchmarks.stores import (
    USUAL,
    bench,
    costs,
    digests,
    log_bytes,
    make_store,
    median,
    ours,
    output_folder,
    said,
    theirs,
)
from tests.processes import package_source
from tests.rocketmq.driver import remove_derived

Row = dict[str, Any]

QUEUES, FEWER_QUEUES, MESSAGES = 200_000, 16_000, 2_000_000
_FEW, _MANY = 1 << 8, 1 << 12  # splits


def queues(runs: int) -> Row:
    """200,000 queues, beside two processes that only make their folders and files: no rebuild can
    take less.

    RocketMQ itself cannot have them: it keeps each file open and maps it, more than Linux lets a
    process (see `fewer_queues`). Nothing is removed before the last run (`bare_files` says why).
    """
    store = many_queues.make_store(QUEUES, MESSAGES)
    file_bytes = f"mappedFileSizeConsumeQueue={many_queues.QUEUE_FILE_BYTES}"
    bare, rebuilds, made = [], [], []
    for number in range(runs):
        same_state(store)
        files = said(bench("bare_files", "--keep", "--queues", str(QUEUES)))
        bare.append(round(files["make"] + files["sync"], 1))
        same_state(store)
        output = output_folder().with_name(f"output-{number}")
        rebuilds.append(ours(store, output, "--set", file_bytes))
        made += [Path(files["folder"]), output]
    remove_together(made)
    return {
        "messages": MESSAGES,
        "queues": QUEUES,
        "log_bytes": log_bytes(store),
        "bare_seconds": median(bare),
        "reput_seconds": median([one.run.seconds for one in rebuilds]),
        **costs(rebuilds),
    }


def fewer_queues(runs: int) -> Row:
    """As many queues as RocketMQ can have where a process may open 20,000 files."""
    store, output = many_queues.make_store(FEWER_QUEUES, MESSAGES), output_folder()
    settings = ("--set", f"mappedFileSizeConsumeQueue={many_queues.QUEUE_FILE_BYTES}")
    their_seconds, rebuilds, same = [], [], True
    for _ in range(runs):
        same_state(store)
        their_seconds.append(theirs(store, *settings).seconds)
        wanted = digests(store)
        remove_derived(store)
        same_state(store)
        rebuilds.append(ours(store, output, *settings))
        same = same and digests(output) == wanted
        shutil.rmtree(output)
    return {
        "messages": MESSAGES,
        "queues": FEWER_QUEUES,
        "log_bytes": log_bytes(store),
        **against(median(their_seconds), median([one.run.seconds for one in rebuilds])),
        **costs(rebuilds),
        "same_bytes": same,
    }


def remove_together(folders: list[Path]) -> None:
    """Remove hundred thousands of files: one process alone waits minutes for the disk."""
    below = [os.fspath(path) for folder in folders for path in folder.glob("*/*")]
    words = [["rm", "-rf", "--", *below[at : at + 100]] for at in range(0, len(below), 100)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(partial(subprocess.run, check=True), words))
    for folder in folders:
        shutil.rmtree(folder)


def a_split_more(runs: int) -> Row:
    """Milliseconds of processor time that one more split costs, all processes together."""
    bench("many_splits", "--child", str(_FEW))  # compiles the kernels
    cpu = {
        splits: median([bench("many_splits", "--child", str(splits)).cpu for _ in range(runs)])
        for splits in (_FEW, _MANY)
    }
    more = 1000 * (cpu[_MANY] - cpu[_FEW]) / (_MANY - _FEW)
    return {"few_cpu_seconds": cpu[_FEW], "many_cpu_seconds": cpu[_MANY],
            "split_more_ms": round(more, 2)}  # fmt: skip


def installed(runs: int) -> Row:
    """Installed by pip into a new environment with a cache of its own: the second run and later
    ones, beside the clone's. The first one, which compiles kernels, is listed apart.
    """
    store, output = make_store(USUAL), output_folder()
    folder = Path(tempfile.mkdtemp(prefix="reput-installed-"))
    try:
        command, env = (_install(folder),), _environment(folder)
        seconds, clone = [], []
        for _ in range(2):  # the first compiles, the second may still be preparing
            same_state(store)
            seconds.append(ours(store, output, command=command, env=env).run.seconds)
        ours(store, output)  # compiles the kernels
        for _ in range(runs):
            same_state(store)
            seconds.append(ours(store, output, command=command, env=env).run.seconds)
            same_state(store)
            clone.append(ours(store, output).run.seconds)
        shutil.rmtree(output)
    finally:
        shutil.rmtree(folder)
    return {
        **USUAL._asdict(),
        "log_bytes": log_bytes(store),
        "first_seconds": round(seconds[0], 2),
        "second_seconds": round(seconds[1], 2),
        "reput_seconds": median(seconds[2:]),
        "clone_seconds": median(clone),
    }


def _install(folder: Path) -> str:
    """A new environment with this checkout's wheel; its reput."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    source = package_source(folder / "source")
    pip = [python, "-m", "pip", "install", "--quiet", f"{source}[local]"]
    subprocess.run(pip, check=True, stdout=subprocess.DEVNULL)
    return str(folder / "venv" / "bin" / "reput")


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "REPUT_CACHE": str(folder / "cache")}
