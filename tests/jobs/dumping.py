"""`reput dump` in this process."""

import argparse

from reput.jobs import dump
from reput.store_format.release.profiles import RELEASES


def dump_lines(*words: str) -> list[str]:
    parser = argparse.ArgumentParser()
    dump.add_arguments(parser)
    lines: list[str] = []
    reported = parser.parse_args(["--rocketmq", RELEASES[-1], *words])
    dump_lines.code = dump._dump(reported, lines.append)  # type: ignore[attr-defined]
    return lines
