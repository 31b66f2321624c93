"""Random messages of every kind, as `Put.java` reads them: the same seed, the same messages."""

import random
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
BASE_TIME = 1_700_000_000_000
TAGS = ("TagA", "TagB", "a||b", "标签", "😀", "é", "x" * 60, "Aa", "BB", " spaced ",
        "polygenelubricants")  # fmt: skip
WORDS = ("order", "k", "Aa", "BB", "订单", "😀", "polygenelubricants", "naïve", "1", "-", "UNIQ",
         "#")  # fmt: skip
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
SYSTEM = ("%RETRY%group0", "%RETRY%group1", "%DLQ%group0", "RMQ_SYS_TRANS_HALF_TOPIC",
          "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC",
          "rmq_sys_wheel_timer")  # fmt: skip
PREPARED, COMMIT, ROLLBACK = 4, 8, 12
INNER_BATCH = 1 << 7


@dataclass(frozen=True)
class Shape:
    """What the messages of one store are like; `version` bounds what the release can write."""

    version: tuple[int, int, int]
    messages: int
    topics: list[str]
    queues: int
    biggest: int
    delays: bool = True
    lmq: bool = False
    batch_topics: list[str] = field(default_factory=list)


class Workload:
    def __init__(self, seed: int, shape: Shape) -> None:
        self.random = random.Random(f"workload {seed}")
        self.shape = shape
        self.prepared: list[int] = []
        self.unique = 0

    def messages(self) -> list[Message]:
        made: list[Message] = []
        for number in range(self.shape.messages):
            message = self._message(number)
            if message.get("sys", 0) & ROLLBACK == PREPARED:
                self.prepared.append(number)
            made.append(message)
        return made

    def _message(self, number: int) -> Message:
        r = self.random
        kinds = ["plain"] * 12 + ["system", "system", "transaction", "transaction", "bare", "batch"]
        if self.shape.delays:
            kinds += ["delay", "delay"]
        if self.shape.batch_topics:
            kinds += ["inner", "inner", "inner"]
        message: Message = {"t": r.choice(self.shape.topics), "q": r.randrange(self.shape.queues),
                            "born": BASE_TIME + number, "flag": r.choice((0, 0, 0, 1, -1)),
                            "sys": r.choice((0, 0, 0, 0, 1, 2)), "rc": 0,
                            "bs": r.randrange(1 << 30), "b": self._size(),
                            "p": self._properties()}  # fmt: skip
        self._hosts(message)
        getattr(self, f"_{r.choice(kinds)}")(message)
        return message

    def _size(self) -> int:
        r = self.random
        choice = r.random()
        if choice < 0.1:
            return 0
        if choice < 0.9:
            return r.randrange(1, 300)
        return r.randrange(300, self.shape.biggest)

    def _hosts(self, message: Message) -> None:
        r = self.random
        message["bh"] = f"10.{r.randrange(256)}.0.{r.randrange(256)}:{r.randrange(65536)}"
        message["sh"] = "10.0.0.1:10911"
        if self.shape.version >= (4, 6, 0):
            if r.random() < 0.1:
                message["bh"] = f"2001:db8::{r.randrange(65536):x}:{r.randrange(65536)}"
            if r.random() < 0.05:
                message["sh"] = "2001:db8::1:10911"

    def _properties(self) -> dict[str, str]:
        r = self.random
        properties: dict[str, str] = {}
        if r.random() < 0.85:
            self.unique += 1
            properties["UNIQ_KEY"] = f"AC11000100002A9F0000{self.unique:012X}"
        if r.random() < 0.7:
            properties["KEYS"] = self._keys(properties.get("UNIQ_KEY"))
        if r.random() < 0.7:
            properties["TAGS"] = r.choice(TAGS)
        if r.random() < 0.3:
            properties["WAIT"] = "true"
        if r.random() < 0.1:
            properties[r.choice(("名", "a", "b c"))] = r.choice(("值", "1", "x=y"))
        if self.shape.lmq and r.random() < 0.5:
            properties |= self._lmq()
        pairs = list(properties.items())
        r.shuffle(pairs)
        return dict(pairs)

    def _keys(self, unique: str | None) -> str:
        r = self.random
        tokens = [r.choice(WORDS) + (str(r.randrange(50)) if r.random() < 0.7 else "")
                  for _ in range(r.choice((1, 1, 1, 2, 3, 6)))]  # fmt: skip
        if r.random() < 0.2:
            tokens.append(tokens[0])
        if unique and r.random() < 0.1:
            tokens.append(unique)
        text = r.choice((" ", " ", "  ", "   ")).join(tokens)
        if r.random() < 0.1:
            text = " " + text
        return text

    def _lmq(self) -> dict[str, str]:
        r = self.random
        names = [r.choice(("%LMQ%u", "%LMQ%用户", "other")) + str(r.randrange(4))]
        names += [f"%LMQ%u{r.randrange(6)}" for _ in range(r.randrange(3))]
        if self.shape.version >= (5, 1, 2) and r.random() < 0.1:
            names.append("%LMQ%a/b")
        offsets = [str(r.choice((0, 0, r.randrange(40)))) for _ in names]
        if r.random() < 0.1:
            offsets.pop()
        return {"INNER_MULTI_DISPATCH": ",".join(names),
                "INNER_MULTI_QUEUE_OFFSET": ",".join(offsets)}  # fmt: skip

    # The kinds; each changes a plain message.

    def _plain(self, message: Message) -> None:
        pass

    def _bare(self, message: Message) -> None:
        """No properties at all, and often no body."""
        message["p"] = {}
        if self.random.random() < 0.5:
            message["b"] = 0

    def _system(self, message: Message) -> None:
        r = self.random
        message["t"], message["q"] = r.choice(SYSTEM), 0
        if message["t"].startswith("%RETRY%"):
            message["rc"] = r.randrange(1, 17)
            message["p"]["RETRY_TOPIC"] = "Topic0"
        elif message["t"] == "RMQ_SYS_TRANS_HALF_TOPIC":
            message["p"] |= {"REAL_TOPIC": "Topic0", "REAL_QID": "1", "TRAN_MSG": "true"}
        elif message["t"] == "RMQ_SYS_TRANS_OP_HALF_TOPIC":
            message["p"] = {"TAGS": "d"}

    def _delay(self, message: Message) -> None:
        level = self.random.choice((1, 2, 3, 5, 18, 18, 19, 40, 0, -1))
        # Where the topic is the schedule's already, 4.x files by its own level too.
        message |= {"t": SCHEDULE, "q": max(0, min(level, 18) - 1)}
        message["p"] |= {"DELAY": str(level), "REAL_TOPIC": "Topic0", "REAL_QID": "0"}

    def _transaction(self, message: Message) -> None:
        r = self.random
        kind = r.choice((PREPARED, PREPARED, COMMIT, ROLLBACK))
        message["sys"] |= kind
        message["p"] |= {"TRAN_MSG": "true", "PGROUP": "producers"}
        if kind != PREPARED and self.prepared:
            message["prep"] = self.prepared.pop(r.randrange(len(self.prepared)))

    def _batch(self, message: Message) -> None:
        """Several messages in one append."""
        r = self.random
        parts = []
        for _ in range(r.randrange(1, 6)):
            parts.append(
                {"b": r.randrange(1, 200), "bs": r.randrange(1 << 30), "p": self._properties()}
            )
        message["batch"] = parts

    def _inner(self, message: Message) -> None:
        """A message for a BatchCQ topic; some are batches kept whole."""
        r = self.random
        message["t"] = r.choice(self.shape.batch_topics)
        message["q"] = r.randrange(2)
        if r.random() < 0.6:
            message["sys"] |= INNER_BATCH
            message["p"]["INNER_NUM"] = str(r.randrange(1, 10))
