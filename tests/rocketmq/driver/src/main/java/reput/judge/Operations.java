package reput.judge;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.SystemClock;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.store.DefaultMessageStore;

/** What happens to a running broker in its life: cleaning, a deleted topic, a clock set back. */
final class Operations {
    private Operations() {
    }

    /**
     * Has the broker's own services delete what has expired, now and not in the night: segments of
     * any age but the last, at most ten; `queues`: then queue and index files as well.
     */
    static Map<String, Object> clean(BrokerController broker, Job job) throws Exception {
        DefaultMessageStore store = (DefaultMessageStore) broker.getMessageStore();
        store.getMessageStoreConfig().setFileReservedTime(0);
        if (job.flag("log", true)) {
            store.executeDeleteFilesManually();
            Reflect.call(Reflect.get(store, "cleanCommitLogService"), "run");
        }
        if (job.flag("queues", false)) {
            Reflect.call(queueCleaner(store), "run");
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("min_offset", store.getMinPhyOffset());
        return result;
    }

    /** From 5.4.0 on the queues' store has it. */
    private static Object queueCleaner(DefaultMessageStore store) throws Exception {
        String name = "cleanConsumeQueueService";
        boolean own = Reflect.field(store.getClass(), name) != null;
        return Reflect.get(own ? store : Reflect.get(store, "consumeQueueStore"), name);
    }

    /** As AdminBrokerProcessor.deleteTopic does. */
    static Map<String, Object> deleteTopic(BrokerController broker, Job job) throws Exception {
        String topic = job.text("topic");
        broker.getTopicConfigManager().deleteTopicConfig(topic);
        Object store = broker.getMessageStore();
        if (Reflect.method(store.getClass(), "deleteTopics", 1) != null) {
            Reflect.call(store, "deleteTopics", Collections.singleton(topic));
        } else {
            Set<String> kept = broker.getTopicConfigManager().getTopicConfigTable().keySet();
            Reflect.call(store, "cleanUnusedTopic", kept);
        }
        return new LinkedHashMap<>();
    }

    /** From 5.0.0 on: consumers that let the broker rebalance pop instead of pulling. */
    static Map<String, Object> pop(BrokerController broker) throws Exception {
        Object config = broker.getBrokerConfig();
        Object[] modes = Reflect.get(config, "defaultMessageRequestMode").getClass()
            .getEnumConstants();
        for (Object mode : modes) {
            if (mode.toString().equals("POP")) {
                Reflect.set(config, "defaultMessageRequestMode", mode);
            }
        }
        return new LinkedHashMap<>();
    }

    /** A topic with attributes, from 5.0.0 on: `queue.type` BatchCQ, `cleanup.policy` COMPACTION. */
    static Map<String, Object> topic(BrokerController broker, Job job) throws Exception {
        TopicConfig topic = new TopicConfig(job.text("topic"));
        topic.setReadQueueNums((int) job.number("queues", 4));
        topic.setWriteQueueNums((int) job.number("queues", 4));
        Map<String, String> attributes = new LinkedHashMap<>();
        job.map("attributes").forEach((name, value) -> attributes.put(name, value.toString()));
        Reflect.call(topic, "setAttributes", attributes);
        broker.getTopicConfigManager().getTopicConfigTable().put(topic.getTopicName(), topic);
        broker.getTopicConfigManager().persist();
        return new LinkedHashMap<>();
    }

    /** Moves the clock by which messages are stored, as if the machine's were set. */
    static Map<String, Object> clock(BrokerController broker, Job job) throws Exception {
        long shift = job.number("shift_ms", 0);
        Reflect.set(broker.getMessageStore(), "systemClock", new SystemClock() {
            @Override
            public long now() {
                return System.currentTimeMillis() + shift;
            }
        });
        return new LinkedHashMap<>();
    }

    /** How often the broker checks a half message before it discards it, from now on. */
    static Map<String, Object> checks(BrokerController broker, Job job) throws Exception {
        Reflect.set(broker.getBrokerConfig(), "transactionCheckMax", (int) job.number("most", 15));
        return new LinkedHashMap<>();
    }

    /** Refuses puts, as a broker whose disk is full does, or takes them again. */
    static Map<String, Object> writable(BrokerController broker, Job job) throws Exception {
        Object flags = Reflect.call(broker.getMessageStore(), "getRunningFlags");
        Reflect.call(flags, job.flag("on", true)
            ? "getAndMakeWriteable" : "getAndMakeNotWriteable");
        return new LinkedHashMap<>();
    }
}
