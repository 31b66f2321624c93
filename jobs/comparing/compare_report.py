"""The report of a comparison, for the console and --json."""

import json
from dataclasses import dataclass, field
from typing import Any

from reput.jobs.comparing.configs import ConfigsDiffer
from reput.jobs.comparing.messages import Found
from reput.jobs.comparing.parting import Parting
from reput.jobs.comparing.place import There
from reput.jobs.comparing.side import Side
from reput.store_format.log.groups import Epoch

SAME, BEHIND, AHEAD, PARTED, DAMAGED = "same", "behind", "ahead", "parted", "damaged"


@dataclass
class Epochs:
    """Both epoch files. point: physical offset where a slave would cut its log, -1: none, None:
    unknown.
    """

    ours: tuple[Epoch, ...] | None = None
    theirs: tuple[Epoch, ...] | None = None
    point: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def differ(self) -> bool:
        return self.ours != self.theirs


@dataclass
class Comparison:
    """One store (theirs) compared with the first store (ours). Offsets are physical."""

    ours: Side
    theirs: Side
    parting: Parting
    there: tuple[There, There] | None
    found: tuple[Found, Found]
    configs: ConfigsDiffer
    epochs: Epochs

    @property
    def at(self) -> int | None:
        """The begin of the first record that differs or that only one store has; None for none."""
        if self.there is None:
            return None
        return min(there.physical_offset for there in self.there)

    @property
    def verdict(self) -> str:
        """The relation of the other log to the first: SAME, BEHIND, AHEAD, PARTED or DAMAGED.

        DAMAGED: bytes differ, but not up to the end of either log; else PARTED.
        """
        parting = self.parting
        if not parting.spans:
            return SAME
        if not parting.unlike:
            if parting.ours and parting.theirs:
                return PARTED
            return BEHIND if parting.ours else AHEAD
        common = min(self.ours.end, self.theirs.end)
        alike_after = parting.unlike[-1][1] < common
        lacks = any(found.count("only") for found in self.found)
        return DAMAGED if alike_after and not lacks else PARTED

    @property
    def same(self) -> bool:
        """Whether nothing differs in logs and config/. The starts of the logs do not count."""
        return not (self.parting.spans or self.configs or self.epochs.differ)

    def as_json(self) -> dict[str, Any]:
        """The content of --json for one pair; `ours` is the first store."""
        return {
            "ours": self.ours.path,
            "theirs": self.theirs.path,
            "same": self.same,
            "log": self.verdict,
            "at": self.at,
            "first_byte": self.parting.first,
            "unlike": self.parting.unlike,
            "only_ours": self.parting.ours,
            "only_theirs": self.parting.theirs,
            "there": None if self.there is None else [each._asdict() for each in self.there],
            "messages": [
                {**found.as_json(), "first": [json.loads(line) for line in found.first]}
                for found in self.found
            ],
            "epochs": {
                "ours": self.epochs.ours, "theirs": self.epochs.theirs, "point": self.epochs.point,
            },
            "topics": vars(self.configs.topics),
            "groups": vars(self.configs.groups),
            "offsets": [each._asdict() for each in self.configs.offsets],
            "delays": self.configs.delays,
            "notes": [*self.configs.notes, *self.epochs.notes],
        }  # fmt: skip


@dataclass
class CompareReport:
    """The comparison of several stores with the first one."""

    sides: list[Side]
    pairs: list[Comparison]
    seconds: float = 0.0

    @property
    def same(self) -> bool:
        """Whether no store differs from the first."""
        return all(pair.same for pair in self.pairs)

    def as_json(self) -> dict[str, Any]:
        """The content of --json."""
        return {
            "same": self.same,
            "stores": [
                {
                    "store": side.path,
                    "start": side.start,
                    "end": side.end,
                    "segment_bytes": side.plan.splits.segment_bytes,
                    "in_use": side.plan.in_use,
                    "tail": None if side.tail is None else side.tail._asdict(),
                    "notes": side.notes,
                }
                for side in self.sides
            ],
            "compared": [pair.as_json() for pair in self.pairs],
            "seconds": self.seconds,
        }
