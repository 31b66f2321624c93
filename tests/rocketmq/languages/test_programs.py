"""What the page says of a client's release is what its lock file pins. (Java's jars are fetched by
that release.)
"""

import pytest

from tests.rocketmq.languages.programs import FOLDER, PROGRAMS


@pytest.mark.parametrize("language", [name for name in PROGRAMS if name != "java"])
def test_a_program_pins_the_release_that_it_is_shown_with(language: str) -> None:
    program = PROGRAMS[language]
    assert program.release in (FOLDER / language / program.pinned_in).read_text()
