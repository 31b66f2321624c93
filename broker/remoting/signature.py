"""Signatures of requests (ACL 1.0: AclClientRPCHook signs, PlainAccessValidator checks).

HMAC-SHA1 in Base64 over the values of all header fields, in the order of their names, and the body.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping

ACCESS_KEY, SIGNATURE = "AccessKey", "Signature"  # SessionCredentials
# MixAll.UNIQUE_MSG_QUERY_FLAG: PlainAccessValidator leaves it out, since older clients add it
# when they have signed; newer ones have it among what they sign.
_UNIQUE_QUERY = "_UNIQUE_KEY_QUERY"


def signature(fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """What a client puts in the field Signature (AclUtils.calSignature)."""
    # String.compareTo orders by UTF-16 units, which begins to differ above the BMP.
    names = sorted((name for name in fields if name != SIGNATURE), key=_as_java)
    content = "".join(fields[name] for name in names).encode("utf-8", "replace") + body
    key = secret_key.encode("utf-8", "replace")
    return base64.b64encode(hmac.new(key, content, hashlib.sha1).digest()).decode()


def signed_by(fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    """Whether the field Signature is the one of this secret key; takes as long if it is not."""
    given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    without = {name: value for name, value in fields.items() if name != _UNIQUE_QUERY}
    whole = hmac.compare_digest(given, signature(fields, body, secret_key).encode())
    return hmac.compare_digest(given, signature(without, body, secret_key).encode()) or whole


def _as_java(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
