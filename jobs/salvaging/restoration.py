"""Restores fields of damaged records from witnesses, and reads the store with these fields."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from reput.jobs.salvaging.damage_map import DamageMap, all_ranges, read_places, segment_of
from reput.store_format.damage.ranges import Damage, DamageKind
from reput.store_format.damage.repair import (
    Patch,
    Testimony,
    by_checksum,
    by_testimony,
    magic,
    own_place,
    plain,
)
from reput.store_format.damage.resync import Parts, Prover
from reput.store_format.faults import Fault
from reput.store_format.files.adapters import Overlay, Patched
from reput.store_format.layouts import PROPERTIES_LENGTH, RECORD_AT
from reput.store_format.log.records import topic_length_bytes
from reput.store_format.log.segments import Segment

if TYPE_CHECKING:
    from reput.jobs.opening.plan import Plan
    from reput.jobs.pipeline.pipeline import Pipeline

_MOST_RESTORED = 10_000  # records examined
_MOST_BYTES = 1 << 16  # of a record, as each of its bits is flipped and the checksum tried
_BY_LOG = (Fault.PROPERTY_CRC, Fault.BAD_MAGIC, Fault.PLACE)


def restorations(job: "Pipeline", found: DamageMap) -> list[Patch]:
    """A patch for each field that a witness knows, in the log's order."""
    by_place: dict[int, Damage | Testimony] = {}
    for damage in (*all_ranges(job.staging, found), *found.strays):
        by_log = damage.fault in _BY_LOG and damage.kind != DamageKind.CONTENT
        if (by_log or damage.fault == Fault.KEPT_OUT) and len(by_place) < _MOST_RESTORED:
            by_place[damage.offset] = damage
    for each in found.testimony[:_MOST_RESTORED]:
        by_place[each.place] = each
    return list(_patches(job, found, by_place))


def _patches(
    job: "Pipeline", found: DamageMap, by_place: dict[int, Damage | Testimony]
) -> Iterator[Patch]:
    held: Segment | None = None
    for place, segment, read in read_places(job.plan.storage, found, sorted(by_place)):
        if segment != held:
            end, held = segment.start + found.segment_bytes, segment
            prover = Prover(read, segment.start, end, job.rules.records)
        parts = prover.lengths(place)
        if parts is not None and parts.size <= _MOST_BYTES:
            record = prover.bytes_at(place, parts.size)
            behind = prover.bytes_at(place + parts.size, RECORD_AT.sysFlag)
            yield from _of(by_place[place], record, parts, behind)


def _of(said: Damage | Testimony, record: bytes, parts: Parts, behind: bytes) -> list[Patch]:
    if isinstance(said, Testimony):
        at = parts.body_at - said.place + parts.body_length + topic_length_bytes(parts.magic)
        end = len(record) - parts.properties_length - PROPERTIES_LENGTH
        return by_testimony(said, record, at, record[at:end])
    place = said.offset
    if said.fault == Fault.PROPERTY_CRC:
        patch = by_checksum(place, record, parts.body_at - place, parts.body_length)
    elif said.fault == Fault.BAD_MAGIC:
        patch = magic(place, record[RECORD_AT.magic : RECORD_AT.magic + 4])
    elif said.fault == Fault.PLACE:
        raw = record[RECORD_AT.physicalOffset : RECORD_AT.sysFlag]
        patch = own_place(place, raw, parts.size, behind[RECORD_AT.physicalOffset :])
    else:
        raw = record[RECORD_AT.sysFlag : RECORD_AT.bornTimestamp]
        patch = plain(place, raw, "the queue that misses it")
    return [patch] if patch else []


def restored(plan: "Plan", found: DamageMap, patches: list[Patch]) -> "Plan":
    """The plan with a storage that reads the patched fields."""
    overlays: dict[str, list[Overlay]] = {}
    for patch in patches:
        segment = segment_of(found.segments, found.segment_bytes, patch.at)
        assert segment is not None
        overlay = Overlay(patch.at - segment.start, patch.now)
        overlays.setdefault(segment.path, []).append(overlay)
    return replace(plan, storage=Patched(plan.storage, overlays))
