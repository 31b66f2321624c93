"""Headers as JSON, as fastjson reads and writes a RemotingCommand (RemotingSerializable)."""

import json
from json.encoder import encode_basestring
from typing import Any

from reput.broker.remoting.codes import Language
from reput.broker.remoting.command import BadFrame, Command, Serialization, is_int

_LANGUAGES = {language.name: int(language) for language in Language}
_NAMES = {int(language): language.name for language in Language}


def decode_json(header: bytes) -> Command:
    """The command of a header, without its body. Raises BadFrame."""
    try:
        fields = json.loads(header.decode("utf-8"))
    except (ValueError, RecursionError):
        raise BadFrame("the header is no JSON") from None
    if not isinstance(fields, dict):
        raise BadFrame("the header is no JSON object")
    for name in ("code", "opaque", "flag", "version"):
        if not is_int(fields.get(name, 0)):
            raise BadFrame(f"the header's {name} is no int")
    if "code" not in fields:
        raise BadFrame("the header has no code")
    remark = fields.get("remark")
    if not isinstance(remark, str | None):
        raise BadFrame("the header's remark is no text")
    language = fields.get("language")
    return Command(
        fields["code"],
        fields.get("opaque", 0),
        fields.get("flag", 0),
        _fields(fields.get("extFields")),
        b"",
        remark,
        fields.get("version", 0),
        _LANGUAGES.get(language, Language.OTHER) if isinstance(language, str) else Language.OTHER,
        Serialization.JSON,
    )


def _fields(fields: Any) -> dict[str, str]:
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise BadFrame("the header's extFields are no JSON object")
    if all(type(value) is str for value in fields.values()):
        return fields
    return {name: _text(value) for name, value in fields.items() if value is not None}


def _text(value: Any) -> str:
    """A field's text: clients in other languages than Java write numbers as JSON numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise BadFrame("one of the header's extFields is no text")


def encode_json(command: Command) -> bytes:
    """The header of a command, with its members in fastjson's order."""
    members = [f'"code":{int(command.code)}']
    if command.fields:
        fields = (
            f"{encode_basestring(name)}:{encode_basestring(value)}"
            for name, value in command.fields.items()
        )
        members.append(f'"extFields":{{{",".join(fields)}}}')
    language = _NAMES.get(command.language, Language.OTHER.name)
    members.append(f'"flag":{command.flag},"language":"{language}","opaque":{command.opaque}')
    if command.remark is not None:
        members.append(f'"remark":{encode_basestring(command.remark)}')
    members.append(f'"serializeTypeCurrentRPC":"JSON","version":{command.version}')
    return f"{{{','.join(members)}}}".encode("utf-8", "replace")
