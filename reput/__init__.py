"""reput: RocketMQ's derived files, rebuilt with Spark, byte for byte.

The functions here are what users import. Each is loaded when it is first asked for, so that
`import reput` costs nothing, needs no Spark, and a Spark worker pays for what it uses alone:

    import reput
    summary = reput.rebuild(spark, "/data/store", "/data/rebuilt", rocketmq="5.3.3")

The code is in four packages, `reput.jobs`, `reput.udfs`, `reput.broker` and `reput.store_format`,
whose folders stand at the top of the repository; here are links to them.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = False  # as typing's, which would take longer to import than all else here

if TYPE_CHECKING:
    from typing import Any

    from reput.jobs.backup import backup as backup
    from reput.jobs.backups import backups as backups
    from reput.jobs.catch_up import catch_up as catch_up
    from reput.jobs.catch_up import follow as follow
    from reput.jobs.check import check as check
    from reput.jobs.check import check_repository as check_repository
    from reput.jobs.compare import compare as compare
    from reput.jobs.convert import convert as convert
    from reput.jobs.deliver_delayed import deliver_delayed as deliver_delayed
    from reput.jobs.expire import expire as expire
    from reput.jobs.export import export as export
    from reput.jobs.export import verify_export as verify_export
    from reput.jobs.forget import forget as forget
    from reput.jobs.offsets import offsets as offsets
    from reput.jobs.opening.open_writer import open_writer as open_writer
    from reput.jobs.opening.questions import open_store as open_store
    from reput.jobs.outputs.output import OutputInUse as OutputInUse
    from reput.jobs.outputs.output import OverlapsInput as OverlapsInput
    from reput.jobs.rebuild import rebuild as rebuild
    from reput.jobs.recover import recover as recover
    from reput.jobs.repair import repair as repair
    from reput.jobs.replicate import replicate as replicate
    from reput.jobs.replicate import replicate_from as replicate_from
    from reput.jobs.report import report as report
    from reput.jobs.resolve_transactions import resolve_transactions as resolve_transactions
    from reput.jobs.restore import restore as restore
    from reput.jobs.salvaging.lives import judged as judged
    from reput.jobs.send import send as send
    from reput.jobs.sources import register as register
    from reput.jobs.verify import verify as verify
    from reput.store_format.derived.extent import tail as tail
    from reput.store_format.derived.index_reader import IndexReader as IndexReader
    from reput.store_format.derived.queue_reader import QueueReader as QueueReader
    from reput.store_format.faults import DamageFound as DamageFound
    from reput.store_format.faults import StoreChanged as StoreChanged
    from reput.store_format.faults import StoreError as StoreError
    from reput.store_format.files.protocol import StoreInUse as StoreInUse
    from reput.store_format.log.reader import LogReader as LogReader
    from reput.store_format.message.message import Message as Message
    from reput.store_format.message.refusals import Refused as Refused
    from reput.store_format.release.profiles import UnknownRelease as UnknownRelease
    from reput.store_format.release.settings import SettingError as SettingError
    from reput.udfs.table.message_rows import append_arrow as append_arrow

# A command's function is in the module of its name; module -> the other public names that it has.
_COMMANDS = (
    "rebuild verify compare repair convert recover report expire deliver_delayed "
    "resolve_transactions offsets backup backups forget restore send"
)
_OTHERS = {
    "jobs.catch_up": "catch_up follow",
    "jobs.check": "check check_repository",
    "jobs.replicate": "replicate replicate_from",
    "jobs.export": "export verify_export",
    "jobs.opening.questions": "open_store",
    "jobs.opening.open_writer": "open_writer",
    "jobs.salvaging.lives": "judged",
    "jobs.sources": "register",
    "store_format.message.message": "Message",
    "store_format.log.reader": "LogReader",
    "store_format.derived.queue_reader": "QueueReader",
    "store_format.derived.index_reader": "IndexReader",
    "store_format.derived.extent": "tail",
    "store_format.faults": "StoreError DamageFound StoreChanged",
    "store_format.files.protocol": "StoreInUse",
    "jobs.outputs.output": "OutputInUse OverlapsInput",
    "store_format.message.refusals": "Refused",
    "store_format.release.settings": "SettingError",
    "store_format.release.profiles": "UnknownRelease",
    "udfs.table.message_rows": "append_arrow",
}
_PUBLIC = {name: f"reput.jobs.{name}" for name in _COMMANDS.split()} | {
    name: f"reput.{module}" for module, names in _OTHERS.items() for name in names.split()
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'reput' has no attribute {name!r}")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
