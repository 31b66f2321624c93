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

    from reput.jobs.catch_up import catch_up as catch_up
    from reput.jobs.catch_up import follow as follow
    from reput.jobs.check import check as check
    from reput.jobs.compare import compare as compare
    from reput.jobs.convert import convert as convert
    from reput.jobs.deliver_delayed import deliver_delayed as deliver_delayed
    from reput.jobs.expire import expire as expire
    from reput.jobs.export import export as export
    from reput.jobs.export import verify_export as verify_export
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

# name -> the module that has it
_PUBLIC = {
    "rebuild": "reput.jobs.rebuild",
    "verify": "reput.jobs.verify",
    "check": "reput.jobs.check",
    "compare": "reput.jobs.compare",
    "repair": "reput.jobs.repair",
    "convert": "reput.jobs.convert",
    "recover": "reput.jobs.recover",
    "report": "reput.jobs.report",
    "catch_up": "reput.jobs.catch_up",
    "replicate": "reput.jobs.replicate",
    "replicate_from": "reput.jobs.replicate",
    "follow": "reput.jobs.catch_up",
    "expire": "reput.jobs.expire",
    "export": "reput.jobs.export",
    "verify_export": "reput.jobs.export",
    "deliver_delayed": "reput.jobs.deliver_delayed",
    "resolve_transactions": "reput.jobs.resolve_transactions",
    "open_store": "reput.jobs.opening.questions",
    "open_writer": "reput.jobs.opening.open_writer",
    "register": "reput.jobs.sources",
    "Message": "reput.store_format.message.message",
    "LogReader": "reput.store_format.log.reader",
    "QueueReader": "reput.store_format.derived.queue_reader",
    "IndexReader": "reput.store_format.derived.index_reader",
    "tail": "reput.store_format.derived.extent",
    "StoreError": "reput.store_format.faults",
    "DamageFound": "reput.store_format.faults",
    "StoreChanged": "reput.store_format.faults",
    "StoreInUse": "reput.store_format.files.protocol",
    "OutputInUse": "reput.jobs.outputs.output",
    "OverlapsInput": "reput.jobs.outputs.output",
    "Refused": "reput.store_format.message.refusals",
    "SettingError": "reput.store_format.release.settings",
    "UnknownRelease": "reput.store_format.release.profiles",
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
