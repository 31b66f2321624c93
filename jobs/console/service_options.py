"""Shared by commands that run a service of the broker once: deliveries, transactions."""

import argparse
from typing import Any

from reput.jobs.console.options import (
    WRITES_AS,
    add_broker,
    add_consent,
    consent,
    progress_of,
    setting_layers,
)
from reput.jobs.console.voice import add_output, remark
from reput.store_format.release.profiles import profile, release_named
from reput.store_format.release.settings import merge_layers


def add_service(parser: argparse.ArgumentParser) -> None:
    """Add the options on the broker, consent and output."""
    add_broker(parser, WRITES_AS)
    add_consent(parser)
    add_output(parser)


def options_of_service(arguments: argparse.Namespace) -> dict[str, Any]:
    """Arguments for a service's function, by `add_service`. Raises SettingError, UnknownRelease."""
    if arguments.rocketmq:
        profile(release_named(arguments.rocketmq))
    return {
        "rocketmq": arguments.rocketmq,
        "settings": merge_layers(*setting_layers(arguments)),
        "dry_run": arguments.dry_run,
        "confirm": consent(arguments.yes),
        "progress": progress_of(arguments),
        "tell": remark,
    }
