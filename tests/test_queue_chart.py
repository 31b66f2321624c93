"""The chart of a rebuild's queues: a bar for each, as long as it has entries."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from notebooks.queue_chart import queue_chart
from reput.jobs.outputs.report import OutputFile, Summary

SVG = "{http://www.w3.org/2000/svg}"
LONGEST = 400  # pixels of the longest bar


def drawn(*files: tuple[str, int]) -> list[tuple[str, int, str]]:
    """(queue, pixels of its bar, number beside it) of each row."""
    made = [OutputFile(path, 20, "", entries) for path, entries in files]
    summary = Summary("s", "o", "5.3.3", {}, {}, 0, 0, "", files=made)
    root = ElementTree.fromstring(queue_chart(summary))
    texts = [str(each.text) for each in root.iter(f"{SVG}text")]
    assert texts[0] == "Entries a queue"
    widths = [int(each.attrib["width"]) for each in root.iter(f"{SVG}rect")]
    return list(zip(texts[1::2], widths, texts[2::2], strict=True))


def test_a_queue_s_bar_has_the_entries_of_all_its_files() -> None:
    assert drawn(
        ("consumequeue/T/0/00000000000000000000", 300),
        ("consumequeue/T/0/00000000000000006000", 100),
        ("batchconsumequeue/B/1/00000000000000000000", 100),
    ) == [("B/1", LONGEST // 4, "100"), ("T/0", LONGEST, "400")]


def test_index_and_checkpoint_are_no_queues() -> None:
    files = (("index/20261125000000000", 9000), ("checkpoint", 0), ("consumequeue/T/0/0", 2))
    assert drawn(*files) == [("T/0", LONGEST, "2")]


def test_without_queues_the_chart_is_its_title() -> None:
    assert drawn() == []


def test_a_short_queue_has_a_bar_too_and_many_entries_are_grouped_by_thousands() -> None:
    many = drawn(("consumequeue/A/0/0", 1), ("consumequeue/B/0/0", 1_000_000))
    assert many == [("A/0", 1, "1"), ("B/0", LONGEST, "1,000,000")]


@pytest.mark.parametrize("topic", ["</svg><script>", "a&b", '"x"'])
def test_a_topic_s_name_is_text_and_no_markup(topic: str) -> None:
    assert drawn((f"consumequeue/{topic}/0/0", 1))[0][0] == f"{topic}/0"


def test_a_character_that_xml_does_not_know_is_escaped() -> None:
    assert drawn(("consumequeue/a\x00\x1bb/0/0", 1))[0][0] == r"a\x00\x1bb/0"


def test_each_queue_has_a_row_of_its_own_within_the_picture() -> None:
    files = [OutputFile(f"consumequeue/T/{n}/0", 20, "", 1) for n in range(3)]
    text = queue_chart(Summary("s", "o", "5.3.3", {}, {}, 0, 0, "", files=files))
    rows = [int(y) for y in re.findall(r'<rect x="\d+" y="(\d+)"', text)]
    assert sorted(set(rows)) == rows
    assert {b - a for a, b in pairwise(rows)} == {20}
    assert rows[-1] + 13 <= int(re.findall(r' height="(\d+)"', text)[0])
