"""A log whose chosen messages are exported to a folder."""

from collections import Counter
from collections.abc import Iterator, Mapping

import pyarrow as pa

from reput.jobs.engines.engine import Engine
from reput.jobs.exporting.files import Chosen, looked_through, redaction
from reput.jobs.opening.plan import Plan, make_plan
from reput.jobs.outputs.output import inputs_of, refuse_overlap
from reput.jobs.outputs.publish import beside, staging_folder
from reput.jobs.pipeline.pipeline import Cut, Pipeline
from reput.jobs.salvaging.lives import judged_log, log_end
from reput.jobs.sources.opened_log import parts_log
from reput.jobs.sources.options import SourceOptions
from reput.store_format.discover.purpose import READ
from reput.store_format.discover.store import discover, store_at
from reput.store_format.faults import SALVAGE
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.folder import Place
from reput.store_format.files.protocol import Storage
from reput.store_format.notes import Progress
from reput.udfs.table.export import ChosenMessages
from reput.udfs.table.log_parts import LogPart, LogParts
from reput.udfs.table.redaction import LookThrough, Redaction


class ChosenLog:
    """A store's log, the chosen messages, and the folder (path or URL) to which they go."""

    def __init__(
        self, engine: Engine | None, store: str, to: str, rocketmq: str | None,
        settings: Mapping[str, str], chosen: Chosen,
    ) -> None:  # fmt: skip
        """engine: judges a log that is salvaged; None: this process does.

        Raises StoreError (also OverlapsInput), SettingError, UnknownRelease, WrongTags,
        WrongExpression.
        """
        at = store_at(store, rocketmq, settings)
        self.store, self.chosen = at.path, chosen
        self.target: Storage = storage_for(to)
        self.folder = self.target.resolve(to)
        self.inputs: list[Place] = inputs_of(at.folder, settings)
        refuse_overlap(Place(self.target, self.folder), self.inputs)
        self.plan: Plan = make_plan(at, discover(at, READ), READ.asked(chosen.on_damage))
        self._wanted = chosen.wanted(self.plan)  # raises before anything is made
        self.redacted = redaction(chosen.redact)
        # messages of system topics that were left out; None: not counted
        self.system: int | None = 0
        options = SourceOptions(self.store, on_damage=chosen.on_damage)
        log, end = parts_log(self.plan, options, chosen.bodies, grows=True), log_end(self.plan)
        self.log: LogParts = log.judged(end) if engine is None else self._judged(engine, log)

    def _judged(self, engine: Engine, log: LogParts) -> LogParts:
        if log.on_damage != SALVAGE:
            return log
        with staging_folder(*beside(Place(self.target, self.folder))) as staging:
            return judged_log(Pipeline(engine, self.plan, staging, Cut(), Progress()), log)

    def messages(self, raw: bool, parts: tuple[LogPart, ...] = ()) -> ChosenMessages:
        """The reader of the chosen messages, here or in tasks. raw: keep bodies as in the log."""
        chosen = self.chosen
        return ChosenMessages(
            self.log, parts, chosen.choice, self._wanted, chosen.columns,
            chosen.decompress and not raw, system_topics=chosen.with_system,
            redaction=None if raw else self.redacted,
        )  # fmt: skip

    def batches(
        self, start: int, end: int, notes: list[str], raw: bool
    ) -> Iterator[pa.RecordBatch]:
        """The chosen messages of [start, end), read in this process."""
        messages = self.messages(raw)
        for part in self._parts(start, end):
            yield from messages.rows(part, notes.append, self.leave)

    def leave(self, many: int | None) -> None:
        """Count messages of system topics that were left out."""
        self.system = None if many is None or self.system is None else self.system + many

    def _parts(self, start: int, end: int) -> Iterator[LogPart]:
        for number, segment in enumerate(self.log.segments):
            first, stop = max(start, segment.start), min(end, segment.end)
            if first < stop:
                yield LogPart(number, first, first, stop)

    def look_through(
        self, start: int, end: int, texts: Mapping[str, str], keep_repeats: bool,
        warnings: list[str],
    ) -> None:  # fmt: skip
        """Find the redacted values of the whole log up to `end`, before [start, end) is written.

        As `looked_through`, which may raise SettingError.
        """
        if self.redacted is None:
            return
        chosen = self.chosen

        def look(redacted: Redaction) -> Counter[bytes]:
            begin = start if redacted.repeats.texts else self.log.segments[0].start
            parts = tuple(self._parts(begin, end))
            task = LookThrough(
                self.log, parts, chosen.choice, self._wanted, chosen.columns, chosen.with_system,
                redacted,
            )  # fmt: skip
            found: Counter[bytes] = Counter()
            for part in parts:
                found.update(task.found(part))
            return found

        texts = {"the options": chosen.said, **texts}
        self.redacted = looked_through(self.redacted, look, texts, keep_repeats, warnings)

    def ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """[start, end) divided by segments, as no record crosses a segment's end."""
        found = [(max(s.start, start), min(s.end, end)) for s in self.log.segments]
        return [(a, b) for a, b in found if a < b]
