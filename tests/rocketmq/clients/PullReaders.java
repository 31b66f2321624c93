package reput.judge;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.impl.consumer.DefaultLitePullConsumerImpl;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask: pull, lite pull, and look-ups by key, id and time. */
final class PullReaders {
    private PullReaders() {
    }

    private static DefaultMQPullConsumer started(Job step) throws Exception {
        DefaultMQPullConsumer consumer =
            new DefaultMQPullConsumer(step.text("group", "readers"), Told.signer(step));
        Told.arrange(consumer, step);
        consumer.start();
        return consumer;
    }

    private static List<MessageQueue> sorted(Iterable<MessageQueue> queues) {
        List<MessageQueue> sorted = new ArrayList<>();
        queues.forEach(sorted::add);
        sorted.sort(Comparator.naturalOrder());
        return sorted;
    }

    /**
     * All of a topic, queue by queue, with the status of each pull, the queue's offsets, and what
     * positions outside the queue are told. tags; batch: of one pull.
     */
    static Map<String, Object> pull(Job step) throws Exception {
        DefaultMQPullConsumer consumer = started(step);
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            for (MessageQueue queue :
                sorted(consumer.fetchSubscribeMessageQueues(step.text("topic")))) {
                List<Object> told = new ArrayList<>();
                long least = consumer.minOffset(queue);
                long most = consumer.maxOffset(queue);
                told.add(List.of(queue.getBrokerName(), least, most,
                    consumer.earliestMsgStoreTime(queue)));
                long at = least;
                while (at < most) {
                    PullResult pulled = one(step, consumer, queue, at, told);
                    if (pulled.getNextBeginOffset() <= at) {
                        break;
                    }
                    at = pulled.getNextBeginOffset();
                }
                for (long outside : new long[] {most, most + 1, most + 1000}) {
                    one(step, consumer, queue, outside, told);
                }
                told.add(consumer.fetchConsumeOffset(queue, true));
                if (step.flag("save", false)) {
                    consumer.updateConsumeOffset(queue, at);
                    consumer.getDefaultMQPullConsumerImpl().getOffsetStore().persist(queue);
                    Thread.sleep(100); // the client sends it one-way
                    told.add(consumer.fetchConsumeOffset(queue, true));
                }
                result.put(queue.getTopic() + "/" + queue.getQueueId(), told);
            }
        } finally {
            IdleWaits.during(consumer::shutdown);
        }
        return result;
    }

    private static PullResult one(Job step, DefaultMQPullConsumer consumer, MessageQueue queue,
        long at, List<Object> told) throws Exception {
        PullResult pulled = consumer.pull(queue, step.text("tags", "*"), at,
            (int) step.number("batch", 32));
        told.add(List.of(at, pulled.getPullStatus().name(), pulled.getNextBeginOffset(),
            pulled.getMinOffset(), pulled.getMaxOffset()));
        if (pulled.getPullStatus() == PullStatus.FOUND) {
            for (MessageExt message : pulled.getMsgFoundList()) {
                told.add(Told.of(message));
            }
        }
        return pulled;
    }

    /**
     * assign: takes all queues by itself and begins at `time`; else as a member of the group.
     * least: so many come, within a minute, before silence is taken for the end.
     */
    static Map<String, Object> lite(Job step) throws Exception {
        DefaultLitePullConsumer consumer =
            new DefaultLitePullConsumer(step.text("group"), Told.signer(step));
        Told.arrange(consumer, step);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        List<Object> read = new ArrayList<>();
        Map<String, Object> committed = new LinkedHashMap<>();
        if (!step.flag("assign", false)) {
            consumer.subscribe(step.text("topic"), step.text("tags", "*"));
        }
        consumer.start();
        try {
            if (step.flag("assign", false)) {
                List<MessageQueue> queues =
                    sorted(consumer.fetchMessageQueues(step.text("topic")));
                consumer.assign(queues);
                consumer.pause(queues);
                Thread.sleep(1000); // the end of a pull that is under way would undo the seek
                for (MessageQueue queue : queues) {
                    consumer.seek(queue,
                        consumer.offsetForTimestamp(queue, step.number("time", 0)));
                }
                consumer.resume(queues);
            }
            long begin = System.currentTimeMillis();
            long last = begin;
            while (System.currentTimeMillis() - last < step.number("quiet_ms", 3000)
                || read.size() < step.number("least", 0)
                && System.currentTimeMillis() - begin < 60_000) {
                for (MessageExt message : consumer.poll(200)) {
                    last = System.currentTimeMillis();
                    // An assigned consumer may have begun to pull before it sought.
                    if (message.getStoreTimestamp() >= step.number("time", 0)) {
                        read.add(Told.of(message));
                    }
                }
                consumer.commitSync();
            }
            for (MessageQueue queue : sorted(consumer.assignment())) {
                long offset = consumer.committed(queue);
                committed.put(queue.getTopic() + "/" + queue.getQueueId(), offset);
                if (offset >= 0) {
                    // shutdown sends it, but waits for no answer: who reads next may be sooner
                    offsets(consumer).updateConsumeOffsetToBroker(queue, offset, false);
                }
            }
        } finally {
            IdleWaits.during(consumer::shutdown);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("messages", read);
        result.put("committed", committed);
        return result;
    }

    private static OffsetStore offsets(DefaultLitePullConsumer consumer) throws Exception {
        Field field = DefaultLitePullConsumer.class.getDeclaredField("defaultLitePullConsumerImpl");
        field.setAccessible(true);
        return ((DefaultLitePullConsumerImpl) field.get(consumer)).getOffsetStore();
    }

    /** keys: [[topic, key]], ids: [[topic, id]], times: [[topic, queue, timestamp]]. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> find(Job step) throws Exception {
        DefaultMQPullConsumer consumer = started(step);
        List<Object> byKey = new ArrayList<>();
        List<Object> byId = new ArrayList<>();
        List<Object> byTime = new ArrayList<>();
        try {
            for (Object each : step.list("keys")) {
                List<Object> key = (List<Object>) each;
                byKey.add(byKey(consumer, key));
            }
            for (Object each : step.list("ids")) {
                List<Object> id = (List<Object>) each;
                byId.add(byId(consumer, id.get(0).toString(), id.get(1).toString()));
            }
            for (Object each : step.list("times")) {
                List<Object> time = (List<Object>) each;
                for (MessageQueue queue :
                    sorted(consumer.fetchSubscribeMessageQueues(time.get(0).toString()))) {
                    byTime.add(consumer.searchOffset(queue, ((Number) time.get(1)).longValue()));
                }
            }
        } finally {
            IdleWaits.during(consumer::shutdown);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("keys", byKey);
        result.put("ids", byId);
        result.put("times", byTime);
        return result;
    }

    /** [topic, key] or [topic, key, begin, end, most]; an error's first line where it fails. */
    private static Object byKey(DefaultMQPullConsumer consumer, List<Object> asked)
        throws Exception {
        boolean bounded = asked.size() > 2;
        List<Object> found = new ArrayList<>();
        try {
            for (MessageExt message : consumer.queryMessage(asked.get(0).toString(),
                asked.get(1).toString(), bounded ? ((Number) asked.get(4)).intValue() : 64,
                bounded ? ((Number) asked.get(2)).longValue() : 0,
                bounded ? ((Number) asked.get(3)).longValue() : Long.MAX_VALUE / 2)
                .getMessageList()) {
                found.add(Told.of(message));
            }
        } catch (Exception e) {
            return firstLine(e);
        }
        return found;
    }

    private static Object byId(DefaultMQPullConsumer consumer, String topic, String id)
        throws Exception {
        try {
            MessageExt found = consumer.viewMessage(topic, id);
            return found == null ? null : Told.of(found);
        } catch (Exception e) {
            return firstLine(e);
        }
    }

    static String firstLine(Throwable e) {
        return (e.getClass().getSimpleName() + ": " + e.getMessage()).split("\n")[0];
    }
}
