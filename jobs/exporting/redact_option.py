"""Parses `--redact`, and finds the values to be redacted before messages are written."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from reput.jobs.outputs.report import counted
from reput.store_format.filter.texts import LEAST, Repeats
from reput.store_format.release.settings import SettingError
from reput.udfs.table.redaction import BODY, BODY_HASH, PROPERTY, Redaction

# Redaction -> texts found in the log, with their numbers of messages (udfs LookThrough).
Look = Callable[[Redaction], Counter[bytes]]


def redaction(words: Sequence[str]) -> Redaction | None:
    """The redaction of `body`, `body:hash`, `property:NAME` words, if any. Raises SettingError."""
    body, names = None, set()
    for word in words:
        if word in (BODY, BODY_HASH) and body in (None, word):
            body = word
        elif word.startswith(PROPERTY) and len(word) > len(PROPERTY):
            names.add(word.removeprefix(PROPERTY))
        else:
            raise SettingError(f"--redact {word}: body, body:hash or property:NAME is wanted")
    return Redaction(body, frozenset(names)) if words else None


def looked_through(
    redacted: Redaction, look: Look, texts: Mapping[str, str], keep_repeats: bool,
    warnings: list[str],
) -> Redaction:  # fmt: skip
    """The redaction with the values that it takes out.

    texts: name -> text that is written besides messages. If a value also stands where it cannot be
    taken out, raises SettingError, or with keep_repeats adds a warning.
    """
    if not redacted.properties:
        return redacted
    values = look(redacted)
    knowing = replace(redacted, repeats=Repeats(values))
    if short := len(values) - len(knowing.repeats.texts):
        warnings.append(f"{short:,} redacted values have fewer than {LEAST} bytes: not looked for")
    if not knowing.repeats.texts:
        return knowing
    left = [
        f"{name.decode()} ({counted(many, 'message')})"
        for name, many in sorted(look(knowing).items())
    ]
    raw = [text.encode("utf-8", "replace") for text in texts.values()]
    left += [name for n, name in enumerate(texts) if n in knowing.repeats.found_in(raw)]
    if left:
        said = f"--redact: what is redacted stands in {', '.join(left)} too"
        if not keep_repeats:
            body = "--redact body removes bodies, " if left[0].startswith(BODY) else ""
            raise SettingError(f"{said}: {body}--keep-repeats leaves all of it")
        warnings.append(f"{said}, and stays")
    return knowing
