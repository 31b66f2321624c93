"""Names for index files that follow others: unique, and ascending."""

from collections.abc import Sequence

from reput.store_format.names import index_name, next_index_time, parse_index_name


def names_after(kept: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The wanted names, each raised where it would not be above the name before it.

    kept: names of files that stay; all names of the result are above the last of them.
    """
    before = parse_index_name(kept[-1]) if kept else None
    names = []
    for name in wanted:
        before = next_index_time(parse_index_name(name), before)
        names.append(index_name(before))
    return names
