"""JSON as RocketMQ writes it by fastjson, which leaves integer keys without quotes."""

import re

# A text, or a key without quotes.
_TEXT_OR_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"|([{,]\s*)(-?[0-9]+)(\s*:)')


def quoted_keys(raw: bytes, mark: bytes = b"") -> bytes:
    """The JSON with its integer keys as texts, each with `mark` before it."""

    def quoted(found: re.Match[bytes]) -> bytes:
        if found[2] is None:
            return found[0]
        return b'%b"%b%b"%b' % (found[1], mark, found[2], found[3])

    return _TEXT_OR_KEY.sub(quoted, raw)
