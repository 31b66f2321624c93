"""`reput replicate`: a second store with the same log, from a folder, a URL or a live master."""

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.declared import add_options, option, shown
from reput.jobs.console.voice import add_output
from reput.jobs.engines.choice import alone
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import storage_for
from reput.store_format.files.local import LocalStorage
from reput.store_format.notes import Progress
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.replicating.source import LogLimit
    from reput.jobs.replicating.target import Replicated
    from reput.store_format.files.protocol import Storage

_HELP = """\
Copies a store's log, byte for byte, to a local folder that a broker can start on at any moment,
and the files of config/ that a slave asks its master for. Every record is checked on the way. What
was killed goes on where it stood; a target that is no beginning of the source is refused. Queues
and index are derived from what was copied.

  reput replicate /data/store /data/replica
  reput replicate s3://bucket/store /data/replica --to-offset 4310016
  reput replicate /data/store /data/replica --follow --rate 50MB      of a live broker's store
  reput replicate --master 10.0.0.5:10912 /data/replica --follow      over the wire, as a slave does
"""
_LONGEST = 1e9  # seconds; neither inf nor nan is below


@dataclass(frozen=True)
class OfReplica:
    """What both kinds of replication are asked. Records copied before an error stay, and are a
    store. Times are seconds; rate: bytes a second.

    confirm: asked before a store that is no replica is extended; raises StoreError to stop.
    """

    _: KW_ONLY
    rocketmq: str | None = None
    settings: Mapping[str, str] | None = None
    to_offset: int | None = option(
        "no record that ends behind physical offset N", type=int, metavar="N"
    )
    follow: bool = option("go on while the source grows, until --idle", False)
    every: float = option("with --follow: how often (1)", 1.0, type=float, metavar="SECONDS")
    idle: float | None = option(
        "with --follow: end when nothing new has come for so long", type=float, metavar="SECONDS"
    )
    rate: float | None = option("bytes a second at most (also 500K, 50M, 1G)", metavar="BYTES")
    derive: bool = option("only the log: no queues, no index", True, "--no-derived")
    derive_every: float = option(
        "with --follow: how often queues and index go on (30)", 30.0, type=float, metavar="SECONDS"
    )
    check_crc: bool = option("do not check body CRCs", True, "--no-check-crc")
    progress: Progress | None = None
    confirm: Callable[[str], None] = lambda _: None

    @property
    def wanted(self) -> "LogLimit":
        from reput.jobs.replicating.source import ALL_WANTED, LogLimit

        return ALL_WANTED if self.to_offset is None else LogLimit(self.to_offset)

    @property
    def shows(self) -> Progress:
        return self.progress or Progress()


@dataclass(frozen=True)
class Replicate(OfReplica):
    """What `reput replicate SOURCE` is asked."""

    source: str = field(
        metadata=shown(
            "the store to copy, path or URL: it holds commitlog/; not with --master",
            "store", metavar="SOURCE", nargs="?",
        )
    )  # fmt: skip
    target: str = field(
        metadata=shown("a local folder: new, or a replica", "target", metavar="TARGET")
    )
    _: KW_ONLY
    verify: bool = option(
        "compare all that the replica holds with the source first, not its ends alone", False
    )
    dry_run: bool = False
    storage: "Storage | None" = None


@dataclass(frozen=True)
class ReplicateFrom(OfReplica):
    """What `reput replicate --master` is asked. target: a local folder. broker: "": no
    requests.
    """

    master: str = option(
        "copy over the wire from a live master's replication port (10912)", "", metavar="HOST:PORT"
    )
    target: str = ""
    _: KW_ONLY
    broker: str | None = option(
        "with --master: the broker's own port, which knows where its log begins, sizes and config "
        "(default: the port before); '' asks nobody",
        metavar="HOST:PORT",
    )
    from_offset: int | None = option(
        "with --master: where its log begins, if the broker is not asked", type=int, metavar="N"
    )
    controller: bool = option(
        "with --master: it is under a controller (AutoSwitchHAService)", False
    )


@alone(Replicate)
def replicate(asked: Replicate) -> "Replicated":
    """Make or extend a replica of the store `source` in the folder `target`.

    Raises StoreError (OverlapsInput, StoreInUse, ReplicaDiffers, SourceCleaned, DamageFound),
    SettingError, UnknownRelease, OSError.
    """
    from reput.jobs.replicating.replicate import from_store
    from reput.store_format.discover.store import store_at

    started = time.monotonic()
    at = store_at(asked.source, asked.rocketmq, asked.settings, asked.storage)
    about = from_store(asked, at._replace(path=at.path.rstrip("/")), _local(asked.target))
    about.seconds = time.monotonic() - started
    return about


@alone(ReplicateFrom)
def replicate_from(asked: ReplicateFrom) -> "Replicated":
    """Make or extend a replica of a live master's store, by its replication port.

    Raises ReplicaDiffers, PeerFailed, StoreError, SettingError, OSError.
    """
    from reput.jobs.replicating.replicate import from_master

    started = time.monotonic()
    address = options.host_port("--master", asked.master, least=1)
    broker = (address[0], address[1] - 1) if asked.broker is None else None
    if asked.broker:
        broker = options.host_port("--broker", asked.broker, least=1)
    about = from_master(asked, address, broker, _local(asked.target))
    about.seconds = time.monotonic() - started
    return about


def _local(target: str) -> str:
    """The target's path. Raises StoreError for a URL."""
    if type(storage_for(target)) is not LocalStorage:
        raise StoreError(f"{target}: a replica is a local folder, as a broker is to start on it")
    return LocalStorage().resolve(target)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    add_options(parser, Replicate, "source", "target")
    options.add_broker(parser, "the source's release; without it, as its files show")
    options.add_timezone(parser)
    options.add_consent(parser)
    add_options(parser, ReplicateFrom, "master", "broker", "from_offset", "controller")
    add_options(parser, OfReplica)
    add_options(parser, Replicate, "verify")
    add_output(parser, times=True)


def run(arguments: argparse.Namespace) -> int:
    """Replicate, and say what was copied: 0 done, 1 --dry-run found something to copy."""
    _check_words(arguments)
    rate = None if arguments.rate is None else options.byte_rate(arguments.rate)
    # over the wire CRCs are a matter of the copy, not of the settings of the replica
    arguments.no_check_crc = not (arguments.check_crc or arguments.master)
    if arguments.master:
        about = replicate_from(options.asked_of(arguments, ReplicateFrom, rate=rate))
    else:
        about = replicate(options.asked_of(arguments, Replicate, rate=rate, source=arguments.store))
    options.show(arguments, asdict(about), about.text())
    return options.DAMAGE if about.dry_run and about.end > about.resumed_at else options.DONE


def _check_words(arguments: argparse.Namespace) -> None:
    """Raise SettingError for options that do not go together."""
    if bool(arguments.store) == bool(arguments.master):
        raise SettingError("name one source: a store's path or URL, or --master HOST:PORT")
    if not arguments.master and (arguments.broker is not None or arguments.controller
                                 or arguments.from_offset is not None):  # fmt: skip
        raise SettingError("--broker, --from-offset and --controller go with --master")
    if arguments.master and arguments.dry_run:
        raise SettingError("--dry-run is for a store, not for --master")
    if arguments.master and arguments.verify:
        raise SettingError("--verify reads all of the source again, which no master gives twice")
    if not arguments.target:
        raise SettingError("TARGET is empty: name a folder")
    for name, offset in (("to", arguments.to_offset), ("from", arguments.from_offset)):
        if offset is not None and offset < 0:
            raise SettingError(f"--{name}-offset {offset}: is below 0")
    if arguments.dry_run and arguments.follow:
        raise SettingError("--dry-run says what is there now: not with --follow")
    if arguments.idle is not None and not arguments.follow:
        raise SettingError("--idle is that of --follow")
    seconds = (arguments.every, arguments.derive_every)
    if not (all(0 < each < _LONGEST for each in seconds)
            and 0 <= (arguments.idle or 0) < _LONGEST):  # fmt: skip
        raise SettingError("--every, --derive-every and --idle are seconds, above 0")
