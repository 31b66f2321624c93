"""Names of groups that clients make up: those that a broker would make a group of."""

import pytest

from reput.broker.serving.clients import is_group_name


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("g", True), ("%RETRY%g", True), ("a|b_c-D9", True), ("g" * 255, True),
        ("", False), ("g" * 256, False), ("a b", False), ("g\n", False), ("a+b", False),
        ("a/b", False), ("..", False), ("gr\u00fcn", False), ("\uff11", False),
    ],
)  # fmt: skip
def test_a_name_has_the_characters_that_topic_validator_knows(name: str, legal: bool) -> None:
    """^[%|a-zA-Z0-9_-]+$, of at most Validators.CHARACTER_MAX_LENGTH characters."""
    assert is_group_name(name) is legal
