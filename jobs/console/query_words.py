"""Refuses options of `reput query` that do not go together, so that none is ignored."""

import argparse

from reput.store_format.faults import StoreError

_TIMES, _FILTERS = {"--since", "--until"}, {"--tags", "--sql", "--grep"}
# What is asked for -> options that narrow it. --max, --count and --scan go with everything.
_OBEYED = {
    "--key": _TIMES | _FILTERS | {"--topic", "--as-rocketmq"},
    "--keys-file": _TIMES | _FILTERS | {"--topic"},
    "--unique-key": {"--topic", "--as-rocketmq"},
    "--message-id": {"--topic"},
    "a position in a queue": _FILTERS | {"--topic", "--queue"},
    "a place in the log": set[str](),
    "a topic": _TIMES | _FILTERS | {"--topic", "--queue", "--as-rocketmq"},
    "the whole log": _TIMES | _FILTERS,
}
_NAMES = {"begin": "--since", "end": "--until"}
_NARROWING = (
    "topic", "queue", "begin", "end", "tags", "sql", "grep", "as_rocketmq",
)  # fmt: skip


def refuse_words(arguments: argparse.Namespace) -> None:
    """Raise StoreError if options ask for nothing, for two things at once, or would be ignored."""
    way = _way(arguments)
    values = {_option(name): getattr(arguments, name) for name in _NARROWING}
    given = {option for option, value in values.items() if value is not None and value is not False}
    if way in ("--key", "--keys-file") and "--topic" not in given:
        raise StoreError(f"{way} is looked up in a topic: name it with --topic")
    if "--queue" in given and "--topic" not in given:
        raise StoreError("--queue is one of a topic: name it with --topic")
    unheeded = sorted(given - _OBEYED[way])
    if unheeded:
        raise StoreError(f"{', '.join(unheeded)}: not obeyed where {way} is asked for")
    if arguments.as_rocketmq and arguments.scan:
        raise StoreError("--as-rocketmq: a broker never answers by --scan")
    if arguments.as_rocketmq and arguments.rocketmq is None:
        raise StoreError("--as-rocketmq: brokers differ: name the release with --rocketmq")
    if arguments.decompress and not arguments.body:
        raise StoreError("--decompress: no body is shown: name the form with --body")


def _way(arguments: argparse.Namespace) -> str:
    """What is asked for: a key of _OBEYED. Raises StoreError."""
    named = [
        _option(name) for name in ("key", "keys_file", "unique_key", "message_id", "offset")
        if getattr(arguments, name) is not None
    ]  # fmt: skip
    if len(named) > 1:
        raise StoreError(f"{', '.join(named)}: one of them is asked for at a time")
    if named and named != ["--offset"]:
        return named[0]
    if named:
        if (arguments.topic is None) != (arguments.queue is None):
            raise StoreError(
                "--offset is a position with --topic and --queue, a place without both"
            )
        return "a place in the log" if arguments.topic is None else "a position in a queue"
    if arguments.topic is None and not arguments.scan:
        raise StoreError("nothing is asked for: --topic, an id, or --scan for the whole log")
    return "the whole log" if arguments.topic is None else "a topic"


def _option(name: str) -> str:
    return _NAMES.get(name, f"--{name.replace('_', '-')}")
