"""Names for index files that follow others: unique, and ascending."""

from collections.abc import Sequence

from reput.store_format.names import index_name, next_index_time, parse_index_name


def names_after(kept: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The wanted names, each moved behind the one before it; kept: those there are before."""
    before = parse_index_name(kept[-1]) if kept else None
    names = []
    for name in wanted:
        before = next_index_time(parse_index_name(name), before)
        names.append(index_name(before))
    return names
