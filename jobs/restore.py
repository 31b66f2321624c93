"""`reput restore`: a store of a backup repository as it was, for a broker to start on."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reput.jobs.console import options
from reput.jobs.console.declared import OfLog, add_options, given, option, remade_lives, shown
from reput.jobs.console.moment import add_moment, wanted_of
from reput.jobs.console.progress import progress_of
from reput.jobs.console.voice import add_output, remark
from reput.jobs.engines.choice import on_engine
from reput.jobs.engines.engine import Engine
from reput.store_format.faults import REFUSE, StoreError
from reput.store_format.release.settings import merge_layers, parse_assignments

if TYPE_CHECKING:
    from reput.jobs.console.moment import Found
    from reput.jobs.converting.report import ConvertSummary
    from reput.jobs.outputs.output import Output
    from reput.jobs.repository.restored import Restored

_HELP = """\
Makes a new store in DIR: the log up to the moment, byte for byte; topics, groups, offsets and ACLs
as the last backup before it has them, no offset past its queue's end; queues, index, timers and
delays derived from the log. The end of the newest backup is the default moment. With --at alone
every store of the repository is restored, to DIR/STORE.

  reput restore /backup/repository --output /data/store
  reput restore s3://bucket/repository --output /data/store --at 2026-11-20T10:00:00+08:00
  reput restore /backup/repository --output /data/store --to-set mappedFileSizeCommitLog=536870912

`reput query`, `export`, `serve` and others read a repository without restoring it.
"""


@dataclass(frozen=True)
class Restore(OfLog):
    """What `reput restore` is asked. store: the repository, path or URL.

    name: of a store in it; at: a time in milliseconds; to_offset: physical; to_message_id: up to
    that message, by either id. tell: gets each note. rocketmq, settings: by default the backup's.
    """

    output: str = field(metadata=shown("absent or empty folder, or its URL", metavar="DIR"))
    _: KW_ONLY
    name: str | None = None
    at: int | None = None
    to_offset: int | None = None
    to_message_id: str | None = None
    on_damage: str = option(
        "damage that the log had when it was backed up, with live records after it: as for "
        "`reput rebuild`", REFUSE, choices=options.ANY_DAMAGE,
    )  # fmt: skip
    remade: str = remade_lives()
    to_rocketmq: str | None = option("write the store anew, for this release", metavar="VERSION")
    to_settings: Mapping[str, str] | None = option(
        "write it anew with other files, as `reput convert` does; may be repeated",
        (), "--to-set", metavar="NAME=VALUE",
    )  # fmt: skip
    store_host: str | None = option(
        "write it anew for a broker of this address, which message ids name",
        metavar="ADDRESS:PORT",
    )  # fmt: skip
    tell: Callable[[str], Any] = lambda _: None


@dataclass
class Restoration:
    """What `reput restore` did, a report for each store."""

    stores: "list[Restored | ConvertSummary]"

    @property
    def good(self) -> bool:
        return not any(each.left_out for each in self.stores)

    def as_json(self) -> dict[str, Any]:
        return {"stores": [each.as_json() for each in self.stores]}

    def text(self) -> str:
        return "\n".join(each.text() for each in self.stores)

    def details(self) -> list[str]:
        return [line for each in self.stores for line in each.details()]


@on_engine(Restore)
def restore(engine: Engine, asked: Restore) -> Restoration:
    """Restore a store of a repository, or with `at` alone all of them.

    Raises StoreError (OverlapsInput, OutputInUse, PieceBroken, DamageFound; where no backup has the
    moment), SettingError, OSError. A failed run leaves nothing in `output`; only where nothing can
    be renamed, as on S3, those of several stores stay that were done.
    """
    from reput.jobs.console.moment import Wanted, find_moment
    from reput.jobs.outputs.output import RESTORED, Output
    from reput.store_format.files.by_url import storage_for
    from reput.store_format.files.catalogue import catalogues
    from reput.store_format.files.folder import Place
    from reput.store_format.notes import Notes

    storage = storage_for(asked.store)
    names: list[str | None] = [asked.name]
    if asked.name is None and asked.at is not None:
        there = catalogues(storage, asked.store)  # some perhaps of a killed first backup
        names = [each.store for each in there if each.numbers] or names
    found = []
    for each in names:
        wanted = Wanted(each, asked.at, asked.to_offset, asked.to_message_id)
        found.append(find_moment(storage, asked.store, wanted, Notes(asked.tell)))
    if len(found) == 1:
        return Restoration([_Restoring(engine, asked, found[0]).run()])
    into = asked.storage or storage_for(asked.output, not engine.one_machine)
    inputs = (Place(storage, storage.resolve(asked.store)),)
    whole = Output(into, into.resolve(asked.output), RESTORED, None, inputs)
    with _at_once(whole) as folder:
        stores = [_Restoring(engine, replace(asked, output=f"{folder}/{one.moment.store}"), one)
                  for one in found]  # fmt: skip
        for store in stores:
            store.place.check()
        reports = [store.run() for store in stores]
    for report, one in zip(reports, found, strict=True):
        report.output = f"{whole.path}/{one.moment.store}"
    return Restoration(reports)


@contextmanager
def _at_once(whole: "Output") -> Iterator[str]:
    """A folder for several stores, which has the output's place after the block, in one step;
    where nothing can be renamed, the output itself.
    """
    from reput.jobs.outputs.publish import beside, remove_leftovers, staging_folder
    from reput.store_format.files.disk import DiskFiles, put_in_place
    from reput.store_format.files.manifest_last import ManifestLast

    if isinstance(whole.storage, ManifestLast):
        yield whole.path
        return
    whole.check()
    remove_leftovers(whole, whole.inputs)
    with staging_folder(*beside(whole)) as staging:
        yield (folder := staging.path("stores"))
        whole.check()
        whole.storage.make_folders(os.path.dirname(whole.path))
        put_in_place(DiskFiles(""), folder.lstrip("/"), whole.path.lstrip("/"), False)


class _Restoring:
    """One store."""

    def __init__(self, engine: Engine, asked: Restore, found: "Found") -> None:
        from reput.jobs.console.moment import settings_of
        from reput.jobs.outputs.output import CONVERTED, RESTORED
        from reput.store_format.discover.purpose import CONVERT, REBUILD
        from reput.store_format.discover.store import store_at

        given = {**settings_of(found.state), **(asked.settings or {})}
        release = asked.rocketmq or found.state.rocketmq or None
        anew = asked.to_settings or asked.to_rocketmq or asked.store_host
        purpose = CONVERT if anew else REBUILD.asked(asked.on_damage)
        self.asked, self.moment, self.anew = asked, found, bool(anew)
        at = store_at(str(found.moment), release, given)
        self.store = replace(asked, settings=given).found(engine, purpose, at)
        kind = CONVERTED if anew else RESTORED
        self.place = self.store.output(asked.output, kind, None, asked.storage)

    def run(self) -> "Restored | ConvertSummary":
        from reput.jobs.repository.restored import restore_store
        from reput.store_format.files.backups import BackedUp
        from reput.store_format.files.catalogue import Catalogue

        if self.anew:
            return self._converted()
        storage = self.store.plan.storage
        assert isinstance(storage, BackedUp)
        moment = self.moment.moment
        catalogue = Catalogue(storage.storage, moment.repo, moment.store)
        return restore_store(self.store, self.moment, catalogue, self.place, self.asked.on_damage)

    def _converted(self) -> "ConvertSummary":
        from reput.jobs.converting.carried import wanted_changes
        from reput.jobs.converting.convert import convert_store, wanted
        from reput.store_format.release.profiles import profile

        asked = self.asked
        if asked.on_damage != REFUSE:
            raise StoreError("--on-damage: a store that is written anew has no damage: restore it "
                             "as it was, then `reput repair`")  # fmt: skip
        release = profile(asked.to_rocketmq or self.store.plan.profile.release)
        changes = wanted_changes((), (), {}, asked.store_host, release)
        to = wanted(self.store, release.release, asked.to_settings or {}, changes)
        return convert_store([self.store], to, self.place)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument("store", metavar="REPO", help="a backup repository, path or URL")
    add_moment(parser, None)
    add_options(parser, Restore)
    options.add_broker(
        parser, "the release whose rules hold; without it that of the backup's broker"
    )
    options.add_timezone(parser)
    options.add_engine(parser)
    add_output(parser, times=True)


def run(arguments: argparse.Namespace) -> int:
    """Restore, and say what was made: 0 done; 1 where messages are in no queue."""
    wanted = wanted_of(arguments, options.milliseconds, remark)
    asked = given(
        arguments, Restore, settings=merge_layers(*options.setting_layers(arguments)),
        name=wanted.store, at=wanted.at, to_settings=parse_assignments(arguments.to_settings),
        tell=remark, progress=progress_of(arguments),
    )  # fmt: skip
    with options.engine_for(arguments) as engine:
        about = restore(engine, asked)
    return options.answer(arguments, about, about.good)
