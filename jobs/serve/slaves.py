"""`reput serve --ha-listen`: serves the log to real brokers that are SLAVEs, besides clients."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.broker.serving.broker import Broker

_LOOK_SECONDS = 1.0


def add_slave_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ha-listen", metavar="HOST:PORT",
        help="be the master of real brokers with brokerRole=SLAVE, which copy the log from there "
        "(docs/replicate.md)",
    )  # fmt: skip


def serve_slaves(
    arguments: argparse.Namespace, listen: tuple[str, int], settings: Mapping[str, str],
    broker: "Broker", said: Callable[[str], None],
) -> Callable[[], None]:  # fmt: skip
    """Serve slaves. Returns what ends the service. Raises SettingError, StoreError, OSError."""
    from reput.broker.writer.flush import Periodic
    from reput.jobs.replicating.master import HaMaster, StoreLog
    from reput.store_format.discover.store import StoreAt
    from reput.store_format.files.by_url import storage_for

    if arguments.at is not None:
        raise SettingError("--ha-listen sends all of the log: not with --at")
    storage = storage_for(arguments.store)
    path = storage.resolve(arguments.store).rstrip("/")
    log = StoreLog(StoreAt(storage, path, arguments.rocketmq, settings))
    master = HaMaster(log, listen, said=said)
    master.start()
    broker.slaves_at = master.address
    said(f"slaves get the log at {master.address[0]}:{master.address[1]}")
    if not arguments.follow:
        return master.stop

    def failed(error: BaseException) -> None:
        said(f"slaves get no more of the log: {error}")

    looking = Periodic("ha-look", _LOOK_SECONDS, log.refresh, failed)

    def stop() -> None:
        looking.stop()
        master.stop()

    return stop
