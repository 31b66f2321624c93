"""Options of `reput serve` and their effects: keys, TLS, offsets kept, real slaves."""

import argparse
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reput.broker.serving.broker import Answer, Broker, Caller, Guard, refused
from reput.broker.serving.popped import popped_rows, restore
from reput.broker.wire.codes import ResponseCode
from reput.broker.wire.remoting import ACCESS_KEY, Command, signed_by
from reput.jobs.outputs.output import WholeFile, inputs_of
from reput.jobs.outputs.report import counted
from reput.jobs.sockets.connection import refuse_readable_by_others, tls_mode
from reput.store_format.discover.config import Offsets, offsets_of_table
from reput.store_format.discover.store import StoreAt
from reput.store_format.faults import StoreError
from reput.store_format.files.by_url import place_at
from reput.store_format.files.folder import Place
from reput.store_format.java import quoted_keys
from reput.store_format.notes import Notes
from reput.store_format.release.settings import SettingError

if TYPE_CHECKING:
    from reput.jobs.sockets.connection import TlsMode


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
    names = {certificate: "--tls-cert", key: "--tls-key"}
    with readable(names):
        return tls_mode(certificate, key, arguments.tls_required)


@contextmanager
def readable(options: Mapping[str, str]) -> Iterator[None]:
    """Name the option whose file cannot be read. options: path -> option. Raises StoreError."""
    try:
        yield
    except OSError as error:
        if error.filename not in options:
            raise
        text = f"{options[error.filename]} {error.filename}: {error.strerror}"
        raise StoreError(text) from None


def arrange_access(
    arguments: argparse.Namespace, settings: Mapping[str, str], broker: Broker,
    tell: Callable[[str], None],
) -> Callable[[], None]:  # fmt: skip
    """Apply the options. Returns what to call at the end. Raises StoreError, OSError."""
    if arguments.access_keys is not None:
        with readable({arguments.access_keys: "--access-keys"}):
            broker.guards.append(guard_by(read_access_keys(arguments.access_keys)))
    if arguments.group_offsets is None:
        return lambda: None
    inputs = inputs_of(place_at(arguments.store), settings)
    if arguments.derived is not None:
        inputs += inputs_of(place_at(arguments.derived), {})
    file = OffsetsFile(arguments.group_offsets, inputs)
    broker.offsets.take(file.over(broker.offsets.all(), Notes(tell)))
    file.restore(broker, Notes(tell))
    broker.ticked.append(file.ticking(broker, tell))
    return lambda: file.write(broker)


# ---
# Access keys and their secret keys (ACL 1.0), from a file that only its owner can read.
#
# The file is like mqadmin's conf/tools.yml, or the accounts of plain_acl.yml: pairs of lines
# `accessKey: NAME` and `secretKey: TEXT`. Each key may read everything; nothing can be written.

_LINE = re.compile(r"""\s*(?:-\s+)?(accessKey|secretKey):\s*(["']?)(\S+?)\2(?:\s+#.*|\s*)""")
_KEYS_BYTES_MOST = 1 << 20
_NOBODYS_SECRET = "no account"  # so an unknown access key takes as long as a known one


def read_access_keys(path: str) -> dict[str, str]:
    """Access key -> secret key. Raises StoreError, OSError, whose messages have no key."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        refuse_readable_by_others(path, os.fstat(descriptor).st_mode)
        raw = file.read(_KEYS_BYTES_MOST + 1)
    if len(raw) > _KEYS_BYTES_MOST:
        raise StoreError(f"{path}: more than {_KEYS_BYTES_MOST} bytes are too many")
    try:
        lines = raw.decode().splitlines()
    except UnicodeDecodeError:
        raise StoreError(f"{path}: is not text in UTF-8") from None
    return _pairs(path, lines)


def _pairs(path: str, lines: list[str]) -> dict[str, str]:
    keys: dict[str, str] = {}
    waiting: str | None = None
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        if found[1] == "accessKey" and waiting is None:
            waiting = found[3]
        elif found[1] == "secretKey" and waiting is not None and waiting not in keys:
            keys[waiting], waiting = found[3], None
        else:
            raise StoreError(f"{path}: line {number}: accessKey and secretKey do not alternate")
    if waiting is not None or not keys:
        raise StoreError(f"{path}: no accessKey with its secretKey: two lines `accessKey: NAME`, "
                         "`secretKey: TEXT` are wanted")  # fmt: skip
    return keys


def guard_by(keys: dict[str, str]) -> Guard:
    """A guard that refuses requests not signed with one of the keys."""

    def guard(broker: Broker, request: Command, caller: Caller) -> Answer | None:
        why = _why_refused(keys, request)
        return None if why is None else refused(ResponseCode.NO_PERMISSION, why)

    return guard


def _why_refused(keys: dict[str, str], request: Command) -> str | None:
    """The reason of a refusal, in PlainPermissionManager's words; None: the request is allowed."""
    name = request.fields.get(ACCESS_KEY)
    if name is None:
        return "No accessKey is configured"
    signed = signed_by(request.fields, request.body or b"", keys.get(name, _NOBODYS_SECRET))
    if name not in keys:
        return f"No acl config for {name[:64]}"
    return None if signed else f"Check signature failed for accessKey={name}"


# ---
# `--group-offsets FILE`: a file beside the store that keeps committed offsets and popped messages
# after the server has ended. It is like a broker's consumerOffset.json, with popped messages beside
# the offsetTable. The store itself is never written to.

_BEGINS = b'{"offsetTable":'
_OFFSETS_BYTES_MOST = 256 << 20
_WRITTEN_EVERY = 5000  # BrokerConfig.flushConsumerOffsetInterval, milliseconds


class OffsetsFile:
    """The file, which is replaced as a whole. A file of another kind is not replaced."""

    def __init__(self, path: str, inputs: Iterable[Place]) -> None:
        """inputs: the served store. Raises StoreError for a foreign file, or a path in an input."""
        self._file = WholeFile(path, tuple(inputs), _BEGINS, replace=True)
        self._file.check()
        self._changes = self._time = 0
        self._table: Mapping[str, Any] = {}

    def over(self, start: Offsets, notes: Notes) -> Offsets:
        """The store's offsets, replaced by those in the file. Raises StoreError, OSError."""
        path = self._file.path
        try:
            with open(path, "rb") as file:
                raw = file.read(_OFFSETS_BYTES_MOST + 1)
        except FileNotFoundError:
            return start
        if len(raw) > _OFFSETS_BYTES_MOST:
            raise StoreError(f"{path}: more than {_OFFSETS_BYTES_MOST} bytes are too many")
        try:
            self._table = json.loads(quoted_keys(raw))
            table = self._table["offsetTable"]
        except (ValueError, KeyError, TypeError, RecursionError):
            table = None
        if not isinstance(table, dict):
            raise StoreError(f"{path}: has no offsetTable; it is left as it is")
        kept = offsets_of_table(table, notes)
        return {key: {**start.get(key, {}), **kept.get(key, {})} for key in {**start, **kept}}

    def restore(self, broker: Broker, notes: Notes) -> None:
        """Give a broker the popped messages of the file that `over` has read."""
        if wrong := restore(self._table, broker.in_flight, broker.orders):
            notes.note(f"{self._file.path}: left out: {counted(wrong, 'row')} of popped messages")

    def write(self, broker: Broker) -> None:
        """Write the file if offsets or popped messages changed. Raises StoreError, OSError."""
        offsets = broker.offsets
        changes = offsets.changes + broker.in_flight.changes + broker.orders.changes
        if changes == self._changes:
            return
        popped = popped_rows(broker.in_flight, broker.orders)
        more = "".join(f',"{name}":{json.dumps(each)}' for name, each in popped.items() if each)
        table = json.dumps(offsets.table(), ensure_ascii=False)
        text = _BEGINS + f"{table}{more}}}\n".encode()
        with self._file.writing() as file:
            file.write(text)
        self._changes = changes

    def ticking(self, broker: Broker, tell: Callable[[str], None]) -> Callable[[int], None]:
        """A function that writes the file every few seconds; it tells errors and tries again."""

        def tick(now: int) -> None:
            if now - self._time < _WRITTEN_EVERY:
                return
            self._time = now
            try:
                self.write(broker)
            except (StoreError, OSError) as error:
                tell(f"group offsets were not written: {error}")

        return tick


# ---
# `reput serve --ha-listen`: serves the log to real brokers that are SLAVEs, besides clients.

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

    if arguments.at is not None:
        raise SettingError("--ha-listen sends all of the log: not with --at")
    at = place_at(arguments.store)
    log = StoreLog(StoreAt(at.storage, at.path.rstrip("/"), arguments.rocketmq, settings))
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
