# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of a comparison."""

from tests.planting import Bug

_TEST = ("tests/jobs/comparing/test_compare_stores.py",)
_LOGS = "store_format/storage/queue_logs.py"
_LOGS_TEST = ("tests/store_format/storage/test_queue_logs.py",)
_TASKS = "udfs/comparing/messages.py"

BUGS = (
    Bug("a record that reaches into what differs is compared", _TASKS + "::Walks.steps",
        '(places + step.rows["size"] > starts[after])', "(places >= starts[after])", _TEST),
    Bug("a message that was sent again is lost by neither choice", _TASKS + "::MatchPrints._found",
        'np.where(among(ours["message"], theirs["message"]), AGAIN, ONLY)',
        'np.full(len(ours), ONLY)', _TEST),
    Bug("a damaged body that the other has whole is told", _TASKS + "::MatchPrints._found",
        'damaged = (ours["bad"] != 0) & whole', 'damaged = (ours["bad"] != 0) & ~there', _TEST),
    Bug("what has expired on one side is no difference", "jobs/comparing/parting.py::_parting",
        "if a >= begun]", "if a >= 0]", _TEST),
    Bug("the first byte that differs is named, not its block", "store_format/kernels/blocks.py::first_unlike",
        "            return int(at + alike)\n", "            return at\n", _TEST),
    Bug("a slave cuts at the least of both ends of an epoch", "store_format/log/epochs.py::consistent_point",
        "return min(ends[entry], starts[entry])", "return max(ends[entry], starts[entry])",
        ("tests/store_format/log/test_epochs.py",)),
    Bug("several fingerprints may share a half", "store_format/log/prints.py::among",
        "left = left[same[:, 0] & ~same[:, 1] & (place[left] < len(others))]", "left = left[:0]",
        ("tests/store_format/log/test_prints.py",)),
    Bug("a fingerprint is of the queueOffset", "store_format/log/prints.py::_record",
        "    hashed = _mixed(hashed, row.queueOffset, factor)\n", "", _TEST),
    Bug("where a compacted file's records end, its queue file says", _LOGS,
        '    last = entries[used[-1]]\n', '    last = entries[used[0]]\n', _LOGS_TEST),
    Bug("a tiered segment ends with its last record", "udfs/table/log_parts.py",
        " and not self.log.back_to_back:", ":", _LOGS_TEST),
    Bug("a missing compacted file is a BLANK", _LOGS,
        "        _put_blank(buffer, -offset, self.state.size)\n", "", _LOGS_TEST),
    Bug("queueOffsets of a compacted queue are compared", "jobs/comparing/queue_logs.py",
        '"storeTimestamp", "baseOffset", "batchSize")', '"storeTimestamp", "batchSize")',
        _LOGS_TEST),
)  # fmt: skip
