"""Makes the rules that kernels take from a release's profile and a broker's settings."""

from collections.abc import Iterable

from reput.store_format.derive.dispatch import DispatchRules
from reput.store_format.derive.queue_runs import PositionRules
from reput.store_format.derive.scan import ScanRules
from reput.store_format.log.record_rules import record_rules as record_rules
from reput.store_format.release.profiles import Profile
from reput.store_format.release.settings import Settings


def scan_rules(profile: Profile, settings: Settings, batch_topics: Iterable[str]) -> ScanRules:
    """What a scan does under these settings; batch_topics: those with queue.type BatchCQ."""
    return ScanRules(
        records=record_rules(profile),
        dispatch=DispatchRules(
            split_properties=profile.split_properties,
            index=settings.builds_index,
            index_tags=profile.index_tags,
            batch_queues=profile.batch_queues,
            multi_dispatch=profile.multi_dispatch and settings.builds_further_queues,
            lmq=settings.enable_lmq,
            skips_retry=profile.multi_dispatch_skips_retry,
            skips_slash=profile.multi_dispatch_skips_slash,
            skips_delays=profile.multi_dispatch_skips_delays,
            skips_system=profile.multi_dispatch_skips_system,
            property_crc=(
                profile.property_crc
                and settings.force_verify_prop_crc
                and settings.check_crc_on_recover
            ),
            zero_property_crc=profile.zero_property_crc,
        ),
        delays=settings.delays,
        batch_topics=tuple(sorted(batch_topics)) if profile.batch_queues else (),
        check_body_crc=settings.check_crc_on_recover,
    )


def place_rules(profile: Profile) -> PositionRules:
    return PositionRules(profile.skip_lower_offsets, profile.skip_by_end)
