"""The errors of a writer: one for each reason to refuse a message, and those that end the writer.

`status` is the name that RocketMQ's PutMessageStatus has for it.
"""

from reput.store_format.faults import StoreError

PUT_OK = "PUT_OK"
FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
UNKNOWN_ERROR = "UNKNOWN_ERROR"
OS_PAGE_CACHE_BUSY = "OS_PAGE_CACHE_BUSY"
CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"


class Refused(ValueError):
    """A message is not appended; nothing was written."""

    status = MESSAGE_ILLEGAL
    row: int | None = None  # of many messages, the refused one's number from 0; None: no single one


class TopicBlank(Refused):
    """TopicValidator.validateTopic: the topic is blank."""


class TopicCharacters(Refused):
    """TopicValidator.validateTopic: only ^[%|a-zA-Z0-9_-]+$ is allowed."""


class TopicUnsafe(Refused):
    """A name of a topic or further queue that is not a folder's; RocketMQ uses it as a path."""


class TopicTooLong(Refused):
    """HookUtils.checkBeforePutMessage: over 127 bytes, or over 255 for a %RETRY% topic."""


class TopicForbidden(Refused):
    """TopicValidator.isNotAllowedSendTopic: a topic that only the broker itself writes to."""


class BodyMissing(Refused):
    """HookUtils.checkBeforePutMessage: the body is None."""


class BodyTooLarge(Refused):
    """MessageExtEncoder.encode: the body is over maxMessageSize."""


class MessageTooLarge(Refused):
    """The record does not fit into an empty segment, with the 8 bytes of a BLANK after it."""


class PropertiesTooLarge(Refused):
    """MessageExtEncoder.encode: over 32,767 bytes."""

    status = PROPERTIES_SIZE_EXCEEDED


class SeparatorInProperty(Refused):
    """A name or value holds 0x01 or 0x02, which separate them, or a NUL, which no text has."""


class PropertyBlank(Refused):
    """Message.putUserProperty: a name or a value is blank."""


class HostInvalid(Refused):
    """A host is not `address:port` with an address of IPv4 or IPv6 and a port 0..65535."""


class HostFamily(Refused):
    """The release whose rules are followed has no IPv6 hosts (before 4.6.0)."""


class FieldRange(Refused):
    """A number is out of its field's range."""


class FieldType(Refused):
    """A field's value is of a wrong type."""


class DelayInvalid(Refused):
    """Message.getDelayTimeLevel: the property DELAY is not a number, on which a broker fails."""


class TimerIllegal(Refused):
    """HookUtils.transformTimerMessage: no number, too far away, or recalls a due message."""

    status = WHEEL_TIMER_MSG_ILLEGAL


class TimerDisabled(Refused):
    """HookUtils.handleScheduleMessage, 5.0.0 on: a timer message while timerWheelEnable is off."""

    status = WHEEL_TIMER_NOT_ENABLE


class BatchIllegal(Refused):
    """CommitLog.asyncPutMessages: a batch has one topic and queue, no delayed or half message."""


class BatchQueueTopic(Refused):
    """A topic whose queue.type is BatchCQ: its positions are not kept here."""


def batch_queue_topic(topic: str) -> BatchQueueTopic:
    return BatchQueueTopic(
        f"topic {topic!r}: has queue.type BatchCQ, whose positions the writer does not keep"
    )


class MultiDispatch(Refused):
    """INNER_MULTI_DISPATCH among columns: the further queues are numbered message by message."""


class NotPrepared(Refused):
    """There is no half message at that offset (EndTransactionProcessor)."""


class Unavailable(Refused):
    """The store takes no message at this moment; later it may."""

    status = SERVICE_NOT_AVAILABLE


class DiskFull(Unavailable):
    """The disk is fuller than diskSpaceWarningLevelRatio (RunningFlags.isWriteable)."""


class PageCacheBusy(Unavailable):
    """The write of another message has taken longer than osPageCacheBusyTimeOutMills."""

    status = OS_PAGE_CACHE_BUSY


class CreateFileFailed(Unavailable):
    """No segment can be made: all buffers wait to be written (fastFailIfNoBufferInStorePool)."""

    status = CREATE_MAPPED_FILE_FAILED


class WriterClosed(StoreError):
    """The writer was closed."""

    status = SERVICE_NOT_AVAILABLE


class ForkedWriter(StoreError):
    """The writer was opened by another process, of which this one is a fork.

    That process has the store's lock and the threads; both writers would use the same places.
    """

    status = SERVICE_NOT_AVAILABLE


class WriterFailed(StoreError):
    """A write or an fsync failed, so it is unknown what is durable, and the writer has ended.

    Nothing is retried: after a failed fsync the kernel may have dropped the pages, and a second
    fsync would succeed without them. The next open recovers.
    """

    status = UNKNOWN_ERROR
