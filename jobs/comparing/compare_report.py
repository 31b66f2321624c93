"""What a comparison found, as the console shows it and --json prints it."""

import json
from dataclasses import dataclass, field
from typing import Any

from reput.jobs.comparing.configs import ConfigsDiffer
from reput.jobs.comparing.messages import Found
from reput.jobs.comparing.parting import Parting
from reput.jobs.comparing.place import There
from reput.jobs.comparing.side import Side
from reput.store_format.log.epochs import Epoch

SAME, BEHIND, AHEAD, PARTED, DAMAGED = "same", "behind", "ahead", "parted", "damaged"


@dataclass
class Epochs:
    """Both epoch files; `point`: where a slave would cut its log, -1: nowhere, None: not known."""

    ours: tuple[Epoch, ...] | None = None
    theirs: tuple[Epoch, ...] | None = None
    point: int | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def differ(self) -> bool:
        return self.ours != self.theirs


@dataclass
class Comparison:
    """One store compared with the first; `ours` is the first one's. Offsets are physical."""

    ours: Side
    theirs: Side
    parting: Parting
    there: tuple[There, There] | None
    found: tuple[Found, Found]
    configs: ConfigsDiffer
    epochs: Epochs

    @property
    def at(self) -> int | None:
        """Where the first record begins that is not the same on both, or that only one has; None
        where there is none.
        """
        if self.there is None:
            return None
        return min(there.physical_offset for there in self.there)

    @property
    def verdict(self) -> str:
        """How the other log stands to the first: one of SAME, ...

        Damaged: bytes differ, but not up to where one of them ends. Parted: they do.
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
        """Nothing differs, in the logs or in config/. Where logs begin does not count."""
        return not (self.parting.spans or self.configs or self.epochs.differ)

    def as_json(self) -> dict[str, Any]:
        """What --json prints of one pair; `ours` is the first store."""
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
    """What a comparison of several stores with the first one found."""

    sides: list[Side]
    pairs: list[Comparison]
    seconds: float = 0.0

    @property
    def same(self) -> bool:
        """Whether no store differs from the first."""
        return all(pair.same for pair in self.pairs)

    def as_json(self) -> dict[str, Any]:
        """What --json prints."""
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
