"""The broker's settings: names, values, and its properties file."""

from datetime import timedelta
from pathlib import Path

import pytest

from reput.broker.writer.writer import CommitLogWriter
from reput.store_format.release import setting_table
from reput.store_format.release import settings as module
from reput.store_format.release.profiles import RELEASES, release_key
from reput.store_format.release.setting_table import BY_NAME, SETTINGS, Status
from scripts.settings_page import PAGE, page

HERE = Path(__file__).parents[2]


def test_defaults_are_rocketmqs_and_quiet_and_all_in_the_table_is_looked_at() -> None:
    for name, value in module.WriterSettings().by_name().items():
        default = BY_NAME[name].default  # as RocketMQ's own jars have it: the next test
        assert default is None or BY_NAME[name].value(default) == value, name
    assert module.Settings().delays[-1] == 7_200_000
    assert module.settings_from() == module.Settings()
    # but for two that are no broker's: the file of a broker with RocksDB says storeType, and the
    # time zone is its JVM's
    obeyed = set(module.WriterSettings().by_name())
    assert {name for name in obeyed if not BY_NAME[name].since} == {
        "enableRocksDBStore", "user.timezone",
    }  # fmt: skip
    assert {BY_NAME[name].name for name in obeyed} == obeyed  # the newest spelling
    looked_at = set(module.Settings().by_name())
    assert {k.name for k in SETTINGS if k.derive in (Status.OBEYED, Status.REFUSED)} <= looked_at
    by_writer = set(module.WriterSettings().by_name()) | {"brokerRole"}
    assert {k.name for k in SETTINGS if k.append in (Status.OBEYED, Status.REFUSED)} <= by_writer
    given = {known.name: known.default for known in SETTINGS if known.default and known.since}
    for release in (RELEASES[0], "4.9.7", "5.3.3", RELEASES[-1]):
        for doing in ("derive", "append"):
            assert module.setting_warnings(given, release, doing) == []  # type: ignore[arg-type]


def test_the_page_is_what_the_declaration_gives_and_that_what_rocketmq_s_jars_have() -> None:
    assert PAGE.read_text("utf-8") == page(), "make settings-page"
    # tests/rocketmq/test_setting_releases.py holds the file against the jars themselves.
    lines = (HERE / "rocketmq" / "settings" / "releases.tsv").read_text("utf-8").splitlines()[1:]
    there: dict[str, tuple[str, str, str, str]] = {}
    for line in lines:
        name, _, kind, since, until, defaults = line.split("\t")
        default = defaults.rpartition(": ")[2]
        # three names are in two classes: the older one has the first release
        if name not in there or release_key(since) < release_key(there[name][1]):
            there[name] = (kind, since, until, default)
    last = RELEASES[-1]
    for name, (kind, since, until, default) in there.items():
        known = BY_NAME[name]
        spelling = next(each for each in known.in_any if each.name == name)
        assert (spelling.since, spelling.until or last) == (since, until), name
        if "|" not in known.kind:
            assert known.kind == {"String": "text"}.get(kind, kind.lower()), name
        if default == "*":
            assert known.default is None, name
        else:
            assert known.default == default.removeprefix("null"), name
    assert {n for n, k in BY_NAME.items() if k.since} == set(there)


def test_later_layers_win_in_any_spelling_and_values_may_have_capitals_and_signs() -> None:
    first, second = {"maxIndexNum": "400", "enableLmq": "true"}, {"maxIndexNum": "500"}
    settings = module.settings_from(first, second)
    assert (settings.max_index_num, settings.enable_lmq) == (500, True)
    assert module.settings_from(second, first).max_index_num == 400
    for name in ("brokerName", "namesrvAddr", "deleteWhen", "brokerRole", "listenPort"):
        assert module.settings_from({name: "anything"}) == module.Settings()
        assert module.setting_warnings({name: "anything"}, "5.3.3", "derive") == []
    given = {"maxIndexNum": "+0400", "enableLmq": "TRUE", "storeType": " default "}
    settings = module.settings_from(given)
    assert (settings.max_index_num, settings.enable_lmq) == (400, True)
    assert settings.store_type == "default"
    with pytest.raises(module.SettingError) as caught:
        module.settings_from({"zzqqxx": "1"})
    assert "did you mean" not in str(caught.value)
    settings = module.settings_from(
        {"mapedFileSizeCommitLog": "4096", "mapedFileSizeConsumeQueue": "40"}
    )
    assert settings.mapped_file_size_commit_log == 4096
    assert settings.mapped_file_size_consume_queue == 40
    with pytest.raises(module.SettingError, match="mapedFileSizeCommitLog='x'"):
        module.settings_from({"mapedFileSizeCommitLog": "x"})
    given = {"mapedFileSizeCommitLog": "4096", "mappedFileSizeCommitLog": "8192"}
    with pytest.raises(module.SettingError, match="mapedFileSizeCommitLog=4096") as caught:
        module.settings_from(given)
    assert "mappedFileSizeCommitLog=8192" in str(caught.value)
    same = dict.fromkeys(given, "4096")
    assert module.settings_from(same).mapped_file_size_commit_log == 4096


@pytest.mark.parametrize(("name", "nearest"), [
    ("maxHashSlotNun", "maxHashSlotNum"), ("maxindexnum", "maxIndexNum"),
    # RocketMQ spells this one so
    ("mappedFileSizeBatchConsumeQueue", "mapperFileSizeBatchConsumeQueue"),
    ("enableLMQ", "enableLmq"), ("brokerNam", "brokerName"),
])  # fmt: skip
def test_an_unknown_name_suggests_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(module.SettingError, match=f"did you mean {nearest}\\?") as caught:
        module.settings_from({name: "1"})
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("flushDiskType", "sync_flush", "one of ASYNC_FLUSH, SYNC_FLUSH"),
    ("maxIndexNum", "1", "out of range 2"),  # one entry, number 0, that is never used
    ("maxHashSlotNum", "0", "out of range 1"), ("mappedFileSizeCommitLog", "0", "out of range"),
    ("mappedFileSizeConsumeQueue", "-20", "out of range"),
    ("mappedFileSizeCommitLog", "2147483648", "out of range"),
    ("messageDelayLevel", "1s 5x", "is not a number and s, m, h or d"),
    ("messageDelayLevel", "1s s", "is not a number and s, m, h or d"),
    ("messageDelayLevel", "1s --5s", "is not a number and s, m, h or d"),
    ("messageDelayLevel", "1s \u0665s", "is not a number and s, m, h or d"),
])  # fmt: skip
def test_a_value_out_of_range_or_of_no_choice_is_refused(name, text, message) -> None:
    with pytest.raises(module.SettingError, match=message) as caught:
        module.settings_from({name: text})
    assert name in str(caught.value)


@pytest.mark.parametrize("file", ["maped", "mapped"])
def test_a_later_layer_wins_whichever_spelling_it_uses(file: str) -> None:
    over = "mapped" if file == "maped" else "maped"
    layers = {f"{file}FileSizeCommitLog": "4096"}, {f"{over}FileSizeCommitLog": "8192"}
    assert module.settings_from(*layers).mapped_file_size_commit_log == 8192
    assert module.merge_layers(*layers) == layers[1]


def test_either_switch_of_the_release_ends_the_index_and_one_in_rocksdb_stands_beside() -> None:
    given = {"indexFileWriteEnable": "false"}
    for release, builds in (("5.3.3", True), ("5.4.0", False), ("5.5.0", False)):
        assert module.settings_from(given, release=release).builds_index is builds
        said = module.setting_warnings(given, release, "derive")
        assert [line.partition(":")[0] for line in said] == ["indexFileWriteEnable=false"] * builds
    assert module.setting_warnings({"indexFileWriteEnable": "true"}, "5.3.3", "derive") == []
    assert module.Settings().builds_index
    assert not module.settings_from({"messageIndexEnable": "false"}).builds_index
    assert not module.settings_from({"indexFileWriteEnable": "false"}).builds_index
    given = {"indexRocksDBEnable": "true"}
    assert module.settings_from(given, release="5.5.1").builds_index
    assert (
        module.setting_warnings(given, "5.5.1", "derive") == []
    )  # rebuild says what it does itself
    (said,) = module.setting_warnings(given, "5.5.1", "append")
    assert said.startswith("indexRocksDBEnable=true: not done: RocksDB gets no rows")
    assert not module.settings_from({**given, "indexFileWriteEnable": "false"}).builds_index


@pytest.mark.parametrize(("name", "value", "derive", "append"), [
    ("transientStorePoolSize", "2", False, False),
    ("fastFailIfNoBufferInStorePool", "true", False, False), ("inSyncReplicas", "2", False, True),
    ("brokerRole", "SYNC_MASTER", False, True), ("brokerRole", "ASYNC_MASTER", False, False),
    ("enableControllerMode", "true", False, True), ("flushCommitLogTimed", "false", False, True),
    ("messageStorePlugIn", "org.apache.rocketmq.tieredstore.TieredMessageStore", True, True),
    ("duplicationEnable", "true", True, True), ("rocksdbCQDoubleWriteEnable", "true", False, True),
    ("haSendHeartbeatInterval", "9", False, False), ("haSlaveFallbehindMax", "9", False, False),
    ("fileReservedTime", "anything", False, False), ("storePathIndex", "/elsewhere", False, False),
])  # fmt: skip
def test_what_is_not_done_is_named(name: str, value: str, derive: bool, append: bool) -> None:
    for doing, wanted in (("derive", derive), ("append", append)):
        said = module.setting_warnings({name: value}, "5.3.3", doing)  # type: ignore[arg-type]
        assert [line.partition(":")[0] for line in said] == [f"{name}={value}"] * wanted


def test_append_writes_to_the_stores_own_log_alone(tmp_path: Path) -> None:
    store = tmp_path / "store"
    own, other = str(store / "commitlog"), str(tmp_path / "other" / "commitlog")
    module.refuse_other_folders(module.settings_from({"storePathCommitLog": own + "/"}), str(store))
    for name in ("storePathCommitLog", "readOnlyCommitLogStorePaths"):
        given = module.writer_settings_from({name: other})
        with pytest.raises(module.SettingError, match=name):
            CommitLogWriter.open(str(store), given, clock=lambda: 1)
    assert not store.exists()


@pytest.mark.parametrize(("text", "delays"), [
    ("", ()), ("1s", (1_000,)), ("1s 2m  3h\t4d", (1_000, 120_000, 10_800_000, 345_600_000)),
    ("0s 007s", (0, 7_000)), ("-1s +2s", (-1_000, 2_000)),
    ("9999999999999d", (-2_996_971_464_435_325_952,)),  # in Java's 64 bits
])  # fmt: skip
def test_delay_levels(text: str, delays: tuple[int, ...]) -> None:
    assert module.settings_from({"messageDelayLevel": text}).delays == delays


@pytest.mark.parametrize(("name", "value", "what"), [
    ("enableRocksDBStore", "true", "RocksDB"), ("storeType", "defaultRocksDB", "storeType"),
    ("storePathDLedgerCommitLog", "/elsewhere", "DLedger"),
    ("enableConsumeQueueExt", "true", "ConsumeQueueExt"),
])  # fmt: skip
def test_what_is_not_built_is_refused_by_name(name: str, value: str, what: str) -> None:
    with pytest.raises(module.SettingError, match=what) as caught:
        module.refuse_unsupported(module.settings_from({name: value}))
    assert name in str(caught.value)
    usual = {"storeType": "default", "storePathDLedgerCommitLog": ""}
    module.refuse_unsupported(module.settings_from({name: usual.get(name, "false")}))


def test_assignments_are_read_and_sizes_and_zones_bounded() -> None:
    assert module.parse_assignments(["a=1", " b = 2=3 ", "c="]) == {"a": "1", "b": "2=3", "c": ""}
    with pytest.raises(module.SettingError, match="'maxIndexNum' is not NAME=VALUE"):
        module.parse_assignments(["maxIndexNum"])
    # IndexFile adds its sizes as ints; MappedFile takes one too.
    most = (0x7FFFFFFF - 40 - 4) // 20
    module.settings_from({"maxHashSlotNum": "1", "maxIndexNum": str(most)})
    with pytest.raises(module.SettingError, match=r"maxHashSlotNum=1 and maxIndexNum=.* bytes"):
        module.settings_from({"maxHashSlotNum": "1", "maxIndexNum": str(most + 1)})
    with pytest.raises(module.SettingError, match="an index file would have"):
        module.settings_from({"maxHashSlotNum": "2147483647"})
    assert (str(module.settings_from({"user.timezone": "America/New_York"}).time_zone)
            == "America/New_York")  # fmt: skip
    assert module.settings_from({}).time_zone is None
    for name in ("Nowhere/Land", "../etc/passwd", "+99:00", "UTC+1:99:9"):
        with pytest.raises(module.SettingError, match="is not a time zone that this machine knows"):
            module.settings_from({"user.timezone": name})


@pytest.mark.parametrize(("text", "values"), [
    ("", {}), ("\n\n  \n", {}), ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}), ("a=1\na=2", {"a": "2"}),
    ("a=b=c", {"a": "b=c"}), ("a=1\\", {"a": "1"}), ("a=1\\\n", {"a": "1"}),
    ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
    ("a=1\\\n#b=2", {"a": "1#b=2"}),  # a continued line is no comment
    ("\\\n#a=1\nb=2", {"b": "2"}),  # but where it has nothing yet
    ("a=1\\\n\n#b=2", {"a": "1"}),
    ("a=1\\\\\\\n2", {"a": "1\\2"}),  # three: one backslash, and the line goes on
    ("a", {"a": ""}), ("a 1", {"a": "1"}), ("a:b=c", {"a": "b=c"}), ("a\t=\t1", {"a": "1"}),
    ("a = 1 ", {"a": "1 "}),  # java.util.Properties keeps a blank at the end
    ("a = 1 \\\n   2", {"a": "1 2"}), ("a\\=b=c", {"a=b": "c"}),
    ("a=\\u4e3b\\t.", {"a": "\u4e3b\t."}), ("a=x\x0by\x85z", {"a": "x\x0by\x85z"}),
    ("=1", {"": "1"}), ("# a\n! b=1\n  # c\na : 1", {"a": "1"}), ("a=x#y", {"a": "x#y"}),
    ("a=C\\:\\\\b", {"a": "C:\\b"}), ("a=1s \\\n   5s \\\n  10s\nb=", {"a": "1s 5s 10s", "b": ""}),
])  # fmt: skip
def test_lines_of_a_properties_file(text: str, values: dict[str, str]) -> None:
    assert module.parse_properties(text) == values


@pytest.mark.parametrize(
    ("name", "ahead"), [("UTC", 0), ("GMT+8", 8), ("-05:00", -5), ("+0530", 5.5), ("Z", 0)]
)
def test_a_time_zone_as_java_writes_it(name: str, ahead: float) -> None:
    zone = module.settings_from({"user.timezone": name}).time_zone
    assert zone is not None
    assert zone.utcoffset(None) == timedelta(hours=ahead)


# --- One setting: which releases know its names, and which values RocketMQ reads from a text.
def of_kind(kind: str, default: str | None = None) -> setting_table.KnownSetting:
    status = setting_table.Status.OBEYED
    return setting_table.KnownSetting("name", "4.1.0", "", (), kind, default, status, status, "why")


@pytest.mark.parametrize(("since", "until", "known"), [
    ("", "", []), ("4.1.0", "", ["4.1.0-incubating", "4.9.2", "4.9.8", "5.5.1"]),
    ("4.9.2", "", ["4.9.2", "4.9.8", "5.5.1"]), ("4.1.0", "4.9.2", ["4.1.0-incubating", "4.9.2"]),
    ("5.5.1", "5.5.1", ["5.5.1"]),
])  # fmt: skip
def test_a_name_is_known_from_its_first_to_its_last_release(since, until, known) -> None:
    spelling = setting_table.Spelling("name", since, until)
    releases = ["4.1.0-incubating", "4.9.2", "4.9.8", "5.5.1"]
    assert [release for release in releases if spelling.known_to(release)] == known


@pytest.mark.parametrize(("kind", "text", "value"), [
    ("boolean", "TRUE", True), ("boolean", "false", False), ("int", "-2147483648", -(1 << 31)),
    ("int", "2147483647", (1 << 31) - 1), ("int", "+007", 7), ("int", "0" * 50 + "7", 7),
    ("int", "-" + "0" * 50, 0), ("long", "9223372036854775807", (1 << 63) - 1),
    ("long", "-9223372036854775808", -(1 << 63)), ("text", " a b ", "a b"), ("text", "", ""),
    ("A|BC", "BC", "BC"), ("A|BC", " A ", "A"),
])  # fmt: skip
def test_what_rocketmq_reads_from_a_text(kind: str, text: str, value: bool | int | str) -> None:
    assert of_kind(kind).value(text) == value


@pytest.mark.parametrize(("kind", "text", "message"), [
    ("boolean", "yes", "true or false"), ("boolean", "true ", "true or false"),
    ("int", "2147483648", "out of range -2147483648..2147483647 of a Java int"),
    ("int", "-2147483649", "of a Java int"), ("int", "+-1", "a whole number"),
    ("int", "+", "a whole number"), ("int", "1_2", "a whole number"), ("int", "", "a whole number"),
    ("int", "400 ", "a whole number"),  # NumberFormatException: ignored
    ("int", "\u0664\u0660", "a whole number"), ("int", "64M", "a whole number"),
    ("boolean", "", "true or false"), ("boolean", "1", "true or false"),
    ("int", "0" * 50 + "2147483648", "of a Java int"),
    ("long", "9223372036854775808", "of a Java long"), ("long", "9" * 41, "of a Java long"),
    ("A|BC", "B", "expected one of A, BC"), ("A|BC", "A|BC", "expected one of A, BC"),
])  # fmt: skip
def test_what_it_would_not_read_is_refused(kind: str, text: str, message: str) -> None:
    with pytest.raises(setting_table.SettingError, match=message) as caught:
        of_kind(kind).value(text, "older")
    assert str(caught.value).startswith("older=")


def test_a_value_is_compared_as_a_value_and_every_spelling_is_one_setting_s_alone() -> None:
    assert not of_kind("int", "400").differs("+0400", "name")
    assert of_kind("int", "400").differs("401", "name")
    assert not of_kind("boolean", "true").differs("TRUE", "name")
    assert of_kind("text", None).differs("", "name")  # its default depends on the machine
    spellings = [spelling.name for known in setting_table.SETTINGS for spelling in known.in_any]
    assert len(set(spellings)) == len(spellings)
    assert (setting_table.BY_NAME["mapedFileSizeCommitLog"]
            is setting_table.BY_NAME["mappedFileSizeCommitLog"])  # fmt: skip
