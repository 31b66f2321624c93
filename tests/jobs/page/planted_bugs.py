# ruff: noqa: E501 - a line of source is quoted whole
"""Bugs in the page of `reput report`; each must turn one of these tests red."""

from functools import partial

from tests.planting import Bug, only

_HTML, _MODEL, _OUTPUTS = "jobs/page/html.py", "jobs/page/model.py", "jobs/outputs/output.py"
_LOG, _TIMES = "jobs/page/log_sections.py", "store_format/query/put_times.py"


page = partial(only, "tests/jobs/page/test_html.py")


BUGS = (
    Bug("page: a name cannot end the element of the data", _HTML + "::as_data",
        'text.replace("<", "\\\\u003c")', "text", page("data")),
    Bug("page: what is not printable is an escape", _MODEL + "::name_text",
        "    shown = safe(text[:NAME_MOST])", "    shown = text[:NAME_MOST]", page("hostile")),
    Bug("page: names of files in sentences are printable", _HTML + "::_printable",
        "    for lines in (section.words, section.alarms, section.notes):", "    for lines in ():", page("printable")),
    Bug("page: each bar has a label of its own", _MODEL + "::labels",
        "        while seen[label] > 1:", "        while False:", page("labels")),
    Bug("page: what a table leaves out is reported", _MODEL + "::table",
        "    many = max(all_rows, len(rows))\n    shown", "    many = 0\n    shown", page("rows_beyond")),
    Bug("page: a clock gone wrong does not hide the others", _LOG + "::_densest",
        "    return spans[first : ends[first]], ", "    return spans, ", page("clock or densest")),
    Bug("page: a damaged store is not called sound", "jobs/page/headline.py::verdict",
        "    if report.sound:", "    if True:", page("damaged")),
    Bug("page: a size has three digits at most", "jobs/page/headline.py::bytes_text",
        "if size >= unit - unit // 2000:", "if size >= unit:", ("tests/jobs/page/test_headline.py", "-k", "sizes")),
    Bug("page: a map without room for all damage does not say that it has all", _LOG + "::_map_words",
        "    cut = any(", "    cut = not any(", ("tests/jobs/page/test_log_sections.py",)),
    Bug("page: what is damaged comes first", _HTML + "::page",
        "    sections.sort(key=lambda section: not section.alarms)", "    pass", page("damaged")),
    Bug("page: a queue's id is not what is cut", _MODEL + "::labels",
        "…{label[_LABEL_BEGIN + 1 - _LABEL_MOST :]}", "…", page("labels")),
    Bug("page: the next command reads the store in the same way", "jobs/page/headline.py::_command",
        "    given = dict(facts.given)", "    given = {}", page("damaged")),
    Bug("page: a part that fails leaves the others", "jobs/page/store_facts.py::Facts.part",
        "            self.unknown[name] = str(error)", "            raise", page("part or release")),
    Bug("page: only a page is replaced", _OUTPUTS + "::WholeFile._is_there_and_ours",
        "os.read(descriptor, len(self.begins)) != self.begins", "False", page("replaced")),
    Bug("page: a file that came meanwhile stays", _OUTPUTS + "::WholeFile._name",
        "                os.link(part, self.path)", "                os.rename(part, self.path)", page("meanwhile")),
    Bug("page: half a page is never there", _OUTPUTS + "::WholeFile.writing",
        '        part = f"{folder}/.{name[:100]}.{uuid.uuid4().hex}.part"', "        part = self.path", page("half")),
    Bug("page: spans grow with the log", _TIMES + "::_Spans.put",
        "len(self._begins) > SPANS_MOST or (", "False or (", ("tests/store_format/query/test_put_times.py",)),
    Bug("page: spans are few for many topics too", _TIMES + "::_Spans.put",
        "len(self.found) > _KEYS_MOST and len(self._begins) > 1", "False", ("tests/store_format/query/test_put_times.py",)),
    Bug("page: an index file's header is not believed", "store_format/derived/index_stats.py::index_stats",
        "min(file.header.entries, room)", "file.header.entries", ("tests/store_format/derived/test_index_stats.py",)),
    Bug("page: what has arrived is not listed as open", "store_format/fate/sums.py::fate_sums",
        "if each.state not in ENDED and", "if", ("tests/store_format/fate/test_sums.py",)),
    Bug("a failed command fails its task on Databricks", "jobs/cli.py::task",
        "        raise SystemExit(code)", "        return", ("tests/test_bundle.py", "-k", "fails")),
)  # fmt: skip
