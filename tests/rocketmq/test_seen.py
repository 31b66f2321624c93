"""docs/serve.md's table of clients is what the tests have noted."""

from tests.rocketmq import seen


def test_the_page_shows_what_was_seen() -> None:
    assert seen.noted()
    assert seen.page_table() == seen.table()
