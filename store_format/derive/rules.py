"""Makes the rules that kernels take from a release's profile and a broker's settings."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from reput.store_format.derive.dispatch import DispatchRules
from reput.store_format.derive.queue_runs import PositionRules
from reput.store_format.derive.scan import ScanRules
from reput.store_format.log.rules import NO_HEADS
from reput.store_format.log.rules import record_rules as record_rules
from reput.store_format.release.profiles import Era, Profile, profile
from reput.store_format.release.settings import Settings


def scan_rules(
    rules: Profile, settings: Settings, batch_topics: Iterable[str], eras: Sequence[Era] = (),
    again: Iterable[tuple[int, int]] = (), heads_from: int = NO_HEADS,
) -> ScanRules:  # fmt: skip
    """What a scan does under these settings. batch_topics: topics with queue.type BatchCQ. eras:
    the releases that the store's broker had; `rules` is the profile of the last. again: as in
    ScanRules. heads_from: as in RecordRules.
    """
    newest = _dispatch_rules(rules, settings)
    older = (
        (after.start, _as_written(_dispatch_rules(profile(era.release), settings), newest))
        for era, after in pairwise(eras)
    )
    return ScanRules(
        records=record_rules(rules, heads_from),
        dispatch=newest,
        delays=settings.delays,
        batch_topics=tuple(sorted(batch_topics)) if rules.batch_queues else (),
        check_body_crc=settings.check_crc_on_recover,
        older=tuple(older),
        again=tuple(again),
    )


def rocksdb_rules(rules: ScanRules, of: Profile, settings: Settings) -> ScanRules:
    """As `rules` for RocksDB: rows have times, LMQ by enableLmq too (RocksDBConsumeQueueStore)."""
    further = of.multi_dispatch and (settings.enable_multi_dispatch or settings.enable_lmq)
    return replace(rules, times=True, dispatch=rules.dispatch._replace(multi_dispatch=further))


def _as_written(rules: DispatchRules, newest: DispatchRules) -> DispatchRules:
    """Rules of an older release, but with what the newest release demands of the records."""
    return rules._replace(
        property_crc=newest.property_crc, zero_property_crc=newest.zero_property_crc,
        batch_queues=newest.batch_queues,
    )  # fmt: skip


def _dispatch_rules(rules: Profile, settings: Settings) -> DispatchRules:
    return DispatchRules(
        split_properties=rules.split_properties,
        index=settings.builds_index,
        index_tags=rules.index_tags,
        batch_queues=rules.batch_queues,
        multi_dispatch=rules.multi_dispatch and settings.builds_further_queues,
        lmq=settings.enable_lmq,
        skips_retry=rules.multi_dispatch_skips_retry,
        skips_slash=rules.multi_dispatch_skips_slash,
        skips_delays=rules.multi_dispatch_skips_delays,
        skips_system=rules.multi_dispatch_skips_system,
        property_crc=(
            rules.property_crc and settings.force_verify_prop_crc and settings.check_crc_on_recover
        ),
        zero_property_crc=rules.zero_property_crc,
    )


def place_rules(rules: Profile) -> PositionRules:
    return PositionRules(rules.skip_lower_offsets, rules.skip_by_end)
