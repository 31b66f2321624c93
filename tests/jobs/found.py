"""A store in memory as a job finds it, and the job on it, whose steps a test takes by itself."""

from typing import Any

from reput.jobs.pipeline.job import FoundStore, find_store
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.store_format.discover.purpose import LOOK, Purpose
from reput.store_format.discover.store import StoreAt
from reput.udfs.staging import Staging
from tests.in_process import STORE, Session, as_text, storage_of
from tests.logs import Log
from tests.memory_storage import MemoryStorage

STAGING = "staging"


def found(log: Log, storage: MemoryStorage | None = None, cut: Cut | None = None,
          purpose: Purpose = LOOK, **more: Any) -> FoundStore:  # fmt: skip
    """The store of this log, found by its release and settings."""
    at = StoreAt(storage or storage_of(log), STORE, log.version, as_text(log.settings))
    return find_store(Session(), at, purpose, cut=cut, **more)


def job_of(found_store: FoundStore) -> Pipeline:
    """The job with staging in the store's own storage."""
    storage: Any = found_store.plan.storage
    storage.make_folders(STAGING)
    return found_store.job(Staging(storage, STAGING))
