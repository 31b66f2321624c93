"""Exports chosen messages through the writer as a new store on which a broker can start.

Each message is appended like one copied from another store: to its topic and queue, with a new
position. Redacted values are in no file of the new store.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from reput.jobs.engines.engine import Engine
from reput.jobs.exporting.append import append_exported
from reput.jobs.exporting.chosen import ChosenLog
from reput.jobs.exporting.files import Chosen, Exported
from reput.jobs.opening.open_writer import open_writer
from reput.jobs.outputs import publish
from reput.jobs.outputs.output import EXPORTED_STORE, STORE_FORMAT, Output
from reput.jobs.outputs.report import left_behind
from reput.jobs.sources.opened_log import end_of_log
from reput.store_format.faults import NotAFile
from reput.store_format.files.folder import Place
from reput.store_format.files.local import LocalStorage
from reput.store_format.files.manifest_last import ManifestLast
from reput.store_format.files.protocol import Storage
from reput.store_format.message.refusals import Refused, batch_queue_topic
from reput.store_format.names import (
    BATCH_CONSUME_QUEUE,
    COMPACTION,
    CONFIG,
    CONSUME_QUEUE,
    GROUPS,
    LMQ_PREFIX,
    LOCK,
    OFFSET_MAP,
    TOPICS,
)
from reput.store_format.query.offsets import MapLines
from reput.store_format.release.setting_table import SettingError
from reput.store_format.state_table import TOPICS_OF_STATE
from reput.udfs.table.export import MessageSums

_PIECE = 1 << 20
_INSTEAD = "; --topic chooses others, and --as parquet takes all"
_CONFIGURED = (TOPICS, GROUPS)
_OF_STATE = tuple(each.topic for each in TOPICS_OF_STATE)


def export_store(
    store: str, to: str, chosen: Chosen, rocketmq: str | None, settings: Mapping[str, str],
    keep_repeats: bool = False, replace: bool = False, engine: Engine | None = None,
) -> Exported:  # fmt: skip
    """Write the chosen messages as a store at `to`, a folder that is absent or empty.

    The store appears whole with its manifest, or not at all. For a URL or a volume it is first made
    in the folder of temporary files. keep_repeats: as for `looked_through`.

    Raises StoreError, SettingError (also if the writer refuses a message), UnknownRelease, OSError.
    """
    began = time.monotonic()
    job, local = ChosenLog(engine, store, to, rocketmq, settings, chosen), LocalStorage()
    output = Output(job.target, job.folder, EXPORTED_STORE, replace, tuple(job.inputs))
    output.check()
    cleaned = publish.remove_leftovers(Place(job.target, job.folder), job.inputs)
    log, plan = job.log, job.plan
    _refuse_topics(job)
    start = log.segments[0].start
    end = end_of_log(log, start)
    done = Exported(
        store=job.store, output=job.folder, kind="rocketmq", release=plan.profile.release,
        log_start=start, log_end=end, chosen=chosen.as_json(), sums=MessageSums(),
        warnings=[*plan.notes, *plan.warnings], cleaned=cleaned,
    )  # fmt: skip
    configured = _configured(job)
    done.warnings += left_behind(plan.folder, (*_CONFIGURED, COMPACTION))
    job.look_through(start, end, configured, keep_repeats, done.warnings)
    with publish.staging_folder(*publish.beside(Place(job.target, job.folder))) as staging:
        if isinstance(job.target, ManifestLast):
            base = Place(local, tempfile.gettempdir())
            with publish.temporary_folder(
                base, publish.Temporary.EXPORT_STORE, job.inputs
            ) as there:
                made = _make(job, there.path("store"), configured, done)
                target = publish.begin_set(staging, output)
                done.files = [_copied(job.target, made, path, target) for path in _paths(made)]
        else:
            made = _make(job, staging.path("store"), configured, done)
            done.files = [_looked_at(made, path) for path in _paths(made)]
            target = publish.begin_set(staging, output)
            local.move_all((f"{made}/{name}", f"{target}/{name}") for name in os.listdir(made))
        publish.end_set(staging, {**done.manifest(), "format": STORE_FORMAT}, output)
    done.seconds = time.monotonic() - began
    return done


def _refuse_topics(job: ChosenLog) -> None:
    """Raise SettingError for a chosen topic in which a broker keeps what waits, by positions that
    the new store does not have, and for one of batch queues, which the writer refuses.

    If the store has no queues, or other options may leave out all messages of a topic, the first
    message of such a topic is refused instead.
    """
    plan, chosen = job.plan, job.chosen
    for name in chosen.topics:
        if name.startswith(_OF_STATE):
            raise SettingError(
                f"topic {name!r}: in it a broker keeps what waits, by positions that a store of "
                f"chosen messages does not have; `reput convert` makes one that has"
            )
    if any(each is not None for each in (chosen.tags, chosen.sql, chosen.since, chosen.until)):
        return
    for kind in (CONSUME_QUEUE, BATCH_CONSUME_QUEUE):
        for name, _ in plan.folder.listed(kind):
            if chosen.takes(name) and name in plan.batch_topics and not name.startswith(LMQ_PREFIX):
                raise SettingError(f"{job.store}: {batch_queue_topic(name)}{_INSTEAD}")


def _make(job: ChosenLog, made: str, configured: dict[str, str], done: Exported) -> str:
    """Make the store in a local folder; its path."""
    os.makedirs(f"{made}/{CONFIG}")
    for path, text in configured.items():
        with open(f"{made}/{path}", "w", encoding="utf-8") as file:
            file.write(text)
    with (
        open(f"{made}/{OFFSET_MAP}", "wb") as file,
        open_writer(
            made, rocketmq=done.release, settings=job.plan.discovered.settings,
            warnings=done.warnings,
        ) as writer,
    ):  # fmt: skip
        lines = MapLines(file)
        writer.placed = lines.add
        for batch in job.batches(done.log_start, done.log_end, done.notes, raw=False):
            done.sums.add(batch)
            for row in batch.to_pylist():
                where = f"{job.store}: message at {row['physicalOffset']}"
                try:
                    append_exported(writer, where, row)
                except Refused as error:
                    raise SettingError(f"{error}{_INSTEAD}") from None
        lines.end()
        writer.wait_durable(writer.log.end)
        writer.dispatch()
    os.unlink(f"{made}/{LOCK}")
    done.left_out, done.system = len(done.notes), job.system
    done.without(job.chosen.lacks(job.plan, done.log_end))
    return made


def _copied(storage: Storage, made: str, path: str, target: str) -> dict[str, Any]:
    """Copy a file to a storage that cannot rename; its entry of the manifest."""
    storage.make_folders(os.path.dirname(f"{target}/{path}"))
    copy = storage.create(f"{target}/{path}", digest=True)
    with open(f"{made}/{path}", "rb") as file:
        while piece := file.read(_PIECE):
            copy.write(piece)
    written = copy.finish(os.path.getsize(f"{made}/{path}"))
    return {"path": path, "length": written.length, "sha256": written.sha256}


def _looked_at(made: str, path: str) -> dict[str, Any]:
    """The manifest's entry of a file of the store."""
    with open(f"{made}/{path}", "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"path": path, "length": os.fstat(file.fileno()).st_size, "sha256": digest}


def _paths(folder: str) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(at, name), folder)
        for at, _, names in os.walk(folder)
        for name in names
    )


def _configured(job: ChosenLog) -> dict[str, str]:
    """Path -> text of the new store's files of `config/`: topics that may have messages, groups."""
    texts = {}
    for name in _CONFIGURED:
        try:
            raw = job.plan.storage.read_bytes(f"{job.store}/{CONFIG}/{name}")
            table = json.loads(raw)
            if name == TOPICS and job.chosen.topics:
                topics = table["topicConfigTable"]
                table["topicConfigTable"] = {t: topics[t] for t in job.chosen.topics if t in topics}
        except (OSError, NotAFile, ValueError, KeyError, TypeError):
            continue  # a broker makes them anew
        texts[f"{CONFIG}/{name}"] = json.dumps(table)
    return texts
