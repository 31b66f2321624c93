package reput.judge;

import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Reads through the real client whatever a client can read. */
final class Consumers {
    private static int instances;

    private Consumers() {
    }

    static DefaultMQPullConsumer started(Job job) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(job.text("group", "readers"));
        Clients.arrange(consumer, job);
        consumer.setInstanceName("consumer" + ++instances);
        consumer.setVipChannelEnabled(false);
        consumer.start();
        return consumer;
    }

    /** A message as the tests compare it. */
    private static List<Object> told(MessageExt message) throws Exception {
        List<Object> told = new ArrayList<>();
        Collections.addAll(told, message.getTopic(), message.getQueueId(),
            message.getQueueOffset(), message.getMsgId(), message.getCommitLogOffset(),
            sha(message.getBody()), String.valueOf(message.getTags()),
            String.valueOf(message.getKeys()));
        return told;
    }

    /** Names and values as hex of their UTF-16 units: no JSON comes between. */
    private static Map<String, Object> properties(MessageExt message) {
        Map<String, Object> found = new LinkedHashMap<>();
        message.getProperties().forEach((name, value) -> found.put(
            hex(name.getBytes(StandardCharsets.UTF_16BE)), hex(value.getBytes(StandardCharsets.UTF_16BE))));
        return found;
    }

    private static String hex(byte[] raw) {
        StringBuilder text = new StringBuilder();
        for (byte b : raw == null ? new byte[0] : raw) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }

    private static String sha(byte[] body) throws Exception {
        return hex(MessageDigest.getInstance("SHA-1").digest(body == null ? new byte[0] : body));
    }

    /**
     * queues: {topic: number of queues}; expression: of tags. from "first", or "saved": the
     * group's offsets. "save" keeps where it ended; "limit" ends each queue earlier. "whole": each
     * message with all properties and its body, in hex.
     */
    static Map<String, Object> pull(Job job) throws Exception {
        DefaultMQPullConsumer consumer = started(job);
        List<Object> read = new ArrayList<>();
        Map<String, Object> positions = new LinkedHashMap<>();
        try {
            for (Map.Entry<String, Object> entry : job.map("queues").entrySet()) {
                for (int queue = 0; queue < ((Number) entry.getValue()).intValue(); queue++) {
                    MessageQueue mq = new MessageQueue(entry.getKey(), Broker.NAME, queue);
                    long at = pull(job, consumer, mq, read);
                    positions.put(entry.getKey() + "/" + queue, at);
                    if (job.flag("save", false) && at >= 0) {
                        consumer.updateConsumeOffset(mq, at);
                        consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(mq);
                        Thread.sleep(5);
                    }
                }
            }
        } finally {
            IdleWaits.during(consumer::shutdown);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("messages", read);
        result.put("positions", positions);
        return result;
    }

    private static long pull(Job job, DefaultMQPullConsumer consumer, MessageQueue mq,
        List<Object> read) throws Exception {
        long from = job.text("from", "first").equals("saved")
            ? consumer.fetchConsumeOffset(mq, true) : minOffset(consumer, mq);
        long limit = job.number("limit", Long.MAX_VALUE);
        long at = from;
        while (at >= 0 && limit > 0) {
            PullResult result = consumer.pull(mq, job.text("expression", "*"), at,
                (int) Math.min(32, limit));
            if (result.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : result.getMsgFoundList()) {
                    List<Object> told = told(message);
                    if (job.flag("whole", false)) {
                        Collections.addAll(told, properties(message), hex(message.getBody()));
                    }
                    read.add(told);
                    limit--;
                }
            }
            // NO_NEW_MSG too may lead on, as a consumer goes on: over files of a queue that are gone.
            if (result.getNextBeginOffset() <= at) {
                break;
            }
            at = result.getNextBeginOffset();
        }
        return at;
    }

    static long minOffset(DefaultMQPullConsumer consumer, MessageQueue mq) throws Exception {
        for (int attempt = 0;; attempt++) {
            try {
                return consumer.minOffset(mq);
            } catch (MQClientException e) {
                // The broker registers itself in its own time.
                if (attempt == 100) {
                    throw e;
                }
                Thread.sleep(100);
            }
        }
    }

    /**
     * All messages of a topic that an SQL92 filter lets through, to a consumer of its own group.
     * pop: the broker assigns and hands out (its mode is set by broker.pop), from 5.0.0 on.
     */
    static Map<String, Object> sql(Job job) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(job.text("group"));
        Clients.arrange(consumer, job);
        consumer.setInstanceName("filter" + ++instances);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        List<Object> read = Collections.synchronizedList(new ArrayList<>());
        if (job.flag("pop", false)) {
            Reflect.call(consumer, "setClientRebalance", false);
        }
        consumer.subscribe(job.text("topic"), job.has("sql")
            ? MessageSelector.bySql(job.text("sql")) : MessageSelector.byTag("*"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            try {
                for (MessageExt message : messages) {
                    read.add(told(message));
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        });
        consumer.start();
        long begin = System.currentTimeMillis();
        int before = -1;
        long quiet = begin;
        while (System.currentTimeMillis() - quiet < job.number("quiet_ms", 3000)) {
            if (read.size() != before) {
                before = read.size();
                quiet = System.currentTimeMillis();
            }
            Thread.sleep(50);
        }
        IdleWaits.during(consumer::shutdown);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("messages", new ArrayList<>(read));
        return result;
    }

    /**
     * A consumer that fails on every message, so that it comes again from %RETRY% after a delay of
     * level 1, and after `times` of that goes to %DLQ%. Ends when it has had so many `attempts`,
     * of which one that is given twice while it joins is one.
     */
    static Map<String, Object> fail(Job job) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(job.text("group"));
        Clients.arrange(consumer, job);
        consumer.setInstanceName("failing" + ++instances);
        consumer.setVipChannelEnabled(false);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes((int) job.number("times", 1));
        consumer.subscribe(job.text("topic"), "*");
        List<Object> read = Collections.synchronizedList(new ArrayList<>());
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            context.setDelayLevelWhenNextConsume(1);
            for (MessageExt message : messages) {
                read.add(List.of(message.getProperty("UNIQ_KEY"), message.getReconsumeTimes()));
            }
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        long end = System.currentTimeMillis() + job.number("seconds", 60) * 1000;
        while (new HashSet<>(Arrays.asList(read.toArray())).size() < job.number("attempts", 1)
            && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        Thread.sleep(2000);
        IdleWaits.during(consumer::shutdown);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("attempts", new ArrayList<>(read));
        return result;
    }

    /**
     * keys: [[topic, key]], ids: [[topic, id]], times: [[topic, queue, timestamp]]. The result has
     * the seconds that all keys took together, too.
     */
    @SuppressWarnings("unchecked")
    static Map<String, Object> find(Job job) throws Exception {
        DefaultMQPullConsumer consumer = started(job);
        List<Object> byKey = new ArrayList<>();
        List<Object> byId = new ArrayList<>();
        List<Object> byTime = new ArrayList<>();
        double keySeconds;
        try {
            long begin = System.nanoTime();
            for (Object each : job.list("keys")) {
                List<Object> key = (List<Object>) each;
                byKey.add(byKey(consumer, key.get(0).toString(), key.get(1).toString()));
            }
            keySeconds = (System.nanoTime() - begin) / 1e9;
            for (Object each : job.list("ids")) {
                List<Object> id = (List<Object>) each;
                byId.add(told(consumer.viewMessage(id.get(0).toString(), id.get(1).toString())));
            }
            for (Object each : job.list("times")) {
                List<Object> time = (List<Object>) each;
                MessageQueue mq = new MessageQueue(time.get(0).toString(), Broker.NAME,
                    ((Number) time.get(1)).intValue());
                byTime.add(consumer.searchOffset(mq, ((Number) time.get(2)).longValue()));
            }
        } finally {
            IdleWaits.during(consumer::shutdown);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("by_key", byKey);
        result.put("by_id", byId);
        result.put("by_time", byTime);
        result.put("key_seconds", keySeconds);
        return result;
    }

    private static List<Object> byKey(DefaultMQPullConsumer consumer, String topic, String key)
        throws Exception {
        List<Object> found = new ArrayList<>();
        try {
            QueryResult result = consumer.queryMessage(topic, key, 64, 0, Long.MAX_VALUE / 2);
            for (MessageExt message : result.getMessageList()) {
                found.add(told(message));
            }
        } catch (MQClientException e) {
            // This is how the client says "none"; anything else it says in other words.
            if (!String.valueOf(e.getMessage()).contains("no message")
                && !String.valueOf(e.getMessage()).contains("no matched message")) {
                throw e;
            }
        }
        return found;
    }
}
