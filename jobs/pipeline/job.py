"""Opens a job: finds a store, and works on it in a staging folder."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from reput.jobs.engines.engine import Engine
from reput.jobs.opening.plan import Plan, make_plan
from reput.jobs.outputs import publish
from reput.jobs.outputs.output import Output, SetKind, inputs_of
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import Purpose
from reput.store_format.discover.store import Discovered, StoreAt, discover
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.folder import Place
from reput.store_format.files.protocol import Storage
from reput.store_format.files.queue_logs import QueueLog
from reput.store_format.notes import Progress
from reput.udfs.staging import Staging


@dataclass(frozen=True)
class FoundStore:
    """A store whose log has not been read, with the engine and options of the work on it."""

    engine: Engine
    plan: Plan
    inputs: tuple[Place, ...]  # paths at which nothing may be written
    cut: Cut
    progress: Progress
    started: float  # of time.monotonic

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def job(self, staging: Staging) -> Pipeline:
        return Pipeline(self.engine, self.plan, staging, self.cut, self.progress)

    def output(
        self, path: str, kind: SetKind, replace: bool | None, storage: Storage | None
    ) -> Output:
        """The output of a set. storage: None to choose it by the path or URL."""
        storage = storage or storage_for(path, not self.engine.one_machine)
        return Output(storage, storage.resolve(path), kind, replace, self.inputs)

    @contextmanager
    def publishing(self, target: Output) -> Iterator[tuple[Pipeline, list[str]]]:
        """Yield (the job with staging beside the target, paths of removed leftovers).

        Raises StoreError or OSError if nothing may be published at the target.
        """
        target.check()
        cleaned = publish.remove_leftovers(target, self.inputs)
        with publish.staging_folder(*publish.beside(target)) as staging:
            yield self.job(staging), cleaned

    @contextmanager
    def temporarily(
        self,
        prefix: publish.Temporary,
        folder: str | None = None,
        storage: Storage | None = None,
        also: Iterable[Place] = (),
    ) -> Iterator[Pipeline]:
        """Yield the job with staging in `folder`, or in a temporary one. also: further inputs."""
        folder = folder or tempfile.gettempdir()
        storage = storage or storage_for(folder)
        with publish.temporary_folder(
            Place(storage, folder), prefix, (*self.inputs, *also)
        ) as staging:
            yield self.job(staging)


def find_store(
    engine: Engine,
    at: StoreAt,
    purpose: Purpose,
    *,
    cut: Cut | None = None,
    progress: Progress | None = None,
    discovered: Discovered | None = None,
    assume_names: bool = False,
    remade: str = "",
) -> FoundStore:
    """List and check a store. cut, progress, discovered: None for the default.

    assume_names: as for make_plan.
    remade: which records the queues of a topic have that was deleted and made again (Lives).
    Raises StoreError, SettingError, UnknownRelease.
    """
    started = time.monotonic()
    if isinstance(at.storage, QueueLog) and not purpose.queue_logs:
        raise StoreError(
            f"{at.path}: is one queue's log, from which no store's files are derived: query, "
            "export, stats, compare and verify read it"
        )
    cut = cut or Cut()
    discovered = discovered or discover(at, purpose)
    plan = make_plan(at, discovered, purpose, engine.cores, cut.split_bytes, assume_names)
    plan = replace(plan, remade=remade)
    inputs = tuple(inputs_of(at.folder, at.settings))
    return FoundStore(engine, plan, inputs, cut, progress or Progress(), started)
