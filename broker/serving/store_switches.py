"""Requests about parts of a broker that do not run here: queues written to RocksDB besides files,
limits on reads of cold data (AdminBrokerProcessor).
"""

from reput.broker.serving.answer import Answer, Caller, found
from reput.broker.serving.broker import Broker, Handlers
from reput.broker.wire.codes import RequestCode, fastjson
from reput.broker.wire.remoting import Command
from reput.store_format.release.profiles import release_key

_IN_PROGRESS = 2  # CheckRocksdbCqWriteResult.CheckStatus: what a broker answers at once
_NOT_WRITTEN = "rocksdbCQWriteEnable is false, checkRocksdbCqWriteProgressCommand is invalid"
_COLD_OF_GROUP, _COLD_OF_ALL = 3 << 20, 100 << 20  # cgColdReadThreshold, globalColdReadThreshold


def cold_reads(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Groups that read cold data: none are counted (ColdDataCgCtrService)."""
    facts = {
        "runtimeTable": {}, "configTable": {}, "cgColdReadThreshold": _COLD_OF_GROUP,
        "globalColdReadThreshold": _COLD_OF_ALL, "globalAcc": 0,
    }  # fmt: skip
    return found(fastjson(facts))


def queues_in_rocksdb(broker: Broker, request: Command, caller: Caller) -> Answer:
    """Whether queues in RocksDB equal those in files; a broker notes the result only in its log."""
    if release_key(broker.store.opened.profile.release) < (5, 3, 1):
        return found(fastjson({"diffResult": _NOT_WRITTEN}))
    return found(fastjson({"checkStatus": _IN_PROGRESS}))


HANDLERS: Handlers = {
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: cold_reads,
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: queues_in_rocksdb,
}
