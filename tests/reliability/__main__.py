"""`python -m tests.reliability [TABLE ...] [--every N]`: the tables of docs/reliability.md."""

import argparse

from tests.reliability.tables import TABLES, Engines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("tables", nargs="*", default=[], metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--every", type=int, default=1, help="only each N-th input")
    given = parser.parse_args()
    engines = Engines()
    try:
        for name in given.tables or TABLES:
            for line in TABLES[name](engines, given.every):
                print(line, flush=True)
            print(flush=True)
    finally:
        engines.close()


if __name__ == "__main__":
    main()
