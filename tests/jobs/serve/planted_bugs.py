# ruff: noqa: E501 - a line of source is quoted whole
"""One planted bug for each rule of the protocol and of serving (tests/mutants.py plants them)."""

from functools import partial

from tests.planting import Bug, only

_FRAMES, _BINARY = "broker/remoting/frames.py", "broker/remoting/header_binary.py"
_JSON = "broker/remoting/header_json.py"
_PULL, _LIMITS = "broker/serving/pull.py", "broker/serving/pull_limits.py"
_BYTES, _QUEUE = "broker/serving/record_bytes.py", "broker/serving/queue.py"
_STORE, _SLICES = "broker/serving/served_store.py", "store_format/derived/queue_slices.py"
_MESSAGES, _AS_OF = "broker/serving/messages.py", "broker/serving/as_of.py"
_CONNECTION, _SERVER = "jobs/serve/connection.py", "jobs/serve/server.py"


def alike(store: str) -> tuple[str, ...]:
    return ("tests/jobs/serve/test_as_brokers.py", "-k", f"alike and not to_all and {store}")


frames = partial(only, "tests/broker/remoting/test_frames.py")
stores = partial(only, "tests/jobs/serve/test_open_served.py")
server = partial(only, "tests/jobs/serve/test_server.py")


BUGS = (
    # frames and headers
    Bug("a header fits into its frame", _FRAMES + "::_head",
        "if header_bytes > min(total - _LENGTH_BYTES, HEADER_MOST):", "if header_bytes > HEADER_MOST:", frames("cannot_be")),
    Bug("a frame has at most 16 MiB", _FRAMES + "::_head",
        "if not _LENGTH_BYTES <= total <= FRAME_MOST:", "if not _LENGTH_BYTES <= total:", frames("cannot_be")),
    Bug("a body that is too long is not kept", _FRAMES + "::Frames.next",
        "        if end - body_at > self._body_most:", "        if False:", frames("too_long or most_bytes")),
    Bug("what follows a body that is passed over is read", _FRAMES + "::Frames.feed",
        "            passed = min(self._to_pass, len(data))", "            passed = len(data)", frames("passed_over")),
    Bug("extFields of a binary header end within it", _BINARY + "::decode_binary",
        "    if length < 0 or at + length > len(header):", "    if length < 0:",
        only("tests/broker/remoting/test_header_binary.py", "lie")),
    Bug("a header's code is an int of Java's", _JSON + "::decode_json",
        "        if not is_int(fields.get(name, 0)):", "        if False:", frames("json_header")),
    Bug("fields that are numbers become texts", _JSON + "::_text",
        "    if isinstance(value, int | float):", "    if isinstance(value, float):", frames("numbers")),
    # a pull, as DefaultMessageStore.getMessage
    Bug("a pull below the minimum is moved to it", _PULL + "::take",
        '        return Got("OFFSET_TOO_SMALL", low, low, high)', '        return Got("OFFSET_TOO_SMALL", position, low, high)', alike("expired")),
    Bug("a pull at the end finds nothing new", _PULL + "::take", "    if position == high:", "    if position > high:", alike("expired")),
    Bug("an empty queue moves all offsets but 0", _PULL + "::_code",
        "return ResponseCode.PULL_OFFSET_MOVED if position else ResponseCode.PULL_NOT_FOUND",
        "return ResponseCode.PULL_NOT_FOUND", stores("without_a_file")),
    Bug("a pull goes through so many entries and no more", _PULL + "::take",
        "    stop = position + min(limits.looked_at(most, queue.batch), wanted.looked_at)", "    stop = position + (1 << 40)", stores("so_many_entries")),
    Bug("a pull ends with the queue's file", _PULL + "::take",
        "    stop = min(stop, high, queue.entries.file_end(position))", "    stop = min(stop, high)", alike("expired")),
    Bug("entries of batches count by their first position", _PULL + "::take",
        "            some = some.part(some.positions < stop)", "            pass", alike("lmq")),
    Bug("a pull has no more messages than were asked for", _LIMITS + "::_passed",
        "                count + messages[i] > most", "                count > most", alike("lmq")),
    Bug("a wrong expression in a pull is no filter", _PULL + "::_wanted",
        "            return EVERYTHING  # ConsumerFilterManager.build returns null: nothing is filtered",
        '            return refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "")', alike("5.5.0")),
    Bug("flags of topic and group are reported from 5.0.0 on", _PULL + "::pull", "    if profile.pull_sys_flags:", "    if True:", alike("4.9.7")),
    Bug("an empty batch queue begins at -1", "broker/serving/topics.py::Topic.empty_minimum",
        '        return -1 if self.attributes.get("queue.type") == "BatchCQ" else 0', "        return 0", stores("without_a_file")),
    Bug("tags are compared by the lower 32 bits of a code", "broker/serving/subscriptions.py::ByTags.entries",
        "np.isin(tags_codes.astype(np.int32), self._codes)", "np.isin(tags_codes, self._codes + 1)", alike("5.5.0")),
    Bug("a boundary is obeyed by releases that know it", _QUEUE + "::ServedQueue.at_time",
        "            boundary = Boundary.LOWER", "            pass", stores("boundary")),
    Bug("where no key is found the index tells nothing of itself", _STORE + "::ServedStore.by_key",
        "            return [], 0, 0\n        if self.at is None", "            pass\n        if self.at is None", alike("expired")),
    Bug("a unique key is asked for 32 messages", _MESSAGES + "::by_key",
        "most = UNIQUE_KEY_MOST if flag(request, _UNIQUE) else", "most = 1 if flag(request, _UNIQUE) else", ("tests/jobs/serve/test_groups.py", "-k", "unique_key")),
    # what a broker does not look at
    Bug("what is no whole record is not sent", _BYTES + "::_short",
        '    sound[sound] = rows["size"] == entries.sizes[sound]', "    sound[:] = True", stores("damaged")),
    Bug("a queue ends where the log ends", _SLICES + "::QueueSlices.end_within",
        "        if last is None or last.physical_offset + last.size <= limit:", "        if True:", stores("past_the_log or as_it_was")),
    # at a time, and growing
    Bug("the first record that is later ends the log", _AS_OF + "::end_at",
        'step.rows["storeTimestamp"] > time', 'step.rows["storeTimestamp"] >= time', stores("as_it_was")),
    Bug("an id of what was stored later finds nothing", _MESSAGES + "::whole_record",
        "if place < store.limit else None", "if True else None", stores("as_it_was")),
    Bug("keys of what was stored later are not found", _STORE + "::ServedStore.by_key",
        "min(end, self.at), until=self.limit)", "end)", stores("as_it_was")),
    Bug("at a time, later messages with the same key are not counted", _STORE + "::ServedStore.by_key",
        ", until=self.limit)", ")", ("tests/broker/serving/test_as_of.py",)),
    Bug("at a time, a queue's last message is the last of then", _QUEUE + "::ServedQueue.at_time",
        "            return self.maximum - 1  # as if", "            return self.maximum  # as if",
        ("tests/broker/serving/test_as_of.py",)),
    Bug("pulls that wait are answered once there is more", _SERVER + "::Server._has",
        "queue.maximum > hold.position", "queue.maximum > hold.position + 1", stores("waits")),
    Bug("a file that is followed may become longer", "jobs/serve/open_served.py::_read_by",
        "    return GrowingFiles(storage) if follow else storage", "    return storage", stores("copied_in")),
    # the server
    Bug("a client that takes no answers is not read", _CONNECTION + "::Connection.is_full",
        "            self._unsent_bytes > _UNSENT_MOST", "            False", server("slow_reader")),
    Bug("so many connections and no more", _SERVER + "::Server._accept",
        "            if len(self._connections) >= self.limits.connections:", "            if False:", server("too_many")),
    Bug("nothing is answered to a one-way request", _SERVER + "::Server._settle",
        "        if not request.is_one_way:", "        if True:", server("one_way")),
    Bug("a pull that waits keeps no other waiting", "jobs/serve/waiting_pulls.py::HeldPulls.keep",
        "min(until / 1000 - time.time(), _WAIT_MOST)", "0.0", server("waits")),
)  # fmt: skip
