"""A log of which chosen messages are read in this process, into something on a local disk."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from reput.jobs.engine.exporting import Chosen
from reput.jobs.engine.outputs import Input, inputs_of, refuse_overlap
from reput.jobs.engine.plan import Plan, make_plan
from reput.jobs.engine.source_log import parts_log, told_of
from reput.jobs.engine.source_options import SourceOptions
from reput.store_format.release.settings import SettingError
from reput.store_format.storage import storage_for
from reput.store_format.storage.local import LocalStorage
from reput.udfs.export import decompress
from reput.udfs.log_batches import batches_of
from reput.udfs.log_parts import LogParts, Part

BODY_MOST = 64 << 20  # bytes of one decompressed body


class ChosenLog:
    """A store's log, what is wanted of it, and the local folder that it goes to."""

    def __init__(
        self, store: str, to: str, rocketmq: str | None, settings: Mapping[str, str], chosen: Chosen
    ) -> None:
        """Raises StoreError, of which OverlapsInput is one, SettingError, UnknownRelease."""
        storage = storage_for(store)
        self.store, self.chosen = storage.resolve(store), chosen
        if not isinstance(storage_for(to), LocalStorage):
            raise SettingError(f"--to {to}: this format goes to local disks, not to URLs")
        self.folder = LocalStorage().resolve(to)
        self.inputs: list[Input] = inputs_of(storage, self.store, settings)
        refuse_overlap(LocalStorage(), self.folder, self.inputs)
        told = told_of(storage, self.store, rocketmq, settings)
        salvages = chosen.on_damage == "salvage"
        self.plan: Plan = make_plan(storage, self.store, told, 1, None, tolerant=salvages)
        options = SourceOptions(self.store, on_damage=chosen.on_damage)
        self.log: LogParts = parts_log(self.plan, options, chosen.bodies, grows=True)

    def batches(
        self, start: int, end: int, notes: list[str], raw: bool
    ) -> Iterator[pa.RecordBatch]:
        """The chosen messages of [start, end). raw: bodies as they stand in the log."""
        chosen, wanted = self.chosen, self.chosen.wanted(self.plan)
        for number, segment in enumerate(self.log.segments):
            first, stop = max(start, segment.start), min(end, segment.end)
            if first >= stop:
                continue
            part = Part(number, first, first, stop)
            for batch in batches_of(
                self.log, part, chosen.choice, chosen.columns, wanted, notes.append
            ):
                packed = raw or not chosen.decompress
                yield batch if packed else decompress(batch, BODY_MOST)

    def ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """[start, end) by segments, in which no record reaches into the next one."""
        found = [(max(s.start, start), min(s.end, end)) for s in self.log.segments]
        return [(a, b) for a, b in found if a < b]
