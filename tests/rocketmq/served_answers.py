"""What of two servers' answers is compared: all but what two processes cannot have in common.

Each rule has its reason beside it."""

import json
import re
from typing import Any

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
_OF_PROCESS = frozenset(
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
        return {name: _value(each) for name, each in reported.items() if name not in _OF_PROCESS}
    if isinstance(reported, list):
        return sorted((_value(each) for each in reported), key=json.dumps)
    return _OF_OBJECT.sub("*", reported) if isinstance(reported, str) else reported


def figures(answer: dict[str, Any]) -> dict[str, str]:
    """What brokerStatus and getBrokerConfig print: name and value a line."""
    lines = (re.split(r"\s+[:=]\s+|: ", line, maxsplit=1) for line in answer["answer"].splitlines())
    return {each[0].strip(): each[1].strip() for each in lines if len(each) == 2}
