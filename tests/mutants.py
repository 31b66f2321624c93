"""One planted bug for each rule that the builders follow, and the tests that must turn red.

`make mutants`, or `python -m tests.mutants [PART OF A NAME]`, plants those that are due, or have
such a name, one a core, each in a copy of the tree. The names are the rules, in the words of the
formats' pages. The bugs are in `planted_bugs.py` of the room whose tests must see them.
"""

import argparse
import json
import sys

from tests import planted_rebuild_bugs
from tests.broker.change import planted_bugs as planted_change_bugs
from tests.broker.services import planted_bugs as planted_service_bugs
from tests.broker.writer import planted_bugs as planted_writer_bugs
from tests.jobs import planted_bugs as planted_jobs_bugs
from tests.jobs.comparing import planted_bugs as planted_compare_bugs
from tests.jobs.converting import planted_bugs as planted_convert_bugs
from tests.jobs.page import planted_bugs as planted_page_bugs
from tests.jobs.replicating import planted_bugs as planted_replica_bugs
from tests.jobs.serve import planted_bugs as planted_serve_bugs
from tests.jobs.serve import planted_group_bugs, planted_pop_bugs
from tests.jobs.sources import planted_bugs as planted_source_bugs
from tests.ledger import budget
from tests.planting import plant, plant_all
from tests.store_format import planted_bugs as planted_format_bugs
from tests.store_format.damage import planted_bugs as planted_damage_bugs
from tests.store_format.fate import planted_bugs as planted_fate_bugs
from tests.store_format.filter import planted_bugs as planted_filter_bugs
from tests.store_format.query import planted_bugs as planted_query_bugs
from tests.store_format.rocksdb import planted_bugs as planted_rocksdb_bugs
from tests.store_format.storage import planted_bugs as planted_storage_bugs

ALL = (
    *planted_format_bugs.BUGS,
    *planted_query_bugs.BUGS,
    *planted_source_bugs.BUGS,
    *planted_page_bugs.BUGS,
    *planted_writer_bugs.BUGS,
    *planted_rebuild_bugs.BUGS,
    *planted_storage_bugs.BUGS,
    *planted_jobs_bugs.BUGS,
    *planted_compare_bugs.BUGS,
    *planted_convert_bugs.BUGS,
    *planted_filter_bugs.BUGS,
    *planted_fate_bugs.BUGS,
    *planted_rocksdb_bugs.BUGS,
    *planted_damage_bugs.BUGS,
    *planted_change_bugs.BUGS,
    *planted_replica_bugs.BUGS,
    *planted_serve_bugs.BUGS,
    *planted_group_bugs.BUGS,
    *planted_pop_bugs.BUGS,
    *planted_service_bugs.BUGS,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("wanted", nargs="*", help="part of a name; else what is due")
    parser.add_argument("--budget", type=budget.seconds, default=float("inf"), metavar="30m")
    parser.add_argument("--cores", type=int)
    parser.add_argument("--one", metavar="NAME", help="plant it here, and say what turned red")
    args = parser.parse_args()
    if args.one:
        print(json.dumps({"red": plant(next(bug for bug in ALL if bug.name == args.one))}))
        return 0
    return 1 if plant_all(ALL, " ".join(args.wanted), args.budget, args.cores) else 0


if __name__ == "__main__":
    sys.exit(main())
