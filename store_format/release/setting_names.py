"""Every setting that a RocketMQ broker's file may hold, 4.1.0 to 5.5.1, and how reput treats it.

This is the only declaration: `setting_table.py` reads it, `settings.py` parses by it, and warnings
and docs/settings.md are made from it. Names, types, releases and defaults are those of the setters
of MessageStoreConfig, BrokerConfig, NettyServerConfig, NettyClientConfig and AuthConfig, which
MixAll.properties2Object calls; tests/rocketmq/test_setting_releases.py compares them with
RocketMQ's own jars.

Each heading says how the commands that derive files treat the settings below it, how append treats
them, and why:

- obeyed: reput does what RocketMQ does;
- harmless: the setting changes neither what is derived or written nor when it is durable;
- warned: RocketMQ would do something else, and a warning says so unless the value is the default;
- refused: reput does not touch a store with any other value than the default.

A line is NAME TYPE FIRST_RELEASE[-LAST_RELEASE] [also:OLDER_NAME@FIRST-LAST] [= DEFAULT]. A `-` in
place of a release means that no broker's class has the name; a default of `*` depends on the
machine.
"""

TABLE = """
[obeyed refused] where the log is; append writes to STORE/commitlog and refuses any other folder
storePathCommitLog text 4.1.0 = *
readOnlyCommitLogStorePaths text 4.9.2
[obeyed obeyed] sizes of files
mappedFileSizeCommitLog int 4.5.2 also:mapedFileSizeCommitLog@4.1.0-4.5.1 = 1073741824
mappedFileSizeConsumeQueue int 4.5.2 also:mapedFileSizeConsumeQueue@4.1.0-4.5.1 = 6000000
maxHashSlotNum int 4.1.0 = 5000000
maxIndexNum int 4.1.0 = 20000000
[obeyed harmless] size of files; append writes to no batch queue
mapperFileSizeBatchConsumeQueue int 5.0.0 = 13800000
[obeyed obeyed] whether there is an index
messageIndexEnable boolean 4.1.0 = true
indexFileWriteEnable boolean 5.4.0 = true
[obeyed obeyed] when delayed messages are due: their tagsCode
messageDelayLevel text 4.1.0 = 1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h
[obeyed obeyed] further queues of one message
enableMultiDispatch boolean 4.9.3 = false
enableLmq boolean 4.9.3 = false
[obeyed obeyed] with rocksdbCQDoubleWriteEnable: such further queues have no files then
combineCQUseRocksdbForLmq boolean 5.5.0 = false
[obeyed obeyed] what is checked of a record
checkCRCOnRecover boolean 4.1.0 = true
forceVerifyPropCRC boolean 5.2.0 = false
[obeyed obeyed] the __CRC32# property of records that are written
enabledAppendPropCRC boolean 5.2.0 = false
[harmless obeyed] what a record may be
maxMessageSize int 4.1.0 = 4194304
maxTopicLength int 5.0.0 = 127
autoMessageVersionOnTopicLen boolean 5.1.0 = true
[harmless obeyed] when what was appended is durable
flushDiskType ASYNC_FLUSH|SYNC_FLUSH 4.1.0 = ASYNC_FLUSH
syncFlushTimeout int 4.1.0 = 5000
flushIntervalCommitLog int 4.1.0 = 500
flushCommitLogLeastPages int 4.1.0 = 4
flushCommitLogThoroughInterval int 4.1.0 = 10000
transientStorePoolEnable boolean 4.1.0 = false
commitIntervalCommitLog int 4.1.0 = 200
commitCommitLogLeastPages int 4.1.0 = 4
commitCommitLogThoroughInterval int 4.1.0 = 200
flushConsumeQueueThoroughInterval int 4.1.0 = 60000
flushIntervalConsumeQueue int 4.1.0 = 1000
flushConsumeQueueLeastPages int 4.1.0 = 2
warmMapedFileEnable boolean 4.1.0 = false
[harmless obeyed] how much may wait in the write buffer, and what happens where it is full
transientStorePoolSize int 4.1.0 = 5
fastFailIfNoBufferInStorePool boolean 4.1.0 = false
[harmless obeyed] when no message is taken
osPageCacheBusyTimeOutMills long 4.1.0 = 1000
cleanResourceInterval int 4.1.0 = 10000
diskSpaceWarningLevelRatio int 5.0.0 = 90
[harmless obeyed] whether and how timer messages are put
timerWheelEnable boolean 5.0.0 = true
timerPrecisionMs int 5.0.0 = 1000
timerMaxDelaySec int 5.0.0 = 259200
[harmless obeyed] when resolve-transactions discards, and how many offsets an op message of it has
transactionCheckMax int 4.3.0 = 15
transactionOpMsgMaxSize int 5.1.0 = 4096
[harmless obeyed] size of timerlog/ files, where deliver-delayed finds none
mappedFileSizeTimerLog int 5.0.0 = 104857600
[refused refused] any but file queues only (storeType=default)
storeType text 5.1.4 = default
[refused refused] an index in RocksDB
indexRocksDBEnable boolean 5.4.0 = false
[refused refused] queues in RocksDB (a name of its own, which no broker has)
enableRocksDBStore boolean - = false
[refused refused] DLedger logs, whose records have another frame
enableDLegerCommitLog boolean 4.5.0 = false
[refused refused] ConsumeQueueExt, which needs live consumer filters
enableConsumeQueueExt boolean 4.1.0 = false
[warned warned] RocksDB files are not written beside
rocksdbCQDoubleWriteEnable boolean 5.3.1 = false
rocksdbCQSelectiveDoubleWriteEnable boolean 5.5.1 = false
timerRocksDBEnable boolean 5.4.0 = false
transRocksDBEnable boolean 5.4.0 = false
[harmless warned] half messages are written to the log as by default
transWriteOriginTransHalfEnable boolean 5.4.0 = true
[warned warned] what the plug-in does of its own, as tiered storage, is not done
messageStorePlugIn text 4.1.0
[warned warned] what is dispatched is not bounded by a confirmed offset of its copy
duplicationEnable boolean 4.1.0 = false
[warned harmless] which records recovery takes is told as without it
checkCommitLogOffsetOnRecover boolean 5.5.0 = false
[harmless refused] a SLAVE takes no messages; SYNC_MASTER is warned of: nothing is replicated
brokerRole ASYNC_MASTER|SYNC_MASTER|SLAVE 4.1.0 = ASYNC_MASTER
[harmless warned] nothing is replicated: PUT_OK speaks of this disk alone
inSyncReplicas int 5.0.0 = 1
minInSyncReplicas int 5.0.0 = 1
totalReplicas int 5.0.0 = 1
allAckInSyncStateSet boolean 5.0.0 = false
enableAutoInSyncReplicas boolean 5.0.0 = false
[harmless warned] no epoch is written, nothing is replicated: PUT_OK speaks of this disk alone
enableControllerMode boolean 5.0.0 = false
[harmless warned] the log is flushed at its intervals, not by each message
flushCommitLogTimed boolean 4.1.0 = true
wakeFlushWhenPutMessage boolean 5.0.0 = false
[harmless warned] append waits for syncFlushTimeout alone
putMessageTimeout int 5.0.0 = 8000
[harmless warned] delayed messages go to the levels of messageDelayLevel
timerInterceptDelayLevel boolean 5.0.0 = false
[harmless warned] append takes any number of light queues
maxLmqConsumeQueueNum int 4.9.3 = 20000
enableLmqQuota boolean 5.5.0 = false
[harmless obeyed] the store host that records get
brokerIP1 text 4.1.0 = *
listenPort int 4.1.0 = *
[harmless harmless] STORE says where it is
storePathRootDir text 4.1.0 = *
[harmless harmless] DLedger, ConsumeQueueExt and RocksDB, which are refused
batchWriteKvCqSize int 5.3.1-5.3.1 = 16
bitMapLengthConsumeQueueExt int 4.1.0 = 64
bottomMostCompressionTypeForConsumeQueueStore text 5.3.2 = zstd
cleanRocksDBDirtyCQIntervalMin long 5.2.0 = 60
combineAssignOffsetCQType text 5.4.0 = default
combineCQEnableCheckSelf boolean 5.4.0 = false
combineCQLoadingCQTypes text 5.4.0 = default;defaultRocksDB
combineCQMaxExtraSearchCommitLogFiles int 5.4.0 = 3
combineCQPreferCQType text 5.4.0 = default
dLegerGroup text 4.5.0
dLegerPeers text 4.5.0
dLegerSelfId text 4.5.0
enableBatchPush boolean 4.8.0 = false
enableRocksDBLog boolean 5.1.4 = false
iteratorWhenUseRocksdbConsumeQueue boolean 5.5.0 = true
mappedFileSizeConsumeQueueExt int 4.1.0 = 50331648
maxRocksDBIndexQueryDays int 5.4.0 = 7
memTableFlushIntervalMs long 5.2.0 also:memTableFlushInterval@5.1.4-5.1.4 = 3600000
popRocksdbBlockCacheSize long 5.5.1 = 268435456
popRocksdbWriteBufferSize long 5.5.1 = 33554432
preferredLeaderId text 4.8.0
realTimePersistRocksDBConfig boolean 5.1.4 = true
rocksdbCompressionType text 5.3.2 = lz4
rocksdbFlushWalFrequency int 5.3.2 = 1024
rocksdbMaxSizeAmplificationPercent int 5.5.1 = 25
rocksdbWalFileRollingThreshold long 5.3.2 = 1073741824
statRocksDBCQIntervalSec long 5.2.0 = 10
storePathDLedgerCommitLog text 4.9.4
timerRocksDBPrecisionMs long 5.4.0 = 1000
timerRocksDBRollIntervalHours int 5.4.0 = 1
timerRocksDBRollMaxTps double 5.4.0 = 8000.0
timerRocksDBRollRangeHours int 5.4.0 = 2
timerRocksDBStopScan boolean 5.4.0 = false
timerRocksDBTimeExpiredMaxTps double 5.4.0 = 200000.0
transferMetadataJsonToRocksdb boolean 5.3.1-5.3.1 = false
transferOffsetJsonToRocksdb boolean 5.3.1-5.3.1 = false
useSeparateStorePathForRocksdbCQ boolean 5.5.0 = false
[harmless harmless] timers, delivery and compaction, which are not derived
appendTopicForTimerDeleteKey boolean 5.4.0 = false
compactionCqMappedFileSize int 5.1.0 = 10485760
compactionMappedFileSize int 5.1.0 = 104857600
compactionScheduleInternal int 5.1.0 = 900000
compactionThreadNum int 5.1.0 = *
disappearTimeAfterStart int 5.0.0 = -1
enableCompaction boolean 5.1.0 = true
enableScheduleAsyncDeliver boolean 4.9.3 = false
enableScheduleMessageStats boolean 4.9.0 = true
flushDelayOffsetInterval long 4.1.0 = 10000
maxOffsetMapSize int 5.1.0 = 104857600
scheduleAsyncDeliverMaxPendingLimit int 4.9.3 = 2000
scheduleAsyncDeliverMaxResendNum2Blocked int 4.9.3 = 3
timerColdDataCheckIntervalMs int 5.1.3 = 60000
timerCongestNumEachSlot int 5.0.0 = 2147483647
timerEnableCheckMetrics boolean 5.0.0 = true
timerEnableRetryUntilSuccess boolean 5.3.2 = false
timerFlushIntervalMs int 5.0.0 = 1000
timerGetMessageThreadNum int 5.0.0 = 3
timerMetricSmallThreshold int 5.0.0 = 1000000
timerProgressLogIntervalMs int 5.0.0 = 10000
timerPutMessageThreadNum int 5.0.0 = 3
timerRecallToTimeWheelEnable boolean 5.4.0 = true
timerRecallToTimelineEnable boolean 5.4.0 = true
timerReputServiceCorePoolSize int 5.5.0 = *
timerReputServiceMaxPoolSize int 5.5.0 = *
timerReputServiceQueueCapacity int 5.5.0 = 10000
timerRollWindowSlot int 5.0.0 = 172800
timerSkipUnknownError boolean 5.2.0 = false
timerStopEnqueue boolean 5.0.0 = false
timerWheelSnapshotFlush boolean 5.4.0 = false
timerWheelSnapshotIntervalMs int 5.4.0 = 10000
[harmless harmless] how a broker reads and serves
accessMessageInMemoryHotRatio int 5.1.3 = 26
accessMessageInMemoryMaxRatio int 4.1.0 = 40
cleanSwapedMapInterval long 5.0.0 = 300000
coldDataFlowControlEnable boolean 5.1.3 = false
coldDataScanEnable boolean 5.1.3 = false
commitLogForceSwapMapInterval long 5.0.0 = 43200000
commitLogSwapMapInterval long 5.0.0 = 3600000
commitLogSwapMapReserveFileNum int 5.0.0 = 100
dataReadAheadEnable boolean 5.1.3 = true
defaultQueryMaxNum int 4.1.0 = 32
haTransferBatchSize int 4.1.0 = 32768
indexFileReadEnable boolean 5.4.0 = true
logicQueueForceSwapMapInterval long 5.0.0 = 43200000
logicQueueSwapMapInterval long 5.0.0 = 3600000
logicQueueSwapMapReserveFileNum int 5.0.0 = 20
mappedFileSwapEnable boolean 5.0.0 = true
maxConsumeQueueScan int 5.1.0 = 20000
maxFilterMessageSize int 5.2.0 = 16000
maxHaTransferByteInSecond long 5.0.0 = 104857600
maxMsgsNumBatch int 4.1.0 = 64
maxTransferBytesOnMessageInDisk int 4.1.0 = 65536
maxTransferBytesOnMessageInMemory int 4.1.0 = 262144
maxTransferCountOnMessageInDisk int 4.1.0 = 8
maxTransferCountOnMessageInMemory int 4.1.0 = 32
pullBatchMaxMessageCount int 5.0.0 = 160
sampleCountThreshold int 5.1.0 = 5000
sampleSteps int 5.1.3 = 32
searchBcqByCacheEnable boolean 5.0.0 = true
sharedByteBufferNum int 5.4.0 = *
travelCqFileNumWhenGetMessage int 5.0.0 = 1
[harmless harmless] how a broker cleans; of the commands only expire deletes
cleanFileForciblyEnable boolean 4.1.0 = true
deleteCommitLogFilesInterval int 4.1.0 = 100
deleteConsumeQueueFilesInterval int 4.1.0 = 100
deleteFileBatchMax int 5.0.0 = 10
deleteWhen text 4.1.0 = 04
destroyMapedFileIntervalForcibly int 4.1.0 = 120000
diskFallRecorded boolean 4.1.0 = true
diskMaxUsedSpaceRatio int 4.1.0 = 75
diskSpaceCleanForciblyRatio int 5.0.0 = 85
enableCleanExpiredOffset boolean 5.0.0 = false
fileReservedTime int 4.1.0 = 72
logicalDiskSpaceCleanForciblyThreshold double 5.0.0 = 0.8
maxBatchDeleteFilesNum int 5.0.0 = 50
redeleteHangedFileInterval int 4.1.0 = 120000
replicasPerDiskPartition int 5.0.0 = 1
[harmless harmless] how a broker replicates
asyncLearner boolean 5.0.0 = false
haFlowControlEnable boolean 5.0.0 = false
haHousekeepingInterval int 4.1.0 = 20000
haListenPort int 4.1.0 = 10912
haMasterAddress text 4.1.0
haMaxGapNotInSync int 5.0.0 also:haSlaveFallbehindMax@4.1.0-4.9.8 = 268435456
haMaxTimeSlaveNotCatchup long 5.0.0 = 15000
haSendHeartbeatInterval int 4.1.0 = 5000
maxChecksumRange long 5.0.0 = 1073741824
maxSlaveResendLength long 5.0.0 = 268435456
offsetCheckInSlave boolean 4.1.0 = false
slaveTimeout int 4.9.3 = 3000
storePathBrokerIdentity text 5.1.1 = *
storePathEpochFile text 5.0.0 = *
syncFromLastFile boolean 5.0.0 = false
syncMasterFlushOffsetWhenStartup boolean 5.0.0 = false
[harmless harmless] threads, locks, waits, from where recovery reads: the same bytes in the end
batchDispatchRequestThreadPoolNums int 5.1.0 = 16
commitLogRecoverMaxNum int 5.4.0 = 10
correctLogicMinOffsetForceInterval int 5.0.0 = 300000
correctLogicMinOffsetSleepInterval int 5.0.0 = 1
correctMinOffsetMadviseEnable boolean 5.5.1 = false
debugLockEnable boolean 4.1.0 = false
dispatchCqCacheNum int 5.0.0 = 4096
dispatchCqThreads int 5.0.0 = 10
dispatchFromSenderThread boolean 5.0.0 = false
enableAcceleratedRecovery boolean 5.4.0 = false
enableAsyncReput boolean 5.0.0 = true
enableBuildConsumeQueueConcurrently boolean 5.1.0 = false
enableLogConsumeQueueRepeatedlyBuildWhenRecover boolean 5.4.0 = false
enableRunningFlagsInFlush boolean 5.4.0 = false
flushLeastPagesWhenWarmMapedFile int 4.1.0 = 4096
maxAsyncPutMessageRequests int 5.0.0 = 5000
maxCheckMessageReuseBufferSize int 5.5.1 = 1048576
maxRecoveryCommitlogFiles int 5.0.0 = 30
messageIndexSafe boolean 4.1.0 = false
putConsumeQueueDataByFileChannel boolean 5.3.1 = true
putMsgIndexHightWater int 4.1.0 = 600000
readUnCommitted boolean 5.3.0 = false
recheckReputOffsetFromCq boolean 5.0.0 = false
spinLockCollisionRetreatOptimalDegree int 5.3.2 = 1000
topicQueueLockNum int 5.1.4 = 32
useABSLock boolean 5.3.2 = false
useReentrantLockWhenPutMessage boolean 4.1.0 = true
wakeCommitWhenPutMessage boolean 5.0.0 = true
writeWithoutMmap boolean 5.4.0 = false
[harmless harmless] the broker around its store
accountStatsEnable boolean 5.0.0 = true
accountStatsPrintZeroValues boolean 5.0.0 = true
ackMessageThreadPoolNums int 5.0.0 = *
ackThreadPoolQueueCapacity int 5.0.0 = 100000
aclEnable boolean 4.4.0 = false
adminBrokerThreadPoolNums int 4.1.0 = 16
adminBrokerThreadPoolQueueCapacity int 5.0.0 = 10000
allowRecallWhenBrokerNotWriteable boolean 5.3.2 = true
appendAckAsync boolean 5.3.2 = false
appendCkAsync boolean 5.3.2 = false
asyncSendEnable boolean 5.0.0 = true
autoCreateSubscriptionGroup boolean 4.1.0 = true
autoCreateTopicEnable boolean 4.1.0 = true
autoDeleteUnusedStats boolean 4.7.1 = true
batchDeleteSubscriptionGroupMaxRate double 5.5.1 = 10.0
batchDeleteTopicMaxRate double 5.5.1 = 10.0
broadcastOffsetExpireMaxSecond long 5.1.0 = 300
broadcastOffsetExpireSecond long 5.1.0 = 120
brokerClusterName text 4.1.0 = DefaultCluster
brokerConfigPath text 5.0.0
brokerElectionPriority int 5.1.0 = 2147483647
brokerFastFailureEnable boolean 4.2.0 = true
brokerHeartbeatInterval int 5.0.0 = 1000
brokerIP2 text 4.1.0 = *
brokerId long 4.1.0 = 0
brokerName text 4.1.0 = *
brokerNotActiveTimeoutMillis long 5.0.0 = 10000
brokerPermission int 4.1.0 = 6
brokerTopicEnable boolean 4.1.0 = true
cgColdReadThreshold long 5.1.3 = 3145728
channelExpiredTimeout long 5.1.0 = 120000
checkSyncStateSetPeriod long 5.0.0 = 5000
cleanOfflineBrokerInterval int 5.0.0 = 30000
clearRetryTopicWhenDeleteTopic boolean 5.3.2 = true
clientManageThreadPoolNums int 4.1.0 = 32
clientManagerThreadPoolQueueCapacity int 4.1.0 = 1000000
clusterTopicEnable boolean 4.1.0 = true
coldCtrStrategyEnable boolean 5.1.3 = false
commercialBaseCount int 4.1.0 = 1
commercialBigCount int 4.1.0-4.9.8 = 1
commercialEnable boolean 4.1.0-4.9.8 = true
commercialSizePerMsg int 5.0.0 = 4096
commercialTimerCount int 4.1.0-4.9.8 = 1
commercialTransCount int 4.1.0-4.9.8 = 1
compatibleWithOldNameSrv boolean 5.0.0 = true
compressedRegister boolean 4.3.0 = false
configBlackList text 4.9.8 = configBlackList;brokerConfigPath
configManagerVersion text 5.3.2 = v1
consumerFallbehindThreshold long 4.1.0 = 17179869184
consumerManageThreadPoolNums int 4.1.0 = 32
consumerManagerThreadPoolQueueCapacity int 4.1.0 = 1000000
consumerOffsetUpdateVersionStep long 5.0.0 = 500
controllerAddr text 5.0.0
controllerHeartBeatTimeoutMills long 5.1.0 = 10000
defaultMessageRequestMode text 5.0.0 = PULL
defaultPopShareQueueNum int 5.0.0 = -1
defaultTopicQueueNums int 4.1.0 = 8
delayOffsetUpdateVersionStep long 5.0.0 = 200
disableConsumeIfConsumerReadSlowly boolean 4.1.0 = false
enableBroadcastOffsetStore boolean 5.1.0 = true
enableCalcFilterBitMap boolean 4.1.0 = false
enableConnectionMetrics boolean 5.4.0 = true
enableCreateSysGroup boolean 5.3.3 = true
enableDetailStat boolean 4.9.3 = true
enableFastChannelEventProcess boolean 5.3.3 = false
enableLagAndDlqMetrics boolean 5.4.0 = true
enableLiteEventMode boolean 5.5.0-5.5.0 = true
enableLitePopLog boolean 5.5.0 = false
enableLmqStats boolean 5.3.2 = false
enableMessageStoreMetrics boolean 5.4.0 = true
enableMixedMessageType boolean 5.1.4 = false
enableNetWorkFlowControl boolean 5.0.0 = false
enableNotifyAfterPopOrderLockRelease boolean 5.1.0 = true
enableNotifyBeforePopCalculateLag boolean 5.3.2 = true
enablePopBatchAck boolean 5.1.3 = false
enablePopBufferMerge boolean 5.0.0 = false
enablePopLog boolean 5.0.0 = false
enablePopMessageThreshold boolean 5.2.0 = false
enablePopMetrics boolean 5.4.0 = true
enablePropertyFilter boolean 4.1.0 = false
enableRegisterProducer boolean 5.3.3 = true
enableRemoteEscape boolean 5.0.0 = false
enableRemotingMetrics boolean 5.4.0 = true
enableRequestMetrics boolean 5.4.0 = true
enableRetryTopicV2 boolean 5.2.0 = false
enableSingleTopicRegister boolean 5.1.4 = false
enableSkipLongAwaitingAck boolean 5.1.0 = false
enableSlaveActingMaster boolean 5.0.0 = false
enableSplitMetadata boolean 5.4.0 = true
enableSplitRegistration boolean 5.1.4 = false
enableStatsMetrics boolean 5.4.0 = true
enableTransactionMetrics boolean 5.4.0 = true
endTransactionPoolQueueCapacity int 4.3.1 = 100000
endTransactionThreadPoolNums int 4.3.1 = *
estimateAccumulation boolean 5.1.0 = true
expectConsumerNumUseFilter int 4.1.0 = 32
fetchControllerAddrByDnsLookup boolean 5.1.0 = false
fetchNameSrvAddrByDnsLookup boolean 5.1.0 = false
fetchNamesrvAddrByAddressServer boolean 4.1.0 = false
fetchNamesrvAddrInterval long 5.1.3 = 10000
filterDataCleanTimeSpan long 4.1.0 = 86400000
filterServerNums int 4.1.0-5.1.0 = 0
filterSupportRetry boolean 4.1.0 = false
flushConsumerOffsetHistoryInterval int 4.1.0 = 60000
flushConsumerOffsetInterval int 4.1.0 = 5000
forceRegister boolean 4.3.0 = true
forwardTimeout long 5.0.0 = 3000
globalColdReadThreshold long 5.1.3 = 104857600
heartbeatThreadPoolNums int 4.3.0 = *
heartbeatThreadPoolQueueCapacity int 4.3.0 = 50000
highSpeedMode boolean 4.1.0 = false
inBrokerContainer boolean 5.0.0 = false
initPopOffsetByCheckMsgInMem boolean 5.1.4 = true
isolateLogEnable boolean 4.9.3 = false
liteEventCapacityCacheTtlMs long 5.5.1 = 5000
liteEventCheckInterval long 5.5.0 = 10000
liteEventFullDispatchDelayTime long 5.5.0 = 10000
liteEventFullDispatchDelayTimeForWildcardGroup long 5.5.0 = 10000
liteLagCountMetricsEnable boolean 5.5.0 = false
liteLagLatencyCollectEnable boolean 5.5.0 = false
liteLagLatencyMetricsEnable boolean 5.5.0 = false
liteLagLatencyTopK int 5.5.0 = 50
litePullMessageEnable boolean 5.0.0 = true
litePullMessageThreadPoolNums int 5.0.0 = *
litePullThreadPoolQueueCapacity int 5.0.0 = 100000
liteSubscriptionCheckInterval long 5.5.0 = 120000
liteSubscriptionCheckTimeoutMills long 5.5.0 = 180000
liteTtlCheckInterval long 5.5.0 = 120000
loadBalancePollNameServerInterval long 5.0.0 = 30000
loadBalanceProcessorThreadPoolNums int 5.0.0 = *
loadBalanceThreadPoolQueueCapacity int 5.0.0 = 100000
lockInStrictMode boolean 5.0.0 = false
longPollingEnable boolean 4.1.0 = true
maxClientEventCount int 5.5.0 = 100
maxDelayTime int 4.1.0-5.1.0 = 40
maxErrorRateOfBloomFilter int 4.1.0 = 20
maxLiteSubscriptionCount long 5.5.0 = 100000
maxMessageFilterNumForNotification int 5.5.0 = 64
maxPopPollingSize long 5.0.0 = 100000
maxStatsIdleTimeInMinutes int 5.3.3 = -1
metricGrpcExporterIntervalInMills long 5.1.0 = 60000
metricGrpcExporterTimeOutInMills long 5.1.0 = 3000
metricLoggingExporterIntervalInMills long 5.1.1 = 10000
metricsExportBatchMaxDataPoints int 5.5.0 = 1000
metricsExportBatchMaxConcurrent int 5.5.1 = 4
metricsExportBatchSplitEnabled boolean 5.5.1 = true
metricsExportOtelMemoryMode text 5.5.1 = IMMUTABLE_DATA
metricsExporterType text 5.1.0 = *
metricsGrpcExporterHeader text 5.1.0
metricsGrpcExporterTarget text 5.1.0
metricsInDelta boolean 5.1.0 = false
metricsLabel text 5.1.0
metricsOtelCardinalityLimit int 5.1.4 = 50000
metricsPromExporterHost text 5.1.0
metricsPromExporterPort int 5.1.0 = 5557
minLiteTTl long 5.5.0 = 900000
msgTraceTopicName text 4.4.0 = RMQ_SYS_TRACE_TOPIC
namesrvAddr text 4.1.0 = *
notifyConsumerIdsChangedEnable boolean 4.1.0 = true
persistConsumerOffsetIncrementally boolean 5.5.0 = false
popCkMaxBufferSize int 5.0.0 = 200000
popCkOffsetMaxQueueSize int 5.0.0 = 20000
popCkStayBufferTime int 5.0.0 = 10000
popCkStayBufferTimeOut int 5.0.0 = 3000
popConsumerFSServiceInit boolean 5.3.2 = true
popConsumerKVServiceEnable boolean 5.3.2 = false
popConsumerKVServiceInit boolean 5.3.2 = false
popConsumerKVServiceLog boolean 5.3.2 = false
popFromRetryProbability int 5.3.1 = 20
popFromRetryProbabilityForPriority int 5.4.0 = 0
popInflightMessageThreshold long 5.2.0 = 10000
popLongPollingForceNotifyInterval long 5.3.2 = 800
popPollingMapExpireTimeSeconds int 5.4.0 = 600
popPollingMapSize int 5.0.0 = 100000
popPollingSize int 5.0.0 = 1024
popOrderLockTimerTickMs long 5.5.1 = 100
popOrderLockTimerTicksPerWheel int 5.5.1 = 512
popResponseReturnActualRetryTopic boolean 5.1.4 = false
popReviveConcurrency int 5.4.0 = *
popReviveMaxAttemptTimes int 5.3.2 = 16
popReviveMaxReturnSizePerRead int 5.3.2 = 16384
popReviveSkipIfGroupAbsent boolean 5.5.0 = true
printChannelGroups boolean 5.3.3 = false
printChannelGroupsMinNum int 5.3.3 = 5
priorityOrderAsc boolean 5.4.0 = true
processReplyMessageThreadPoolNums int 4.6.0 = *
pullMessageThreadPoolNums int 4.1.0 = *
pullThreadPoolQueueCapacity int 4.1.0 = 100000
putMessageFutureThreadPoolNums int 4.9.3 = *
putThreadPoolQueueCapacity int 4.9.3 = 10000
queryMessageThreadPoolNums int 4.2.0 = *
queryThreadPoolQueueCapacity int 4.2.0 = 20000
realTimeNotifyConsumerChange boolean 5.0.0 = true
recallMessageEnable boolean 5.3.2 = false
recoverConcurrently boolean 5.1.0 = false
recoverThreadPoolNums int 5.1.0 = *
regionId text 4.1.0 = DefaultRegion
registerBrokerTimeoutMills int 4.1.0 = 24000
registerNameServerPeriod int 4.3.0 = 30000
rejectPullConsumerEnable boolean 5.0.0 = false
rejectTransactionMessage boolean 4.1.0 = false
replyThreadPoolQueueCapacity int 4.6.0 = 10000
retrieveMessageFromPopRetryTopicV1 boolean 5.2.0 = true
reviveAckWaitMs long 5.1.0 = 180000
reviveInterval long 5.0.0 = 1000
reviveMaxSlow long 5.0.0 = 3
reviveQueueNum int 5.0.0 = 8
reviveScanTime long 5.0.0 = 10000
rocketmqHome text 4.1.0 = *
sendHeartbeatTimeoutMillis int 5.0.0 = 1000
sendMessageThreadPoolNums int 4.1.0 = *
sendThreadPoolQueueCapacity int 4.1.0 = 10000
serverLoadBalancerEnable boolean 5.0.0 = true
shortPollingTimeMills long 4.1.0 = 1000
skipPreOnline boolean 5.0.0 = false
skipWhenCKRePutReachMaxTimes boolean 5.3.1 = false
slaveReadEnable boolean 4.1.0 = false
splitMetadataSize int 5.4.0 = 2000
splitRegistrationSize int 5.1.4 = 800
startAcceptSendRequestTimeStamp long 4.1.0 = 0
storeReplyMessageEnable boolean 4.6.0 = true
subscriptionExpiredTimeout long 5.1.0 = 600000
syncBrokerMemberGroupPeriod int 5.0.0 = 1000
syncBrokerMetadataPeriod long 5.0.0 = 5000
syncControllerMetadataPeriod long 5.0.0 = 10000
traceOn boolean 4.1.0 = true
traceTopicEnable boolean 4.4.0 = false
transactionCheckInterval long 4.3.0 = 30000
transactionCheckRocksdbCoreThreads int 5.5.0 = 2
transactionCheckRocksdbMaxThreads int 5.5.0 = 5
transactionCheckRocksdbQueueCapacity int 5.5.0 = 2000
transactionMetricFlushInterval long 5.2.0 = 10000
transactionOpBatchInterval int 5.1.0 = 3000
transactionTimeOut long 4.3.0 = 6000
transferMsgByHeap boolean 4.1.0 = true
updateNameServerAddrPeriod int 5.3.1 = 120000
useMessageFilterForNotification boolean 5.5.0 = true
usePIDColdCtrStrategy boolean 5.1.3 = true
useSeparateRetryQueue boolean 5.4.0 = false
useServerSideResetOffset boolean 5.1.0 = true
useSingleRocksDBForAllConfigs boolean 5.4.0 = false
useStaticSubscription boolean 5.1.1 = false
validateSystemTopicWhenUpdateTopic boolean 5.1.0 = true
waitTimeMillsInAckQueue long 5.0.0 = 3000
waitTimeMillsInAdminBrokerQueue long 5.3.0 = 5000
waitTimeMillsInHeartbeatQueue long 4.3.0 = 31000
waitTimeMillsInLitePullQueue long 5.0.0 = 5000
waitTimeMillsInPullQueue long 4.2.0 = 5000
waitTimeMillsInSendQueue long 4.1.0 = 200
waitTimeMillsInTransactionQueue long 4.3.1 = 3000
[harmless harmless] the network
bindAddress text 5.0.0 = 0.0.0.0
channelNotActiveInterval long 4.1.0 = 60000
clientAsyncSemaphoreValue int 4.1.0 = 65535
clientCallbackExecutorThreads int 4.1.0 = *
clientChannelMaxIdleTimeSeconds int 4.1.0 = 120
clientCloseSocketIfTimeout boolean 4.1.0 = true
clientOnewaySemaphoreValue int 4.1.0 = 65535
clientPooledByteBufAllocatorEnable boolean 4.1.0 = false
clientSocketRcvBufSize int 4.1.0 = 0
clientSocketSndBufSize int 4.1.0 = 0
clientWorkerThreads int 4.1.0 = *
connectTimeoutMillis int 4.1.0 = 3000
disableCallbackExecutor boolean 5.0.0 = false
disableNettyWorkerGroup boolean 5.0.0 = false
enableReconnectForGoAway boolean 5.2.0 = true
enableShutdownGracefully boolean 5.2.0 = false
enableTransparentRetry boolean 5.2.0-5.3.1 = true
maxReconnectIntervalTimeSeconds long 5.2.0 = 60
scanAvailableNameSrv boolean 5.3.0 = true
serverAsyncSemaphoreValue int 4.1.0 = 64
serverCallbackExecutorThreads int 4.1.0 = *
serverChannelMaxIdleTimeSeconds int 4.1.0 = 120
serverNettyWorkerGroupEnable boolean 5.3.1 = true
serverOnewaySemaphoreValue int 4.1.0 = 256
serverPooledByteBufAllocatorEnable boolean 4.1.0 = true
serverSelectorThreads int 4.1.0 = 3
serverSocketBacklog int 4.9.3 = 1024
serverSocketRcvBufSize int 4.1.0 = 0
serverSocketSndBufSize int 4.1.0 = 0
serverWorkerThreads int 4.1.0 = 8
shutdownWaitTimeSeconds int 5.2.0 = 30
socksProxyConfig text 5.1.0 = {}
useEpollNativeSelector boolean 4.1.0 = false
useTLS boolean 4.2.0 = *
writeBufferHighWaterMark int 4.9.3 = 0
writeBufferLowWaterMark int 4.9.3 = 0
[harmless harmless] who may do what
aclCacheExpiredSecond int 5.3.0 = 600
aclCacheMaxNum int 5.3.0 = 1000
aclCacheRefreshSecond int 5.3.0 = 60
authConfigPath text 5.3.0
authenticationEnabled boolean 5.3.0 = false
authenticationMetadataProvider text 5.3.0
authenticationProvider text 5.3.0
authenticationStrategy text 5.3.0
authenticationWhitelist text 5.3.0
authorizationEnabled boolean 5.3.0 = false
authorizationMetadataProvider text 5.3.0
authorizationProvider text 5.3.0
authorizationStrategy text 5.3.0
authorizationWhitelist text 5.3.0
clusterName text 5.3.0
configName text 5.3.0
initAuthenticationUser text 5.3.0
innerClientAuthenticationCredentials text 5.3.0
migrateAuthFromV1Enabled boolean 5.3.0 = false
statefulAuthenticationCacheExpiredSecond int 5.3.0 = 60
statefulAuthenticationCacheMaxNum int 5.3.0 = 10000
statefulAuthorizationCacheExpiredSecond int 5.3.0 = 60
statefulAuthorizationCacheMaxNum int 5.3.0 = 10000
userCacheExpiredSecond int 5.3.0 = 600
userCacheMaxNum int 5.3.0 = 1000
userCacheRefreshSecond int 5.3.0 = 60
[harmless harmless] the tiered store, a plug-in's own
commitLogRollingInterval text -
commitLogRollingMinimumSize text -
maxCommitJitter text -
objectStoreAccessKey text -
objectStoreBucket text -
objectStoreEndpoint text -
objectStoreSecretKey text -
readAheadCacheEnable text -
readAheadCacheExpireDuration text -
readAheadCacheSizeThresholdRate text -
readAheadMessageCountThreshold text -
readAheadMessageSizeThreshold text -
recordGetMessageResult text -
tieredBackendServiceProvider text -
tieredMetadataServiceProvider text -
tieredStorageLevel text -
tieredStoreCommitLogMaxSize text -
tieredStoreConsumeQueueMaxSize text -
tieredStoreCrcCheckEnable text -
tieredStoreDeleteFileEnable text -
tieredStoreDeleteFileInterval text -
tieredStoreFilePath text -
tieredStoreFileReservedTime text -
tieredStoreGroupCommit text -
tieredStoreGroupCommitCount text -
tieredStoreGroupCommitSize text -
tieredStoreGroupCommitTimeout text -
tieredStoreIndexFileMaxHashSlotNum text -
tieredStoreIndexFileMaxIndexNum text -
tieredStoreIndexFileRollingIdleInterval text -
tieredStoreMaxFallBehindSize text -
tieredStoreMaxGroupCommitCount text -
tieredStoreMaxPendingLimit text -
[harmless harmless] no setter: RocketMQ itself does not take it
abortFile text -
isBrokerContainer text -
isEnableBatchPush text -
isInBrokerContainer text -
isScanAvailableNameSrv text -
rmqAddressServerDomain text -
rmqAddressServerSubGroup text -
serverLoadBalancerEnabled text -
storeCheckpoint text -
storePathConsumeQueue text -
storePathIndex text -
timerCheckMetricsWhen text -
timerEnableDisruptor text -
timerStopDequeue text -
timerWarmEnable text -"""
