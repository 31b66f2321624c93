"""`reput serve` and the real name server and broker on the same store: clients and tools of three
releases are reported the same. What is not compared, and why, is below."""

import json
import re
from typing import Any

import pytest

from tests.rocketmq import real_clients, seen, served
from tests.rocketmq.real_clients import Step
from tests.rocketmq.seen import Seen
from tests.trees import contents

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]
KINDS = ("push", "orderly", "broadcast", "pull", "lite pull", "tags", "SQL92")


@pytest.mark.parametrize(("version", "client"),
                         [("5.5.0", "5.5.0"), ("4.9.7", "5.5.0"), ("5.3.3", "4.9.7")])  # fmt: skip
def test_consumers_and_tools_are_given_what_the_broker_gives(version, client, folder) -> None:
    made = served.make(version, folder)
    kinds = {"tools": (same_to_mqadmin, lambda at: served.tool_steps(made, at)),
             "seen": (same_of_a_consumer, lambda _: served.seen_steps(made)),
             "consumers": (same_to_a_client, lambda _: served.client_steps(made))}  # fmt: skip
    before, older = contents(made.store), version < "5" < client
    for kind, (same, steps) in kinds.items():  # a broker for each, as the dashboard's steps delete
        with served.by_broker(made, folder / kind) as namesrv:
            theirs = real_clients.run(client, namesrv, steps(namesrv))
        with served.by_reput(made) as address:
            ours = real_clients.run(client, address, steps(address))
        for step, their, our in zip(steps("*"), theirs, ours, strict=True):
            same(step, their, our, older)
    assert contents(made.store) == before  # nothing was written to the store
    seen.note(*(Seen("Java", client, "remoting", each) for each in KINDS))


def same_to_a_client(step: Step, theirs: dict[str, Any], ours: dict[str, Any], older: bool) -> None:
    """older: the broker is of 4.x, and the client not."""
    if step["do"] == "lite" and older:
        # a broker of 4.x does not know its pull (LITE_PULL_MESSAGE), and gives it nothing
        assert not theirs["answer"]["messages"]
        assert bool(ours["answer"]["messages"]) == ("least" in step)
    elif step.get("group") == "wrong":  # both say that the expression is wrong, in own words
        assert "CODE: 23" in theirs["error"]
        assert "CODE: 23" in ours["error"], ours
    elif step.get("members", 1) > 1 and not step.get("broadcast"):
        # a queue that changes hands before its offset was committed is read again from there
        same = [set(normal(each)["messages"]) for each in (theirs, ours)]
        assert same[0] == same[1], step
        _in_order(ours["answer"]["messages"])
    else:
        assert normal(ours) == normal(theirs), step


def _in_order(messages: list[list[Any]]) -> None:
    """Each queue's messages came one after the other, when each is counted for the first time."""
    for queue in {message[1] for message in messages}:
        offsets = [message[2] for message in messages if message[1] == queue]
        first = list(dict.fromkeys(offsets))
        assert first == sorted(first)


# Figures of what there is none of here: threads' queues, puts, pages locked in memory, plug-ins.
_NOT_OURS = re.compile(
    r"(EndTransaction|.*ThreadPoolQueueCapacity|dispatchMaxBuffer|put[ML]|remainTransient|"
    r"getMessageEntireTimeMax|get(Found|Miss|Total)Tps|commitLogDirCapacity|"
    r"commitLogDiskRatio_|scheduleMessageOffset|queryAssignment)"
)
# When the process began, what was given since, how full the disk is by now, how far a timer's
# thread is behind at the moment. And 4.9.7 looks for the earliest message in a segment only if that
# has 8 MB.
_OF_PROCESS = {"bootTimestamp", "runtime", "getTransferredTps", "getTransferedTps",
               "msgGetTotalTodayNow", "earliestMessageTimeStamp", "commitLogDiskRatio",
               "consumeQueueDiskRatio", "putMessageTimesTotal", "timerReadBehind",
               "timerOffsetBehind", "timerCongestNum"}  # fmt: skip


def _without_lags(answer: dict[str, Any]) -> list[str]:
    """statsAll has a group's lag behind two names, consumerProgress at the end of its line."""
    lag = re.compile(r"(?<=\s)\d+$|(?<=\s)\d+(?=\s+\d+\.\d+\s+\d+\.\d+\s)")
    return [" ".join(lag.sub("*", line).split()) for line in normal(answer)]


_UNKNOWN = re.compile(r"CODE: 3  DESC:\s+request type \d+ not supported")


def _is_newer(theirs: object) -> bool:
    """Whether a broker does not know the request: a later release's tool asks for more, and is
    answered here, whatever release the store is of."""
    return _UNKNOWN.search(str(theirs)) is not None


def same_to_mqadmin(step: Step, theirs: dict[str, Any], ours: dict[str, Any], older: bool) -> None:
    command = step["words"][0]
    if older and (command == "statsAll" or step["words"] == ["consumerProgress", "-n", "*"]):
        # the tool asks for the topics' settings, which a broker of 4.x does not know, and takes
        # its refusal for a group that lags behind by nothing
        assert _without_lags(ours) == _without_lags(theirs)
    elif _is_newer(theirs):
        assert "CODE: 3 " not in str(ours), step
    elif command in ("brokerStatus", "getBrokerConfig", "getNamesrvConfig"):
        _same_figures(command, figures(theirs), figures(ours))
    elif command == "clusterList" and "-m" not in step["words"]:
        # the rate of messages given, how full the disk is, how far a timer's thread is behind
        same = [_OF_MOMENT.sub(" *", str(normal(each))) for each in (theirs, ours)]
        assert same[0] == same[1]
    else:
        assert normal(ours) == normal(theirs), step


_OF_MOMENT = re.compile(r"\s*\d+\.\d+|\b\d+-\d+(?=\()")


def _same_figures(command: str, theirs: dict[str, str], ours: dict[str, str]) -> None:
    assert ours
    for name in set(ours) & set(theirs) - _OF_PROCESS:
        if command != "getNamesrvConfig" or name != "listenPort":
            # the first of rates, of which a broker has none before it has counted for a while
            rates = theirs[name].split()[:1]
            assert not rates or ours[name].split()[:1] == rates, name
    if command == "brokerStatus":
        missing = {name for name in theirs if not _NOT_OURS.match(name)} - set(ours)
        assert not missing


_TRACK = re.compile(r"(?<=trackType=)\w+")
_REFUSED = ("delete", "createAndUpdate", "clean")


def same_of_a_consumer(
    step: Step, theirs: dict[str, Any], ours: dict[str, Any], older: bool
) -> None:
    if step.get("words", [""])[0] == "queryMsgById" and older:
        # asked for a topic's settings too, which a broker of 4.x does not know: UNKNOWN
        theirs, ours = ({"answer": _TRACK.sub("*", each["answer"])} for each in (theirs, ours))
    if step["do"] != "admin":
        if _is_newer(theirs):
            assert "CODE: 3 " not in str(ours), step
        else:
            assert normal(ours) == normal(theirs), step
        return
    reported = zip(step["calls"], normal(theirs), normal(ours), ours["answer"], strict=True)
    for call, real, own, own_text in reported:
        name = call[0]
        if own == ["no such method"]:
            assert real == own
        elif _is_newer(real):
            assert "CODE: 3 " not in own_text, call
        elif name.startswith(_REFUSED):
            assert "CODE: 16" in own_text, call
        elif name in ("fetchBrokerRuntimeStats", "getBrokerConfig"):
            _same_figures(name, *(each.get("table", each) for each in (real, own)))
        elif name == "getAllProducerInfo":  # tools' own, which come and go
            assert own.keys() == real.keys()
        else:
            assert own == real, call


# --- What of two servers' answers is compared: all but what two processes cannot have in common.
# The order of a HashMap: lines are compared as a set, and so are JSON lists.
# Stack traces show lines of the same release's client, and where in it an answer was refused.
_DROPPED = re.compile(
    r"\s+at |\s*\.\.\. \d+ more|"
    # a link to RocketMQ's FAQ, which a client adds where a server did not
    r"See https?://|For more information, please visit|"
    # RocketMQ from 5.0.0 on takes topics for groups (ConsumerManager.registerConsumer adds
    # subscriptionData.getTopic() to the groups of a topic)
    r"MessageTrack \[consumerGroup=Live\d|"
    # a tool that takes longer than a second has sent its heartbeat, and is shown itself
    r"producer group \(CLIENT_INNER_PRODUCER\) instance|"
    # the name server's address, which is the broker's here
    r"=+127\.0\.0\.1:\d+=+"
)
_REPLACED = (
    # a client's own port
    (re.compile(r"(127\.0\.0\.1:)\d+(\s+JAVA)"), r"\1*\2"),
    # where a link to the FAQ stood behind an error within a line
    (re.compile(r"See https?://\S+ for further details\.?.*"), ""),
    # the folder of a client's running info is named by the moment
    (re.compile(r"\d{13}/(\S+@client)"), r"*/\1"),
    # the same address is spelt with a slash where netty prints it
    (re.compile(r"(\[?)/(127\.0\.0\.1)"), r"\1\2"),
    # messages a second, counted while the process runs
    (re.compile(r"(Consume TPS: )\S+"), r"\1*"),
    # a moment in which the tool printed
    (re.compile(r"(delayTime=)\d+"), r"\1*"),
)
_QUEUE_KEY = re.compile(r'\{"brokerName":"(\w+)","queueId":(\d+),"topic":"([^"]*)"\}:')
_INTEGER_KEY = re.compile(r"([{,])(-?\d+):")
# An object of Java as text: its hash, and a lambda's number
_OF_OBJECT = re.compile(r"(\$\$Lambda\S*|@[0-9a-f]{5,8}$)")
# When the process began, when a client was heard of, and what was counted since.
_OF_PROCESS_ANSWERS = frozenset(
    (
        "bootTimestamp", "runtime", "timestamp", "counter", "dataVersion", "subVersion",
        "delayTime", "lastUpdateTimestampOfClient", "clientAddr", "remoteIP", "getTransferredTps",
        "msgGetTotalTodayNow", "consumeTps", "commitLogDiskRatio", "consumeQueueDiskRatio",
        # of a consumer's ConsumerRunningInfo, and how long it took to consume a message
        "PROP_CONSUMER_START_TIMESTAMP", "PROP_NAMESERVER_ADDR", "namesrvAddr", "consumeTimestamp",
        "statusTable", "jstack", "lastPullTimestamp", "lastConsumeTimestamp", "lastLockTimestamp",
        "spentTimeMills", "lastPopTimestamp",
    )
)  # fmt: skip


def normal(answer: dict[str, Any]) -> Any:
    """A step's answer, as it is compared."""
    if "error" in answer:
        return _text(answer["error"])
    reported = answer["answer"]
    if isinstance(reported, str):
        return _text(reported)
    if isinstance(reported, list):  # of MQAdminExt's calls
        return [_call(each) for each in reported]
    if "messages" in reported:
        return {**reported, "messages": sorted(map(json.dumps, reported["messages"]))}
    return reported


def _text(text: str) -> list[str]:
    lines = []
    for line in text.splitlines():
        if not _DROPPED.match(line):
            for pattern, to in _REPLACED:
                line = pattern.sub(to, line)
            lines.append(line.rstrip())
    return sorted(filter(None, lines))


def _call(reported: Any) -> Any:
    if not isinstance(reported, str) or not reported.startswith(("{", "[")):
        return None if reported is None else _text(str(reported))
    text = _QUEUE_KEY.sub(r'"\1/\3/\2":', reported)
    return _value(json.loads(_INTEGER_KEY.sub(r'\1"\2":', text)))


def _value(reported: Any) -> Any:
    if isinstance(reported, dict):
        return {name: _value(each) for name,
                each in reported.items() if name not in _OF_PROCESS_ANSWERS}  # fmt: skip
    if isinstance(reported, list):
        return sorted((_value(each) for each in reported), key=json.dumps)
    return _OF_OBJECT.sub("*", reported) if isinstance(reported, str) else reported


def figures(answer: dict[str, Any]) -> dict[str, str]:
    """What brokerStatus and getBrokerConfig print: name and value a line."""
    lines = (re.split(r"\s+[:=]\s+|: ", line, maxsplit=1) for line in answer["answer"].splitlines())
    return {each[0].strip(): each[1].strip() for each in lines if len(each) == 2}
