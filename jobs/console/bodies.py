"""Bodies as `query` shows them: whole and sound or told, and decompressed where that is asked."""

import argparse
import base64
import zlib
from collections.abc import Callable

from reput.jobs.console.asking import number, remark
from reput.store_format.message.bodies import BodyError, BodyPastCap, decompressed
from reput.store_format.query.stored import StoredMessage

SHOWN: dict[str, Callable[[bytes], str]] = {
    "text": lambda body: body.decode("utf-8", "backslashreplace"),
    "hex": bytes.hex,
    "base64": lambda body: base64.b64encode(body).decode(),
}
_CAP = 64 << 20


def add_bodies(parser: argparse.ArgumentParser) -> None:
    """The options of how bodies are shown."""
    parser.add_argument(
        "--body", metavar="text|hex|base64|FILE",
        help="show bodies so; or write the one message's body to a new file",
    )  # fmt: skip
    parser.add_argument(
        "--decompress", action="store_true", help="bodies as their producer gave them"
    )
    parser.add_argument(
        "--cap", type=number, default=_CAP, metavar="BYTES",
        help=f"decompress no body to more than this (default {_CAP})",
    )  # fmt: skip


def body_reader(arguments: argparse.Namespace) -> Callable[[StoredMessage], bytes]:
    """Gives a message's body; what is wrong with it is told on standard error."""

    def read(message: StoredMessage) -> bytes:
        body, record = message.body(), message.record
        if body and zlib.crc32(body) & 0x7FFFFFFF != record.body_crc:
            remark(f"physical offset {record.physical_offset}: bodyCRC does not match the body")
        if not arguments.decompress:
            return body
        try:
            return decompressed(body, record.sys_flag, arguments.cap)
        except BodyPastCap as error:
            remark(f"physical offset {record.physical_offset}: {error}; the rest is left out")
            return error.start
        except BodyError as error:
            remark(f"physical offset {record.physical_offset}: {error}; it is shown as it stands")
            return body

    return read
