"""The fields of a request's header, in the types that handlers need (CommandCustomHeader)."""

from reput.broker.wire.remoting import Command

_LONG, _DIGITS = 1 << 63, 19


class BadField(ValueError):
    """A field is missing, or is not what it should be; the message names the field."""


def text(request: Command, name: str) -> str:
    """A field that must be there. Raises BadField."""
    value = request.fields.get(name)
    if value is None:
        raise BadField(f"the custom field <{name}> is null")
    return value


def number(request: Command, name: str, default: int | None = None) -> int:
    """A field that is a Java long or int. Raises BadField where it is not, or is missing."""
    value = request.fields.get(name)
    if value is None and default is not None:
        return default
    value = text(request, name)
    digits = value[1:] if value.startswith(("-", "+")) else value  # as Long.parseLong
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _DIGITS:
        raise BadField(f"the custom field <{name}> is no number")
    found = int(value)
    if not -_LONG <= found < _LONG:
        raise BadField(f"the custom field <{name}> is no long")
    return found


def flag(request: Command, name: str) -> bool:
    """A field that Boolean.parseBoolean reads; False where it is missing."""
    return request.fields.get(name, "").lower() == "true"
