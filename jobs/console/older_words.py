"""Earlier names of options: they still work for a while, with a remark on the new name."""

import argparse
from typing import Any

from reput.jobs.console.store_questions import remark


def add_older(parser: Any, name: str, now: str, **options: Any) -> None:
    """Add an option's earlier name, which --help does not show.

    now: text on the new name; options: those of the new option, with its `dest`.
    """

    class Older(argparse.Action):
        def __call__(self, _: Any, namespace: Any, values: Any, option: str | None = None) -> None:
            remark(f"{option} will go; say {now}")
            setattr(namespace, self.dest, values)

    parser.add_argument(name, action=Older, help=argparse.SUPPRESS, **options)
