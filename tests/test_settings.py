"""The broker's settings: names, values, and its properties file."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store_format.setting_names import KNOWN
from store_format.settings import (
    SettingError,
    Settings,
    parse_assignments,
    parse_properties,
    refuse_unsupported,
    settings_from,
)

DEFAULT_DELAYS = (
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000,
    480_000, 540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000,
)  # fmt: skip


def test_defaults_are_rocketmqs() -> None:
    values = Settings().by_name()
    expected: dict[str, Any] = {
        "mappedFileSizeCommitLog": 1_073_741_824,
        "mappedFileSizeConsumeQueue": 300_000 * 20,
        "mapperFileSizeBatchConsumeQueue": 300_000 * 46,
        "messageIndexEnable": True,
        "maxHashSlotNum": 5_000_000,
        "maxIndexNum": 20_000_000,
        "enableMultiDispatch": False,
        "enableLmq": False,
        "checkCRCOnRecover": True,
        "forceVerifyPropCRC": False,
        "maxMessageSize": 4_194_304,
    }
    assert {name: values[name] for name in expected} == expected
    assert Settings().delays == DEFAULT_DELAYS
    assert settings_from() == Settings()


def test_every_setting_is_a_name_of_rocketmqs() -> None:
    # but for one that is no broker's: the file of a broker with RocksDB says storeType
    assert set(Settings().by_name()) - KNOWN == {"enableRocksDBStore"}


def test_later_layers_win() -> None:
    first, second = {"maxIndexNum": "400", "enableLmq": "true"}, {"maxIndexNum": "500"}
    settings = settings_from(first, second)
    assert (settings.max_index_num, settings.enable_lmq) == (500, True)
    assert settings_from(second, first).max_index_num == 400


def test_a_known_name_that_decides_nothing_is_accepted() -> None:
    for name in ("brokerName", "namesrvAddr", "deleteWhen", "brokerRole", "listenPort"):
        assert settings_from({name: "anything"}) == Settings()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("maxHashSlotNun", "maxHashSlotNum"),
        ("maxindexnum", "maxIndexNum"),
        ("mappedFileSizeCommitlog", "mappedFileSizeCommitLog"),
        # RocketMQ spells this one so
        ("mappedFileSizeBatchConsumeQueue", "mapperFileSizeBatchConsumeQueue"),
        ("enableLMQ", "enableLmq"),
        ("checkCrcOnRecover", "checkCRCOnRecover"),
        ("brokerNam", "brokerName"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(SettingError, match=f"did you mean {nearest}\\?") as caught:
        settings_from({name: "1"})
    assert repr(name) in str(caught.value)


def test_a_name_like_none_suggests_none() -> None:
    with pytest.raises(SettingError) as caught:
        settings_from({"zzqqxx": "1"})
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("maxIndexNum", "many", "a whole number is wanted"),
        ("maxIndexNum", "", "a whole number is wanted"),
        ("maxIndexNum", "1.5", "a whole number is wanted"),
        ("maxIndexNum", "1", "out of range 2"),  # one entry, number 0, that is never used
        ("maxHashSlotNum", "0", "out of range 1"),
        ("mappedFileSizeCommitLog", "0", "out of range"),
        ("mappedFileSizeConsumeQueue", "-20", "out of range"),
        ("mappedFileSizeCommitLog", "2147483648", "out of range"),
        ("enableLmq", "yes", "true or false is wanted"),
        ("enableLmq", "", "true or false is wanted"),
        ("messageDelayLevel", "1s 5x", "is not a number and s, m, h or d"),
        ("messageDelayLevel", "1s s", "is not a number and s, m, h or d"),
        ("messageDelayLevel", "1s --5s", "is not a number and s, m, h or d"),
        ("messageDelayLevel", "1s \u0665s", "is not a number and s, m, h or d"),
    ],
)
def test_malformed_values(name: str, text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        settings_from({name: text})
    assert name in str(caught.value)


def test_values_may_have_blanks_and_capitals() -> None:
    settings = settings_from({"maxIndexNum": " 400 ", "enableLmq": "TRUE "})
    assert (settings.max_index_num, settings.enable_lmq) == (400, True)


@pytest.mark.parametrize(
    ("text", "delays"),
    [
        ("", ()),
        ("1s", (1_000,)),
        ("1s 2m  3h\t4d", (1_000, 120_000, 10_800_000, 345_600_000)),
        ("0s 007s", (0, 7_000)),
        ("-1s +2s", (-1_000, 2_000)),
        ("9999999999999d", (-2_996_971_464_435_325_952,)),  # in Java's 64 bits
    ],
)
def test_delay_levels(text: str, delays: tuple[int, ...]) -> None:
    assert settings_from({"messageDelayLevel": text}).delays == delays


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("enableRocksDBStore", "true", "RocksDB"),
        ("indexRocksDBEnable", "true", "RocksDB"),
        ("storeType", "defaultRocksDB", "storeType"),
        ("enableDLegerCommitLog", "true", "DLedger"),
        ("enableConsumeQueueExt", "true", "ConsumeQueueExt"),
    ],
)
def test_what_is_not_built_is_refused_by_name(name: str, value: str, what: str) -> None:
    with pytest.raises(SettingError, match=what) as caught:
        refuse_unsupported(settings_from({name: value}))
    assert name in str(caught.value)
    refuse_unsupported(settings_from({name: "default" if name == "storeType" else "false"}))


# The properties file


BROKER_CONF = """\
# a broker
! also a comment
   # and this
brokerName = broker-a
maxIndexNum=400
maxHashSlotNum : 100

enableLmq=true
messageDelayLevel=1s \\
    5s \\
    10s
storePathCommitLog=C\\:\\\\store\\\\log
deleteWhen=
namesrvAddr=a:9876;b:9876
last=x#y
"""


def test_a_brokers_file() -> None:
    assert parse_properties(BROKER_CONF) == {
        "brokerName": "broker-a",
        "maxIndexNum": "400",
        "maxHashSlotNum": "100",
        "enableLmq": "true",
        "messageDelayLevel": "1s 5s 10s",
        "storePathCommitLog": "C:\\store\\log",
        "deleteWhen": "",
        "namesrvAddr": "a:9876;b:9876",
        "last": "x#y",
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", {}),
        ("\n\n  \n", {}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n", {"a": "1"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n#b=2", {"a": "1#b=2"}),  # a continued line is no comment
        ("a=1\\\\\\\n2", {"a": "1\\2"}),  # three: one backslash, and the line goes on
        ("a", {"a": ""}),
        ("a 1", {"a": "1"}),
        ("a:b=c", {"a": "b=c"}),
        ("a\t=\t1", {"a": "1"}),
        ("a = 1 \\\n   2", {"a": "1 2"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u4e3b\\t.", {"a": "\u4e3b\t."}),
        ("a=x\x0by\x85z", {"a": "x\x0by\x85z"}),
        ("=1", {"": "1"}),
    ],
)
def test_lines_of_a_properties_file(text: str, values: dict[str, str]) -> None:
    assert parse_properties(text) == values


@given(st.dictionaries(st.from_regex(r"[a-zA-Z]\w{0,8}", fullmatch=True), st.integers()))
def test_a_file_of_numbers_reads_back(values: dict[str, int]) -> None:
    text = "".join(f"{name} = {value}\n" for name, value in values.items())
    assert parse_properties(text) == {name: str(value) for name, value in values.items()}


def test_assignments() -> None:
    assert parse_assignments(["a=1", " b = 2=3 ", "c="]) == {"a": "1", "b": "2=3", "c": ""}
    with pytest.raises(SettingError, match="'maxIndexNum' is not NAME=VALUE"):
        parse_assignments(["maxIndexNum"])
