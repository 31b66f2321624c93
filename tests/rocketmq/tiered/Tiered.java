import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.DispatchRequest;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.stats.BrokerStatsManager;
import org.apache.rocketmq.tieredstore.MessageStoreConfig;
import org.apache.rocketmq.tieredstore.MessageStoreExecutor;
import org.apache.rocketmq.tieredstore.common.AppendResult;
import org.apache.rocketmq.tieredstore.file.FlatFileFactory;
import org.apache.rocketmq.tieredstore.file.FlatMessageFile;
import org.apache.rocketmq.tieredstore.index.IndexStoreService;
import org.apache.rocketmq.tieredstore.metadata.DefaultMetadataStore;
import org.apache.rocketmq.tieredstore.provider.PosixFileSegment;
import org.apache.rocketmq.tieredstore.util.MessageFormatUtil;
import org.apache.rocketmq.tieredstore.util.MessageStoreUtil;

/**
 * Tiers the queues of a store with RocketMQ's own classes and PosixFileSegment, as its
 * MessageStoreDispatcherImpl does, without its clock: java -cp JARS Tiered.java STORE FOLDER
 * SEGMENT_BYTES QUEUE_BYTES TOPIC:QUEUE... Prints what a consumer would read back, a line each:
 * topic, queue, queueOffset, offset in the flat log, size.
 */
public final class Tiered {
    private static final String BROKER = "judge";
    private static final int GROUP = 50;

    public static void main(String[] words) {
        try {
            run(words);
            System.out.flush();
            Runtime.getRuntime().halt(0);
        } catch (Throwable e) {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    private static void run(String[] words) throws Exception {
        org.apache.rocketmq.store.config.MessageStoreConfig config =
            new org.apache.rocketmq.store.config.MessageStoreConfig();
        config.setStorePathRootDir(words[0]);
        config.setStorePathCommitLog(words[0] + "/commitlog");
        config.setMappedFileSizeCommitLog(1 << 20);
        config.setMappedFileSizeConsumeQueue(2000);
        config.setMaxHashSlotNum(1000);
        config.setMaxIndexNum(4000);
        // the queues of a topic that is not configured would be deleted
        ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (String word : Arrays.asList(words).subList(4, words.length)) {
            String topic = word.substring(0, word.lastIndexOf(':'));
            topics.put(topic, new TopicConfig(topic));
        }
        DefaultMessageStore store = new DefaultMessageStore(config,
            new BrokerStatsManager("judge", true), null, new BrokerConfig(), topics);
        if (!store.load()) {
            throw new IllegalStateException("RocketMQ refused to load the store");
        }
        MessageStoreConfig tiered = new MessageStoreConfig();
        tiered.setBrokerName(BROKER);
        tiered.setBrokerClusterName(BROKER);
        tiered.setStorePathRootDir(words[1]);
        tiered.setTieredStoreFilePath(words[1]);
        tiered.setTieredBackendServiceProvider(PosixFileSegment.class.getName());
        tiered.setTieredStoreCommitLogMaxSize(Long.parseLong(words[2]));
        tiered.setTieredStoreConsumeQueueMaxSize(Long.parseLong(words[3]));
        tiered.setTieredStoreIndexFileMaxHashSlotNum(7);
        tiered.setTieredStoreIndexFileMaxIndexNum(40);
        FlatFileFactory factory = new FlatFileFactory(new DefaultMetadataStore(tiered), tiered,
            new MessageStoreExecutor());
        IndexStoreService index = new IndexStoreService(factory,
            MessageStoreUtil.getIndexFilePath(BROKER));
        index.start();
        for (String word : Arrays.asList(words).subList(4, words.length)) {
            int colon = word.lastIndexOf(':');
            tier(store, factory, index, word.substring(0, colon),
                Integer.parseInt(word.substring(colon + 1)));
        }
        index.forceUpload();
    }

    private static void tier(DefaultMessageStore store, FlatFileFactory factory,
        IndexStoreService index, String topic, int queue) throws Exception {
        FlatMessageFile file = new FlatMessageFile(factory, topic, queue);
        ConsumeQueueInterface entries = store.findConsumeQueue(topic, queue);
        long from = entries.getMinOffsetInQueue();
        long end = entries.getMaxOffsetInQueue();
        file.initOffset(from);
        for (long offset = from; offset < end; offset++) {
            CqUnit unit = entries.get(offset);
            SelectMappedBufferResult message =
                store.selectOneMessageByOffset(unit.getPos(), unit.getSize());
            ByteBuffer bytes = message.getByteBuffer();
            must(file.appendCommitLog(message));
            long place = file.getCommitLogMaxOffset() - bytes.remaining();
            Map<String, String> properties = MessageFormatUtil.getProperties(bytes);
            long time = MessageFormatUtil.getStoreTimeStamp(bytes);
            String keys = properties.getOrDefault(MessageConst.PROPERTY_KEYS, "");
            String unique = properties.getOrDefault(
                MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, "");
            must(file.appendConsumeQueue(new DispatchRequest(topic, queue, place, unit.getSize(),
                unit.getTagsCode(), time, unit.getQueueOffset(), keys, unique, 0, 0,
                new HashMap<>())));
            if (offset % GROUP == GROUP - 1) {
                file.commitAsync().join();
            }
            Set<String> words = new HashSet<>();
            if (!unique.isEmpty()) {
                words.add(unique);
            }
            if (!keys.isEmpty()) {
                words.addAll(Arrays.asList(keys.split(MessageConst.KEY_SEPARATOR)));
            }
            must(index.putKey(topic, (int) file.getTopicId(), queue, words, place, unit.getSize(),
                time));
        }
        file.commitAsync().join();
        for (long offset = from; offset < end; offset++) {
            ByteBuffer entry = file.getConsumeQueueAsync(offset).join();
            long place = entry.getLong();
            int size = entry.getInt();
            ByteBuffer raw = file.getCommitLogAsync(place, size).join();
            MessageExt read = MessageDecoder.decode(raw, true, false);
            System.out.println(read.getTopic() + " " + read.getQueueId() + " "
                + read.getQueueOffset() + " " + place + " " + size);
        }
    }

    private static void must(AppendResult result) {
        if (result != AppendResult.SUCCESS) {
            throw new IllegalStateException(String.valueOf(result));
        }
    }
}
