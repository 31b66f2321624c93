"""Read the log up to its first damage or past all damage, depending on `on_damage`."""

from typing import BinaryIO, NamedTuple

from reput.jobs.pipeline.link import Linked
from reput.jobs.pipeline.pipeline import Pipeline
from reput.jobs.salvaging.damage_map import DamageMap, write_ranges
from reput.jobs.salvaging.damage_search import map_damage
from reput.jobs.salvaging.judge_end import judge_end
from reput.store_format.faults import SALVAGE


class LogRead(NamedTuple):
    """The log as read: its pieces, why it ends where it does, and the damage passed over."""

    linked: Linked
    reason: str
    warnings: list[str]
    damage: DamageMap | None


def read_log(job: Pipeline, on_damage: str, ranges: BinaryIO | None = None) -> LogRead:
    """Scan the log. Raises DamageFound if live records follow damage and on_damage is REFUSE."""
    if on_damage != SALVAGE:
        linked = job.scan()
        return LogRead(linked, *judge_end(job, linked, on_damage), None)
    job.check_property_crc()
    found = map_damage(job, gap_lines=ranges is not None)
    if ranges:
        write_ranges(job.staging, found, ranges)
    reason = "the end of the last live record" if found.count else "undamaged"
    return LogRead(found.linked, reason, found.all_warnings(), found)
