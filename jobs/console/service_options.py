"""What the commands share that do a service of the broker's, once."""

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
from reput.jobs.console.store_questions import remark
from reput.jobs.console.voice import add_output
from reput.store_format.release.profiles import profile, release_named
from reput.store_format.release.settings import merge_layers


def add_service(parser: argparse.ArgumentParser) -> None:
    """By whose rules it is done, who agrees to it, and how it is reported."""
    add_broker(parser, WRITES_AS)
    add_consent(parser)
    add_output(parser)


def options_of_service(arguments: argparse.Namespace) -> dict[str, Any]:
    """What `add_service` has read, as a service's function takes it. Raises SettingError."""
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
