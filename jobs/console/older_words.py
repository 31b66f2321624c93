"""Names that options had before: they work for a while, and say what they are called now."""

import argparse
from typing import Any

from reput.jobs.console.store_questions import remark


def add_older(parser: Any, name: str, now: str, **options: Any) -> None:
    """An option that is not shown any more; options: as of the one that took its place, `dest` too.

    now: what to say in its place.
    """

    class Older(argparse.Action):
        def __call__(self, _: Any, namespace: Any, values: Any, option: str | None = None) -> None:
            remark(f"{option} will go; say {now}")
            setattr(namespace, self.dest, values)

    parser.add_argument(name, action=Older, help=argparse.SUPPRESS, **options)
