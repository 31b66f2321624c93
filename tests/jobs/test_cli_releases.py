"""`reput help releases`: each change under the release that began it."""

import re

from reput.jobs.cli import CHANGES, text
from reput.store_format.release.profiles import RELEASES, differences

# Rules by which a release derives other bytes from the same log, and no other change names.
DERIVED = (
    "ipv6_hosts", "long_topics", "skip_lower_offsets", "skip_by_end", "count_every_put",
    "split_properties", "empty_index_count", "batch_queues", "multi_dispatch",
    "multi_dispatch_skips_retry", "multi_dispatch_skips_slash", "multi_dispatch_skips_delays",
    "multi_dispatch_skips_system", "index_tags")  # fmt: skip


def test_changes_stand_in_the_order_of_releases_and_none_lacks() -> None:
    since = [each[0] for each in CHANGES]
    assert [release for release in RELEASES if release in since] == since
    rules = dict(differences())
    listed = {each[0] for each in CHANGES}
    for name in DERIVED:
        values = rules[name]
        begins = next(n for n, value in enumerate(values) if value != values[0])
        assert RELEASES[begins] in listed, name


def test_releases_that_derive_the_same_are_named_once_each_all_of_them() -> None:
    alike = re.sub(r"\s+", " ", text()).partition("without multi-dispatch: ")[2].partition(". ")[0]
    spans = [each.split(" to ") for each in alike.split(", ")]
    numbers = [RELEASES.index(name) for span in spans for name in (span[0], span[-1])]
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (0, len(RELEASES) - 1)
    ends, begins = numbers[1:-1:2], numbers[2::2]
    assert [end + 1 for end in ends] == begins
