"""Which other releases a store may be of, where its derived files are not as the given one has."""

from collections.abc import Iterator
from dataclasses import replace

from reput.jobs.opening.plan import make_plan
from reput.jobs.pipeline.job import FoundStore
from reput.store_format.discover.clues import clues_of
from reput.store_format.discover.store import discover
from reput.store_format.discover.store_at import StoreAt
from reput.store_format.release.candidates import Has, groups, left_by, same_files
from reput.store_format.release.profiles import RELEASES

_TRIED_MOST = 3


def of_other_releases(found: FoundStore) -> Iterator[FoundStore]:
    """The same store as found by other releases that its files do not rule out, newest first.

    One of each that derive the same files; those of the given release are left out, unless the
    store is of several releases and the given one cannot be the last.
    """
    plan = found.plan
    clues = clues_of(
        plan.storage, plan.store, plan.segments, plan.settings, (plan.storage, plan.store)
    )
    has = Has(plan.settings.enable_multi_dispatch, not clues.has_keys)
    left = left_by(clues.hard) or list(RELEASES)
    other = [group[-1] for group in groups(left, has)]
    other = [each for each in other if not same_files(each, plan.profile.release, has)]
    for release in list(reversed(other))[:_TRIED_MOST]:
        at = StoreAt(plan.storage, plan.store, release, plan.discovered.settings)
        again = make_plan(
            at, discover(at, sweeps=True), found.engine.cores, found.cut.split_bytes,
            tolerant=True, even_rocksdb=True,
        )  # fmt: skip
        yield replace(found, plan=again)
