"""Options of `reput serve` for access and for the offsets kept of clients, and their effects."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from reput.broker.serving.broker import Broker
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.serve.tls import TlsMode


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--group-offsets", metavar="FILE",
        help="keep the offsets that consumer groups commit, and what they have popped, in "
        "this file; otherwise they are forgotten at the end",
    )  # fmt: skip
    parser.add_argument(
        "--access-keys", metavar="FILE",
        help="answer only requests that are signed with a key of this file (ACL 1.0), which only "
        "its owner may be able to read: lines of accessKey: NAME and secretKey: TEXT",
    )  # fmt: skip
    parser.add_argument(
        "--tls-cert", metavar="FILE", help="TLS too, on the same port: a certificate as PEM"
    )
    parser.add_argument("--tls-key", metavar="FILE", help="the certificate's key as PEM")
    parser.add_argument("--tls-required", action="store_true", help="TLS alone")


def tls_of(arguments: argparse.Namespace) -> "TlsMode | None":
    """The TLS mode that the options give. Raises SettingError, StoreError, OSError."""
    certificate, key = arguments.tls_cert, arguments.tls_key
    if (certificate is None) != (key is None) or (arguments.tls_required and key is None):
        raise SettingError("--tls-cert and --tls-key belong together, and --tls-required to both")
    if key is None:
        return None
    from reput.jobs.serve.tls import tls_mode

    return tls_mode(certificate, key, arguments.tls_required)


def arrange_access(
    arguments: argparse.Namespace, settings: Mapping[str, str], broker: Broker,
    tell: Callable[[str], None],
) -> Callable[[], None]:  # fmt: skip
    """Apply the options. Returns what to call at the end. Raises StoreError, OSError."""
    if arguments.access_keys is not None:
        from reput.jobs.serve.access_keys import guard_by, read_access_keys

        broker.guards.append(guard_by(read_access_keys(arguments.access_keys)))
    if arguments.group_offsets is None:
        return lambda: None
    from reput.jobs.outputs.output import inputs_of
    from reput.jobs.serve.offsets_file import OffsetsFile
    from reput.store_format.files.by_url import storage_for
    from reput.store_format.notes import Notes

    storage = storage_for(arguments.store)
    store = storage.resolve(arguments.store)
    inputs = inputs_of(storage, store, settings)
    if arguments.derived is not None:
        there = storage_for(arguments.derived)
        inputs += inputs_of(there, there.resolve(arguments.derived), {})
    file = OffsetsFile(arguments.group_offsets, inputs)
    broker.offsets.take(file.over(broker.offsets.all(), Notes(tell)))
    file.restore(broker, Notes(tell))
    broker.ticked.append(file.ticking(broker, tell))
    return lambda: file.write(broker)
