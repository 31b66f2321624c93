"""`reput replicate`: a second store with the same log, from a folder, a URL or a live master."""

import argparse
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from reput.jobs.console.options import (
    DAMAGE,
    DONE,
    TIME_FORMS,
    add_broker,
    add_consent,
    add_timezone,
    before,
    consent,
    host_port,
    options_of_job,
    progress_of,
    setting_layers,
    show,
)
from reput.jobs.console.voice import add_output
from reput.store_format.faults import StoreError
from reput.store_format.notes import Progress
from reput.store_format.release.settings import SettingError, merge_layers

if TYPE_CHECKING:
    from reput.jobs.replicating.target import Replicated
    from reput.store_format.files.protocol import Storage

_HELP = """\
Copies a store's log, byte for byte, to a local folder that a broker can start on at any moment,
and the files of config/ that a slave asks its master for. Every record is checked on the way. What
was killed goes on where it stood; a target that is no beginning of the source is refused. Queues
and index are derived from what was copied.

  reput replicate /data/store /data/replica
  reput replicate s3://bucket/store /data/replica --until 2026-11-22T12:00:00Z
  reput replicate /data/store /data/replica --follow --rate 50MB      of a live broker's store
  reput replicate --master 10.0.0.5:10912 /data/replica --follow      over the wire, as a slave does
"""
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LONGEST = 1e9  # seconds; neither inf nor nan is below


def replicate(  # noqa: PLR0913 (a user's options)
    source: str,
    target: str,
    *,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    to_offset: int | None = None,
    to_time: int | None = None,
    follow: bool = False,
    every: float = 1.0,
    idle: float | None = None,
    derive: bool = True,
    derive_every: float = 30.0,
    rate: float | None = None,
    check_crc: bool = True,
    verify: bool = False,
    dry_run: bool = False,
    storage: "Storage | None" = None,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
) -> "Replicated":
    """Make or extend a replica of the store `source` in the folder `target`.

    source: a store, path or URL; target: a local folder.
    to_offset: copy no record that ends after this physical offset.
    to_time: copy no record from the first on with a later storeTimestamp (milliseconds).
    follow: go on while the source grows; every: seconds between rounds.
    idle: seconds without new records after which `follow` ends (None: never).
    derive: whether to derive queues and index; derive_every: seconds between, while following.
    rate: bytes a second.
    verify: first compare the whole replica with the source, not only its ends.
    confirm: asked before a store that is no replica is extended; raises StoreError to stop.

    Raises StoreError (OverlapsInput, StoreInUse, ReplicaDiffers, SourceCleaned, DamageFound),
    SettingError, UnknownRelease, OSError. Records copied before stay, and are a store.
    """
    from reput.jobs.replicating.from_folder import ReplicationOptions, wanted_up_to
    from reput.jobs.replicating.replicate import from_store
    from reput.store_format.discover.store import store_at

    started = time.monotonic()
    options = ReplicationOptions(
        wanted_up_to(to_offset, to_time),
        follow,
        every,
        idle,
        derive,
        derive_every,
        rate,
        check_crc,
        verify,
    )
    at = store_at(source, rocketmq, settings, storage)
    about = from_store(
        at._replace(path=at.path.rstrip("/")), _local(target), options, dry_run,
        progress or Progress(), confirm,
    )  # fmt: skip
    about.seconds = time.monotonic() - started
    return about


def replicate_from(  # noqa: PLR0913 (a user's options)
    master: str,
    target: str,
    *,
    broker: str | None = None,
    from_offset: int | None = None,
    controller: bool = False,
    rocketmq: str | None = None,
    settings: Mapping[str, str] | None = None,
    to_offset: int | None = None,
    to_time: int | None = None,
    follow: bool = False,
    idle: float | None = None,
    derive: bool = True,
    derive_every: float = 30.0,
    rate: float | None = None,
    check_crc: bool = True,
    progress: Progress | None = None,
    confirm: Callable[[str], None] = lambda _: None,
) -> "Replicated":
    """Make or extend a replica of a live master's store, by its replication port.

    master: HOST:PORT of the replication port (10912).
    broker: HOST:PORT of the broker itself, by default with the port before; it is asked for the
    log's start, sizes, release and config/. "": no requests.
    from_offset: start of the log, if the broker is not asked.
    controller: whether the master is under a controller (5.x).
    target: a local folder; to_offset, to_time: as for `replicate`.
    follow: go on while the log grows; idle: seconds without new records after which it ends
    (None: never).
    derive: whether to derive queues and index; derive_every: seconds between, while following.
    rate: bytes a second.
    confirm: asked before a store that is no replica is extended; raises StoreError to stop.

    Raises ReplicaDiffers, PeerFailed, StoreError, SettingError, OSError.
    """
    from reput.jobs.replicating.from_folder import ReplicationOptions, wanted_up_to
    from reput.jobs.replicating.from_master import Master
    from reput.jobs.replicating.replicate import from_master

    started = time.monotonic()
    address = host_port("--master", master, least=1)
    asked = (address[0], address[1] - 1) if broker is None else None
    if broker:
        asked = host_port("--broker", broker, least=1)
    options = ReplicationOptions(
        wanted_up_to(to_offset, to_time), follow, 1.0, idle, derive, derive_every, rate, check_crc
    )
    about = from_master(
        Master(address, asked, from_offset, controller), _local(target), rocketmq, settings or {},
        options, progress or Progress(), confirm,
    )  # fmt: skip
    about.seconds = time.monotonic() - started
    return about


def _local(target: str) -> str:
    """The target's path. Raises StoreError for a URL."""
    from reput.store_format.files.by_url import storage_for
    from reput.store_format.files.local import LocalStorage

    if type(storage_for(target)) is not LocalStorage:
        raise StoreError(f"{target}: a replica is a local folder, as a broker is to start on it")
    return LocalStorage().resolve(target)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _HELP
    parser.add_argument(
        "store", metavar="SOURCE", nargs="?",
        help="the store to copy, path or URL: it holds commitlog/; not with --master",
    )  # fmt: skip
    parser.add_argument("target", metavar="TARGET", help="a local folder: new, or a replica")
    add_broker(parser, "the source's release; without it, as its files show")
    add_timezone(parser)
    add_consent(parser)
    parser.add_argument(
        "--master", metavar="HOST:PORT",
        help="copy over the wire from a live master's replication port (10912)",
    )  # fmt: skip
    parser.add_argument(
        "--broker", metavar="HOST:PORT",
        help="with --master: the broker's own port, which knows where its log begins, sizes and "
        "config (default: the port before); '' asks nobody",
    )  # fmt: skip
    parser.add_argument(
        "--from-offset", type=int, metavar="N",
        help="with --master: where its log begins, if the broker is not asked",
    )  # fmt: skip
    parser.add_argument(
        "--controller", action="store_true",
        help="with --master: it is under a controller (AutoSwitchHAService)",
    )  # fmt: skip
    parser.add_argument(
        "--to-offset", type=int, metavar="N", help="no record that ends behind physical offset N"
    )
    parser.add_argument(
        "--until", dest="to_time", type=before, metavar="TIME",
        help=f"none from the first record on that was stored then or later: {TIME_FORMS}",
    )  # fmt: skip
    parser.add_argument(
        "--follow", action="store_true", help="go on while the source grows, until --idle"
    )
    parser.add_argument(
        "--every", type=float, default=1.0, metavar="SECONDS", help="with --follow: how often (1)"
    )
    parser.add_argument(
        "--idle", type=float, metavar="SECONDS",
        help="with --follow: end when nothing new has come for so long",
    )  # fmt: skip
    parser.add_argument(
        "--rate", metavar="BYTES", help="bytes a second at most (also 500K, 50M, 1G)"
    )
    parser.add_argument(
        "--no-derived", action="store_true", help="only the log: no queues, no index"
    )
    parser.add_argument(
        "--derive-every", type=float, default=30.0, metavar="SECONDS",
        help="with --follow: how often queues and index go on (30)",
    )  # fmt: skip
    parser.add_argument(
        "--verify", action="store_true",
        help="compare all that the replica holds with the source first, not its ends alone",
    )  # fmt: skip
    parser.add_argument("--no-check-crc", action="store_true", help="do not check body CRCs")
    add_output(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replicate, and say what was copied: 0 done, 1 --dry-run found something to copy."""
    _check_words(arguments)
    agree = consent(arguments.yes)
    if arguments.master:
        about = replicate_from(
            arguments.master, arguments.target, broker=arguments.broker,
            from_offset=arguments.from_offset, controller=arguments.controller,
            rocketmq=arguments.rocketmq, settings=merge_layers(*setting_layers(arguments)),
            progress=progress_of(arguments), confirm=agree, **_common(arguments),
        )  # fmt: skip
    else:
        about = replicate(
            arguments.store, arguments.target, dry_run=arguments.dry_run, every=arguments.every,
            verify=arguments.verify, confirm=agree, **_common(arguments),
            **options_of_job(arguments),
        )  # fmt: skip
    show(arguments, about.as_json(), about.text())
    return DAMAGE if about.dry_run and about.end > about.resumed_at else DONE


def _common(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "to_offset": arguments.to_offset, "to_time": arguments.to_time,
        "follow": arguments.follow, "idle": arguments.idle,
        "derive": not arguments.no_derived, "derive_every": arguments.derive_every,
        "rate": None if arguments.rate is None else _rate(arguments.rate),
        "check_crc": not arguments.no_check_crc,
    }  # fmt: skip


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


def _rate(text: str) -> float:
    """Bytes a second. Raises SettingError."""
    size = text.strip().upper().removesuffix("B")
    unit = size[-1:] if size[-1:] in ("K", "M", "G") else ""
    number = size.removesuffix(unit) if unit else size
    if not (number.isascii() and number.isdigit() and int(number)):
        raise SettingError(f"--rate {text}: expected a number of bytes a second, as 50M")
    return float(int(number) * _SIZES[unit])
