package reput.judge;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.LongAdder;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pulls all messages of a broker and only counts them: what it takes to get at them at all. */
final class Drain {
    private Drain() {
    }

    /** queues: {topic: number of queues}; threads: queues pulled at once; batch: messages a pull. */
    static Map<String, Object> run(Job job) throws Exception {
        DefaultMQPullConsumer consumer = Consumers.started(job);
        ExecutorService pool = Executors.newFixedThreadPool((int) job.number("threads", 2));
        Map<String, LongAdder> counts = new ConcurrentHashMap<>();
        LongAdder bytes = new LongAdder();
        long begin;
        try {
            List<MessageQueue> queues = new ArrayList<>();
            for (Map.Entry<String, Object> entry : job.map("queues").entrySet()) {
                for (int queue = 0; queue < ((Number) entry.getValue()).intValue(); queue++) {
                    queues.add(new MessageQueue(entry.getKey(), Broker.NAME, queue));
                }
            }
            Consumers.minOffset(consumer, queues.get(0));
            begin = System.nanoTime();
            List<Future<?>> done = new ArrayList<>();
            for (MessageQueue queue : queues) {
                done.add(pool.submit(() -> {
                    drain(consumer, queue, (int) job.number("batch", 32), counts, bytes);
                    return null;
                }));
            }
            for (Future<?> each : done) {
                each.get();
            }
        } finally {
            pool.shutdownNow();
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        IdleWaits.during(consumer::shutdown);
        Map<String, Object> by = new TreeMap<>();
        counts.forEach((topic, count) -> by.put(topic, count.sum()));
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("counts", by);
        result.put("body_bytes", bytes.sum());
        result.put("seconds", seconds);
        return result;
    }

    private static void drain(DefaultMQPullConsumer consumer, MessageQueue queue, int batch,
        Map<String, LongAdder> counts, LongAdder bytes) throws Exception {
        long at = Consumers.minOffset(consumer, queue);
        while (true) {
            PullResult result = consumer.pull(queue, "*", at, batch);
            if (result.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : result.getMsgFoundList()) {
                    counts.computeIfAbsent(message.getTopic(), topic -> new LongAdder()).increment();
                    bytes.add(message.getBody() == null ? 0 : message.getBody().length);
                }
            }
            if (result.getNextBeginOffset() <= at) {
                return;
            }
            at = result.getNextBeginOffset();
        }
    }
}
