"""A log of which chosen messages are read, and the folder that they go to."""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from reput.jobs.engine.exporting import Chosen
from reput.jobs.engine.outputs import Input, inputs_of, refuse_overlap
from reput.jobs.engine.plan import Plan, make_plan
from reput.jobs.engine.source_log import parts_log, told_of
from reput.jobs.engine.source_options import SourceOptions
from reput.store_format.storage import storage_for
from reput.store_format.storage.protocol import Storage
from reput.udfs.export import ChosenMessages
from reput.udfs.log_parts import LogParts, Part


class ChosenLog:
    """A store's log, what is wanted of it, and the folder, by path or URL, that it goes to."""

    def __init__(
        self, store: str, to: str, rocketmq: str | None, settings: Mapping[str, str], chosen: Chosen
    ) -> None:
        """Raises StoreError, of which OverlapsInput is one, SettingError, UnknownRelease,
        WrongTags, WrongExpression.
        """
        storage = storage_for(store)
        self.store, self.chosen = storage.resolve(store), chosen
        self.target: Storage = storage_for(to)
        self.folder = self.target.resolve(to)
        self.inputs: list[Input] = inputs_of(storage, self.store, settings)
        refuse_overlap(self.target, self.folder, self.inputs)
        told = told_of(storage, self.store, rocketmq, settings)
        salvages = chosen.on_damage == "salvage"
        self.plan: Plan = make_plan(storage, self.store, told, 1, None, tolerant=salvages)
        self._wanted = chosen.wanted(self.plan)  # raises before anything is made
        options = SourceOptions(self.store, on_damage=chosen.on_damage)
        self.log: LogParts = parts_log(self.plan, options, chosen.bodies, grows=True)

    def messages(self, raw: bool, parts: tuple[Part, ...] = ()) -> ChosenMessages:
        """What reads them, here or in tasks. raw: bodies as they stand in the log."""
        chosen = self.chosen
        return ChosenMessages(
            self.log, parts, chosen.choice, self._wanted, chosen.columns,
            chosen.decompress and not raw,
        )  # fmt: skip

    def batches(
        self, start: int, end: int, notes: list[str], raw: bool
    ) -> Iterator[pa.RecordBatch]:
        """The chosen messages of [start, end), read in this process."""
        messages = self.messages(raw)
        for number, segment in enumerate(self.log.segments):
            first, stop = max(start, segment.start), min(end, segment.end)
            if first < stop:
                yield from messages.rows(Part(number, first, first, stop), notes.append)

    def ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """[start, end) by segments, in which no record reaches into the next one."""
        found = [(max(s.start, start), min(s.end, end)) for s in self.log.segments]
        return [(a, b) for a, b in found if a < b]
