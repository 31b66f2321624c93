"""`reput serve STORE`: a name server and a broker in one, that only read a store."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from reput.jobs.console import options
from reput.jobs.console.store_there import check_store
from reput.jobs.console.voice import add_output, remark
from reput.jobs.sockets import access
from reput.store_format.release.profiles import RELEASES
from reput.store_format.release.settings import SettingError, merge_layers

if TYPE_CHECKING:
    from reput.jobs.sockets.server import Server

_DEFAULT = "127.0.0.1:9876"
_VIP_BELOW = 2  # MixAll.brokerVIPChannel

_EPILOG = f"""\
Any RocketMQ client, mqadmin or the dashboard can then read the store: the address is that of the
name server, and of the broker. What would write is refused (docs/serve.md).

  reput serve /data/store                                  at {_DEFAULT}, for this machine alone
  reput serve /data/store --listen 127.0.0.1:0             at a port that is free, and printed
  reput serve /data/store --listen 0.0.0.0:9876            for others too; nothing asks who they are
  reput serve /data/store --at 2026-01-31T12:00:00Z        without what was stored later
  reput serve /data/store --follow                         with what is stored meanwhile
  reput serve /data/damaged --salvage                      past damage in the log
  reput serve /data/repaired --ha-listen 127.0.0.1:10912   also to brokers that are its slaves
  reput serve s3://bucket/store --derived /data/rebuilt    with queues and index of `reput rebuild`

One line is printed once it answers: `ready ADDRESS`. SIGTERM or ctrl-c ends it, with 0.
exit codes: 0 ended by a signal, 2 wrong usage or no such store, 3 a file or the port failed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EPILOG
    options.add_store_path(
        parser, at_of_store="serve what was stored by then, no more; a repository "
    )
    options.add_broker(
        parser,
        f"answer as a broker of this release, {RELEASES[0]} .. {RELEASES[-1]}; default: the newest",
        "one setting by RocketMQ's name, such as brokerName; the files show sizes",
    )
    add_output(parser, times=True)
    parser.add_argument(
        "--listen", metavar="HOST:PORT", action="append", default=[],
        help=f"where to listen (default: {_DEFAULT}); may be repeated, such as with the address "
        "of the broker that message ids name",
    )  # fmt: skip
    parser.add_argument(
        "--address", metavar="HOST:PORT",
        help="the broker's address that clients get (default: the one they reach us by)",
    )  # fmt: skip
    parser.add_argument(
        "--follow", action="store_true",
        help="serve what a broker, catch-up or replicate adds to log and queues meanwhile",
    )  # fmt: skip
    parser.add_argument(
        "--in-flight", action="store_true",
        help="give again what consumers had popped and not acknowledged when the broker ended "
        "(reput groups --in-flight lists it)",
    )  # fmt: skip
    parser.add_argument(
        "--derived", metavar="DIR", help="a rebuilt set: its queues and index, not the store's own"
    )
    parser.add_argument(
        "--rebuild", action="store_true",
        help="derive queues and index anew first, for the time being; done by itself where the "
        "store has no queues",
    )  # fmt: skip
    parser.add_argument(
        "--salvage", action="store_true", help="as --rebuild, and leave damage in the log out"
    )
    parser.add_argument(
        "--max-connections", type=int, default=4096, metavar="N", help="at once (default: 4096)"
    )
    access.add_access_arguments(parser)
    access.add_slave_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from reput.jobs.sockets.opened import ServedSource, derived_anew, has_queues, open_broker
    from reput.jobs.sockets.server import Limits, Server

    listen = [options.host_port("--listen", text) for text in arguments.listen or [_DEFAULT]]
    if arguments.address:
        options.host_port("--address", arguments.address)
    _check_words(arguments)
    tls = access.tls_of(arguments)
    settings = merge_layers(*options.setting_layers(arguments))
    check_store(arguments.store, settings)
    # SIGTERM and ctrl-c end the server with code 0, even before it answers
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        derived = arguments.derived
        anew = arguments.rebuild or arguments.salvage
        if derived is None and (anew or not has_queues(arguments.store)):
            if arguments.follow:
                raise SettingError("--follow is of a store that has queues: see reput catch-up")
            derived = stack.enter_context(
                derived_anew(
                    arguments.store, arguments.rocketmq, settings, arguments.salvage, remark
                )
            )
        source = ServedSource(
            arguments.store, arguments.rocketmq, settings, derived, arguments.at,
            arguments.address, arguments.follow,
        )  # fmt: skip
        broker = open_broker(source, remark)
        stack.callback(broker.store.close)
        stack.callback(access.arrange_access(arguments, settings, broker, remark))
        if arguments.in_flight:
            from reput.jobs.sockets.opened import take_in_flight

            take_in_flight(broker, remark)
        if arguments.ha_listen:
            slaves_at = options.host_port("--ha-listen", arguments.ha_listen)
            stack.callback(access.serve_slaves(arguments, slaves_at, settings, broker, remark))
        limits = Limits(connections=arguments.max_connections)
        server = partial(Server, broker, limits, remark, arguments.follow, tls)
        asyncio.run(_serve(server, listen, arguments))
    return options.DONE


async def _serve(
    make: Callable[[], "Server"], listen: list[tuple[str, int]], arguments: argparse.Namespace
) -> None:
    from reput.jobs.sockets.server import on_signal

    ended = on_signal((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    server = make()
    try:
        addresses = [server.listen(host, port) for host, port in listen]
        for host, port in listen:
            if port > _VIP_BELOW:
                with suppress(OSError):  # for clients up to 4.4.0; the port may be taken
                    server.listen(host, port - _VIP_BELOW)
        options.show(arguments, {"ready": addresses}, f"ready {' '.join(addresses)}")
        sys.stdout.flush()
        await ended.wait()
    finally:
        server.close()


def _check_words(arguments: argparse.Namespace) -> None:
    """Raise SettingError for options that exclude each other, and for wrong values."""
    if arguments.follow and arguments.at is not None:
        raise SettingError("--at is a time in the past: not with --follow")
    if arguments.in_flight and (arguments.at is not None or arguments.follow):
        raise SettingError("--in-flight is of a broker that ended: not with --at or --follow")
    if arguments.derived and (arguments.rebuild or arguments.salvage):
        raise SettingError("--derived has queues and index: not with --rebuild or --salvage")
    if arguments.max_connections < 1:
        raise SettingError("--max-connections is a number from 1 on")
