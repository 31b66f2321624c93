"""`reput serve STORE`: a name server and a broker in one, that only read a store."""

import argparse
import asyncio
import signal
import sys
from typing import TYPE_CHECKING

from reput.jobs.console.asking import add_asked_store, remark
from reput.jobs.console.options import DONE, setting_layers
from reput.jobs.console.store_there import check_store
from reput.jobs.serve.access import add_access_arguments, arrange_access
from reput.store_format.release.settings import SettingError, merge_layers

if TYPE_CHECKING:
    from reput.jobs.serve.server import Limits
    from reput.store_format.serving.broker import Broker

_EPILOG = """\
Any RocketMQ client, mqadmin or the dashboard can then read the store, with the address as that of
the name server: routes, pulls, offsets, queries by key and id. What would write is refused.

  reput serve /data/store                              at 127.0.0.1:9876
  reput serve /data/store --listen 127.0.0.1:0         at a port that is free, which is printed
  reput serve /data/store --listen 0.0.0.0:9876 --address 10.0.0.7:9876

One line is printed once it answers: `ready ADDRESS`. SIGTERM and ctrl-c end it, with 0.
exit codes: 0 ended by a signal, 2 wrong usage or no such store, 3 a file or the port failed
"""
_DEFAULT = "127.0.0.1:9876"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `reput serve`."""
    parser.epilog = _EPILOG
    add_asked_store(parser, scan=False)
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=_DEFAULT,
        help=f"where to listen (default: {_DEFAULT}, this machine alone)",
    )  # fmt: skip
    parser.add_argument(
        "--address", metavar="HOST:PORT",
        help="the broker's address that clients are told (default: the one they reach us by)",
    )  # fmt: skip
    parser.add_argument(
        "--max-connections", type=int, default=4096, metavar="N", help="at once (default: 4096)"
    )
    add_access_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from reput.jobs.serve.opening import open_broker
    from reput.jobs.serve.server import Limits

    host, port = _host_port(arguments.listen, "--listen")
    if arguments.address:
        _host_port(arguments.address, "--address")
    settings = merge_layers(*setting_layers(arguments))
    check_store(arguments.store, settings)
    broker = open_broker(arguments.store, arguments.rocketmq, settings, arguments.address, remark)
    finish = arrange_access(arguments, broker, remark)
    limits = Limits(connections=arguments.max_connections)
    try:
        asyncio.run(_serve(broker, host, port, limits))
    finally:
        finish()
    return DONE


async def _serve(broker: "Broker", host: str, port: int, limits: "Limits") -> None:
    from reput.jobs.serve.server import Server, until_signal

    server = Server(broker, limits, remark)
    host, port = server.listen(host, port)
    sys.stdout.write(f"ready {host}:{port}\n")
    sys.stdout.flush()
    try:
        await until_signal((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    finally:
        server.close()


def _host_port(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingError(f"{option} {text!r} is no address: HOST:PORT")
    return host.strip("[]"), int(port)
