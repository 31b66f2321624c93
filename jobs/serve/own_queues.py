"""Derives queues and index for a store that has none, or whose own are not to be served.

`reput rebuild` derives them into a temporary folder, which is removed when the server ends.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from reput.jobs.outputs.output import inputs_of
from reput.jobs.outputs.publish import Temporary, temporary_folder
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import SALVAGE, StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.protocol import listed
from reput.store_format.names import BATCH_CONSUME_QUEUE, CONSUME_QUEUE
from reput.store_format.query.reader import NEWEST
from reput.store_format.release.profiles import UnknownRelease

_REPUT = (
    "from reput.jobs.serve.parent_watch import end_with_parent; end_with_parent(); "
    "from reput.jobs.cli import main; raise SystemExit(main())"
)
_LEFT_OUT = 1  # exit code of a rebuild that left out damage
_KILL_SECONDS = 10


def has_queues(store: str) -> bool:
    """Whether a store has a folder of queues with anything in it."""
    storage = storage_for(store)
    path = storage.resolve(store)
    folders = (CONSUME_QUEUE, BATCH_CONSUME_QUEUE)
    return any(listed(storage, f"{path}/{folder}") for folder in folders)


@contextmanager
def derived_anew(
    store: str, rocketmq: str | None, settings: Mapping[str, str], salvage: bool,
    tell: Callable[[str], None],
) -> Iterator[str]:  # fmt: skip
    """Yield a set of derived files, which is removed after the block. Raises StoreError.

    salvage: skip damage in the log; else damage that live records follow is refused.
    """
    storage = storage_for(store)
    local = LocalStorage()
    inputs = tuple(inputs_of(storage, storage.resolve(store), settings))
    with temporary_folder(local, tempfile.gettempdir(), Temporary.SERVE, inputs) as staging:
        made = f"{staging.folder}/set"
        release = rocketmq or _release(store, settings, tell)
        words = ["rebuild", store, "--output", made, "--rocketmq", release]
        words += [word for name in settings for word in ("--set", f"{name}={settings[name]}")]
        if salvage:
            words += ["--on-damage", SALVAGE]
        tell(f"queues and index are derived from the log, in {made}")
        _rebuild(words, salvage)
        yield made


def _release(store: str, settings: Mapping[str, str], tell: Callable[[str], None]) -> str:
    try:
        return discover(store_at(store, settings=settings)).release
    except UnknownRelease:
        tell(f"the log does not tell its release: it is read as {NEWEST} would (--rocketmq)")
        return NEWEST


def _rebuild(words: list[str], salvage: bool) -> None:
    """Run `reput rebuild`, which reports on standard error."""
    command = [sys.executable, "-c", _REPUT, *words]
    # the child's standard input closes when this process ends, even by SIGKILL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr) as running:
        try:
            code = running.wait()
        except BaseException:
            running.terminate()
            try:
                running.wait(_KILL_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
            raise
    if code and not (salvage and code == _LEFT_OUT):
        more = "" if salvage else "; --salvage serves past damage"
        raise StoreError(f"queues and index could not be derived (rebuild ended with {code}){more}")
