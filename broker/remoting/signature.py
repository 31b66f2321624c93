"""Signatures of requests (ACL 1.0: AclClientRPCHook signs, PlainAccessValidator checks).

HMAC-SHA1 in Base64 over the values of the other header fields, sorted by name, and the body.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

ACCESS_KEY, SIGNATURE = "AccessKey", "Signature"  # SessionCredentials
# MixAll.UNIQUE_MSG_QUERY_FLAG: PlainAccessValidator leaves this field out, since older clients add
# it after they have signed; newer clients sign it too.
_UNIQUE_QUERY = "_UNIQUE_KEY_QUERY"


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """The value of the field Signature as a client computes it (AclUtils.calSignature)."""
    # String.compareTo orders by UTF-16 units, which above the BMP differs from Python's order.
    names = sorted((name for name in fields if name != SIGNATURE), key=_as_java)
    content = "".join(fields[name] for name in names).encode("utf-8", "replace") + body
    key = secret_key.encode("utf-8", "replace")
    return base64.b64encode(hmac.new(key, content, hashlib.sha1).digest()).decode()


def signed_by(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    """Whether the field Signature was computed with this secret key. Compares in constant time."""
    given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    without = {name: value for name, value in fields.items() if name != _UNIQUE_QUERY}
    whole = hmac.compare_digest(given, signature(fields, body, secret_key).encode())
    return hmac.compare_digest(given, signature(without, body, secret_key).encode()) or whole


def _as_java(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
