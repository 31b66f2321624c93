"""Access keys and their secret keys (ACL 1.0), from a file that only its owner can read.

The file is like mqadmin's conf/tools.yml, or the accounts of plain_acl.yml: pairs of lines
`accessKey: NAME` and `secretKey: TEXT`. Each key may read everything; nothing can be written.
"""

import os
import re

from reput.broker.serving.broker import Answer, Broker, Caller, Guard, refused
from reput.broker.wire.codes import ResponseCode
from reput.broker.wire.remoting import ACCESS_KEY, Command, signed_by
from reput.jobs.serve.tls import refuse_readable_by_others
from reput.store_format.faults import StoreError

_LINE = re.compile(r"""\s*(?:-\s+)?(accessKey|secretKey):\s*(["']?)(\S+?)\2(?:\s+#.*|\s*)""")
_BYTES_MOST = 1 << 20
_NOBODYS_SECRET = "no account"  # so an unknown access key takes as long as a known one


def read_access_keys(path: str) -> dict[str, str]:
    """Access key -> secret key. Raises StoreError, OSError, whose messages have no key."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        refuse_readable_by_others(path, os.fstat(descriptor).st_mode)
        raw = file.read(_BYTES_MOST + 1)
    if len(raw) > _BYTES_MOST:
        raise StoreError(f"{path}: more than {_BYTES_MOST} bytes are too many")
    try:
        lines = raw.decode().splitlines()
    except UnicodeDecodeError:
        raise StoreError(f"{path}: is no text in UTF-8") from None
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
