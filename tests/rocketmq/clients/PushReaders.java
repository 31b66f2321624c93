package reput.judge;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/** Consumers that are given messages: concurrent, orderly (queue locks), broadcast, SQL92, tags. */
final class PushReaders {
    private static DefaultMQPushConsumer kept;

    private PushReaders() {
    }

    /** group, topic, tags or sql, orderly, broadcast, members: so many consumers of one group. */
    static Map<String, Object> read(Job step) throws Exception {
        List<List<Object>> read = Collections.synchronizedList(new ArrayList<>());
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (int member = 0; member < step.number("members", 1); member++) {
            members.add(started(step, read));
        }
        untilQuiet(read, step.number("quiet_ms", 3000), step.number("least", 1));
        for (DefaultMQPushConsumer member : members) {
            IdleWaits.during(member::shutdown); // it tells the broker how far the group has come
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("messages", new ArrayList<>(read));
        return result;
    }

    /** A consumer that stays until push.stop, to be seen by tools. */
    static Map<String, Object> start(Job step) throws Exception {
        List<List<Object>> read = Collections.synchronizedList(new ArrayList<>());
        kept = started(step, read);
        untilQuiet(read, step.number("quiet_ms", 3000), step.number("least", 1));
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("count", read.size());
        return result;
    }

    /** The id by which the consumer that stays is known. */
    static String keptId() {
        return kept.buildMQClientId();
    }

    static Map<String, Object> stop() throws Exception {
        IdleWaits.during(kept::shutdown);
        return new LinkedHashMap<>();
    }

    private static DefaultMQPushConsumer started(Job step, List<List<Object>> read)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(step.text("group"),
            Told.signer(step), new AllocateMessageQueueAveragely());
        Told.arrange(consumer, step);
        if (step.flag("broker_balances", false)) {
            // The broker says which queues a member reads; from 5.0.0 on.
            DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class)
                .invoke(consumer, false);
        }
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setHeartbeatBrokerInterval(1000);
        consumer.setPollNameServerInterval(2000);
        if (step.flag("broadcast", false)) {
            // Its enum's package is another one from 5.0.0 on.
            consumer.setMessageModel(
                consumer.getMessageModel().getDeclaringClass().getEnumConstants()[0]);
        }
        consumer.subscribe(step.text("topic"), step.has("sql")
            ? MessageSelector.bySql(step.text("sql"))
            : MessageSelector.byTag(step.text("tags", "*")));
        if (step.flag("orderly", false)) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                keep(messages, read);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                keep(messages, read);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        return consumer;
    }

    private static void keep(List<MessageExt> messages, List<List<Object>> read) {
        try {
            for (MessageExt message : messages) {
                read.add(Told.of(message));
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** Until nothing came for so long; where something must come, at most two minutes for it. */
    private static void untilQuiet(List<?> read, long quiet, long least) throws Exception {
        long begin = System.currentTimeMillis();
        long last = begin;
        int before = 0;
        while (System.currentTimeMillis() - last < quiet
            || read.size() < least && System.currentTimeMillis() - begin < 120_000) {
            if (read.size() != before) {
                before = read.size();
                last = System.currentTimeMillis();
            }
            Thread.sleep(20);
        }
    }
}
