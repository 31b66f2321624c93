"""RocketMQ's own recovery of the same damaged logs: one JVM, a store after the other."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.reliability.derived import Wrong, flipped
from tests.reliability.hostile import Hostile
from tests.reliability.inputs import VERSION, Input, Small
from tests.reliability.outcome import Outcome
from tests.rocketmq.driver import Driver, JobFailedError
from tests.rocketmq.puts import derived

_STORES_A_JVM = 400  # each leaves maps and threads behind
_QUEUES = ("consumequeue", "batchconsumequeue")
_SECONDS = 60


class RocketMQ:
    """Recovers each log as after a crash, with all derived files gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._driver = Driver(VERSION, jvm=("-Xmx256m",))
        self._stores = 0

    def close(self) -> None:
        self._driver.close()

    def recover(self, store: Small, given: Input | None = None) -> Outcome:
        """What is left of a log in one segment."""

        def once() -> Outcome:
            root = self._fresh()
            self._write(root, given.segment if given else store.segment)
            return self._derive(root, store.settings)

        return _again_if_failed(once)

    def hostile(self, given: Hostile) -> tuple[Outcome, bool]:
        """What becomes of a hostile store; whether it wrote outside of its folder."""
        root = self._fresh()
        given.make(root)
        outcome = self._derive(root, given.settings)
        top = self._folder / "deep"
        return outcome, any(root not in path.parents and path not in (root, *root.parents)
                            for path in top.rglob("*"))  # fmt: skip

    def closed(self, store: Small) -> dict[str, bytes]:
        """All derived files, and the checkpoint, of the undamaged log after a clean stop."""
        root = self._fresh()
        self._write(root, store.segment)
        outcome = self._derive(root, store.settings)
        assert not outcome.failed, outcome.failed
        return self._all(root)

    def reopen(self, store: Small, files: Mapping[str, bytes], wrong: Wrong) -> str:
        """A store with one file's bit flipped, opened and closed again: right, wrong or fails.

        After a clean stop; for the checkpoint, which is read for that, after a crash. right:
        queues and index are in the end as they were."""

        def once() -> Outcome:
            root = self._fresh()
            self._write(root, store.segment)
            for path, content in files.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                made = flipped(content, wrong.bit) if path == wrong.path else content
                (root / path).write_bytes(made)
            mode = "crash" if wrong.path == "checkpoint" else "as-is"
            return self._derive(root, store.settings, mode)

        outcome = _again_if_failed(once)
        if outcome.failed:
            return "fails"
        after, before = _stripped(outcome.files), _stripped(_numbered(files))
        return "right" if after == before else "wrong"

    def _write(self, root: Path, segment: bytes) -> None:
        (root / "commitlog").mkdir(parents=True)
        (root / "commitlog" / f"{0:020d}").write_bytes(segment)

    def _all(self, root: Path) -> dict[str, bytes]:
        paths = [path for folder in (*_QUEUES, "index") for path in (root / folder).rglob("*")]
        return {str(path.relative_to(root)): path.read_bytes()
                for path in (*paths, root / "checkpoint") if path.is_file()}  # fmt: skip

    def _fresh(self) -> Path:
        top = self._folder / "deep"
        shutil.rmtree(top, ignore_errors=True)
        self._stores += 1
        if self._stores % _STORES_A_JVM == 0:
            self._driver.kill()
        root = top / "a" / "b" / "c" / "d" / "store"
        root.parent.mkdir(parents=True)
        return root

    def _derive(self, root: Path, settings: Mapping[str, object], mode: str = "crash") -> Outcome:
        try:
            answer = self._driver.derive(root, settings, {}, mode, may_refuse=True,
                                         seconds=_SECONDS, timeout=2 * _SECONDS)  # fmt: skip
        except (JobFailedError, TimeoutError) as error:
            self._driver.kill()
            why = str(error).split("\n")[0].removeprefix(f"RocketMQ {VERSION}, derive: ")
            return Outcome(0, {}, failed=why or "failed")
        if answer.get("refused"):
            return Outcome(0, {}, failed="refuses to load the store")
        return Outcome(int(answer["dispatched"]), derived(root))


def _again_if_failed(once: Callable[[], Outcome]) -> Outcome:
    """A failure counts if it comes twice: a machine that was held up makes one of its own."""
    outcome = once()
    return once() if outcome.failed else outcome


def _numbered(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Index files by their order, no checkpoint: as `derived` has them."""
    index = sorted(path for path in files if path.startswith("index/"))
    return {f"index/{index.index(path)}" if path in index else path: content
            for path, content in files.items() if "/" in path}  # fmt: skip


def _stripped(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {path: content.rstrip(b"\0") for path, content in files.items()}


@contextmanager
def rocketmq() -> Iterator[RocketMQ]:
    """In a folder of its own, in memory where the machine has such a file system."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="reput-reliability-", dir=memory if memory.is_dir() else None
    ) as folder:
        engine = RocketMQ(Path(folder))
        try:
            yield engine
        finally:
            engine.close()
