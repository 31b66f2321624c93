"""`python -m tests.rocketmq derive|bulk|build ...`: the driver by hand, and for benchmarks."""

import argparse
import json
from pathlib import Path

from tests.rocketmq.build import VERSIONS, build
from tests.rocketmq.driver import derive_mode, once, remove_derived, topic_attributes


def _settings(pairs: list[str]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in pairs)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rocketmq", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--rocketmq", default="5.3.3", choices=VERSIONS)
    commands.add_parser("build", parents=[shared], help="build the driver now")
    stores = argparse.ArgumentParser(add_help=False, parents=[shared])
    stores.add_argument("store", type=Path)
    stores.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    derive = commands.add_parser(
        "derive", parents=[stores], help="RocketMQ derives queues and index, in place; times"
    )
    derive.add_argument("--mode", choices=["crash", "clean", "as-is"])
    derive.add_argument(
        "--full-stop",
        action="store_true",
        help="keep the sleep of 3 to 6 s that RocketMQ's shutdown begins with",
    )
    bulk = commands.add_parser("bulk", parents=[stores], help="write a big CommitLog, fast")
    bulk.add_argument("--messages", type=int, default=4_000_000)
    bulk.add_argument("--topics", type=int, default=8)
    bulk.add_argument("--queues", type=int, default=8)
    bulk.add_argument("--body", type=int, default=300)
    bulk.add_argument("--keys", type=int, default=1)
    bulk.add_argument("--tags", type=int, default=8)
    bulk.add_argument("--hot-percent", type=int, default=0, help="so many of 100 in one queue")
    bulk.add_argument("--keep-derived", action="store_true")
    return parser.parse_args()


def main() -> None:
    args = _arguments()
    if args.command == "build":
        print(build(args.rocketmq))
        return
    job = {"store": str(args.store.absolute()), "settings": _settings(args.set)}
    if args.command == "derive":
        answer = once(
            args.rocketmq, "derive", mode=args.mode or derive_mode(args.rocketmq),
            quick_stop=not args.full_stop, topic_attributes=topic_attributes(args.store), **job,
        )  # fmt: skip
    else:
        args.store.mkdir(parents=True, exist_ok=True)
        shape = ("messages", "topics", "queues", "body", "keys", "tags", "hot_percent")
        answer = once(args.rocketmq, "bulk", **{k: vars(args)[k] for k in shape}, **job)
        if not args.keep_derived:
            remove_derived(args.store)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
