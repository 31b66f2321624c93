"""Exports chosen messages as a store of their own, through the writer: a broker starts on it.

Each message is put as one that is copied from another store: to its topic and queue, with new
positions. What is redacted is in no file of it.
"""

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reput.jobs.engine.append_exported import append_exported
from reput.jobs.engine.chosen_log import ChosenLog
from reput.jobs.engine.export_report import Exported
from reput.jobs.engine.exporting import Chosen
from reput.jobs.engine.open_writer import open_writer
from reput.jobs.engine.outputs import Output
from reput.jobs.engine.publish import begin_set, end_set
from reput.jobs.engine.sets import EXPORTED_STORE, STORE_FORMAT
from reput.jobs.engine.source_log import end_of_log
from reput.jobs.engine.staging import (
    beside,
    remove_leftovers,
    staging_folder,
    temporary_folder,
)
from reput.store_format.layouts import (
    SYS_COMPRESSED,
    SYS_COMPRESSION_MASK,
    SYS_INNER_BATCH,
    SYS_NEED_UNWRAP,
)
from reput.store_format.names import CONFIG, LOCK
from reput.store_format.release.settings import SettingError
from reput.store_format.storage.local import LocalStorage
from reput.store_format.storage.manifest_last import ManifestLast
from reput.udfs.export import Sums

_BODY, _HASH, _PROPERTY = "body", "body:hash", "property:"
_TEMPORARY = "reput-export-store-"
_PIECE = 1 << 20
_CONFIGURED = ("topics.json", "subscriptionGroup.json")
# what says that a body is packed in some way, which one that was put in its place is not
_PACKED = SYS_COMPRESSED | SYS_COMPRESSION_MASK | SYS_INNER_BATCH | SYS_NEED_UNWRAP


@dataclass(frozen=True)
class Redaction:
    """What is left out of each message. body: None to keep it, else what takes its place."""

    body: str | None = None  # `body`: nothing; `body:hash`: its SHA-256 in hex
    properties: frozenset[str] = frozenset()

    def apply(self, row: dict[str, Any]) -> None:
        """Redact one row."""
        if self.body is not None:
            hashed = hashlib.sha256(row["body"]).hexdigest().encode()
            row["body"] = hashed if self.body == _HASH else b""
            row["sysFlag"] &= ~_PACKED
        if self.properties:
            row["properties"] = [p for p in row["properties"] if p[0] not in self.properties]


def redaction(words: Sequence[str]) -> Redaction:
    """`body`, `body:hash`, `property:NAME`. Raises SettingError."""
    body, names = None, set()
    for word in words:
        if word in (_BODY, _HASH) and body is None:
            body = word
        elif word.startswith(_PROPERTY) and len(word) > len(_PROPERTY):
            names.add(word.removeprefix(_PROPERTY))
        else:
            raise SettingError(f"--redact {word}: body, body:hash or property:NAME is wanted")
    return Redaction(body, frozenset(names))


def export_store(
    store: str, to: str, chosen: Chosen, redacted: Redaction, rocketmq: str | None,
    settings: Mapping[str, str],
) -> Exported:  # fmt: skip
    """Write the chosen messages as a store at `to`, which is absent or empty.

    It is there whole or not at all; at a URL, and on volumes, it is made in the folder of temporary
    files first, and has a manifest. Raises StoreError, SettingError, UnknownRelease, Refused where
    the writer does not take a message, OSError.
    """
    began = time.monotonic()
    job, local = ChosenLog(store, to, rocketmq, settings, chosen), LocalStorage()
    output = Output(job.target, job.folder, EXPORTED_STORE, False, tuple(job.inputs))
    output.check()
    cleaned = remove_leftovers(job.target, job.folder, job.inputs)
    log, plan = job.log, job.plan
    start = log.segments[0].start
    end = end_of_log(log, start)
    done = Exported(
        store=job.store, output=job.folder, kind="rocketmq", release=plan.profile.release,
        log_start=start, log_end=end, chosen=vars(chosen).copy(), sums=Sums(),
        warnings=[*plan.notes, *plan.warnings], cleaned=cleaned,
    )  # fmt: skip
    if isinstance(job.target, ManifestLast):
        with temporary_folder(local, tempfile.gettempdir(), _TEMPORARY, job.inputs) as staging:
            made = _make(job, staging.path("store"), redacted, done)
            _publish(made, output, done)
    else:
        with staging_folder(local, *beside(local, job.folder)) as staging:
            made = _make(job, staging.path("store"), redacted, done)
            done.files = [{"path": path, "length": length} for path, length in _files(made)]
            os.makedirs(os.path.dirname(job.folder), exist_ok=True)
            os.rename(made, job.folder)
    done.seconds = time.monotonic() - began
    return done


def _make(job: ChosenLog, made: str, redacted: Redaction, done: Exported) -> str:
    """The store, in a local folder."""
    _configure(job, made)
    with open_writer(
        made, rocketmq=done.release, settings=job.plan.told.settings, warnings=done.warnings
    ) as writer:
        for batch in job.batches(done.log_start, done.log_end, done.notes, raw=False):
            done.sums.add(batch)
            for row in batch.to_pylist():
                redacted.apply(row)
                append_exported(writer, f"message at {row['physicalOffset']}", row)
        writer.wait_durable(writer.log.end)
    done.left_out = len(done.notes)
    return made


def _publish(made: str, output: Output, done: Exported) -> None:
    """Copy a store to where nothing can be renamed; its manifest comes last."""
    storage = output.storage
    with staging_folder(storage, *beside(storage, output.path)) as staging:
        target = begin_set(staging, [], output)
        for path, length in _files(made):
            if path == LOCK:
                continue
            storage.make_folders(os.path.dirname(f"{target}/{path}"))
            copy = storage.create(f"{target}/{path}", digest=True)
            with open(f"{made}/{path}", "rb") as file:
                while piece := file.read(_PIECE):
                    copy.write(piece)
            done.files.append({"path": path, **copy.finish(length)._asdict()})
        end_set(staging, {**done.manifest(), "format": STORE_FORMAT}, output)


def _files(folder: str) -> list[tuple[str, int]]:
    """(path below a folder, length) of all files in it."""
    return sorted(
        (os.path.relpath(os.path.join(at, name), folder), os.path.getsize(os.path.join(at, name)))
        for at, _, names in os.walk(folder)
        for name in names
    )


def _configure(job: ChosenLog, made: str) -> None:
    """Give the new store the topics that it may have messages of, and the groups."""
    os.makedirs(f"{made}/{CONFIG}")
    for name in _CONFIGURED:
        try:
            raw = job.plan.storage.read_bytes(f"{job.store}/{CONFIG}/{name}")
            table = json.loads(raw)
            if name == "topics.json" and job.chosen.topics:
                topics = table["topicConfigTable"]
                table["topicConfigTable"] = {t: topics[t] for t in job.chosen.topics if t in topics}
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            continue  # a broker makes them anew
        with open(f"{made}/{CONFIG}/{name}", "w", encoding="utf-8") as file:
            json.dump(table, file)
