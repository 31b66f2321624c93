package reput.judge;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.store.*;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** Many alike messages, fast: what a benchmark reads. */
final class Bulk {
    private Bulk() {
    }

    static Map<String, Object> run(Job job) throws Exception {
        long messages = job.number("messages", 1000);
        int topics = (int) job.number("topics", 8);
        int queues = (int) job.number("queues", 8);
        int size = (int) job.number("body", 300);
        int keys = (int) job.number("keys", 1);
        int tags = (int) job.number("tags", 8);
        double hot = job.number("hot_percent", 0) / 100.0;
        Stores stores = new Stores(job);
        noSync(stores.storeConfig);
        // The log alone is wanted: what is derived from it here is thrown away by the caller.
        stores.storeConfig.setMessageIndexEnable(job.flag("index", false));
        stores.open();
        stores.load();
        stores.store.start();
        Random random = new Random(job.number("seed", 1));
        byte[] body = new byte[size];
        random.nextBytes(body);
        long begin = System.nanoTime();
        for (long i = 0; i < messages; i++) {
            int number = (int) (i % ((long) topics * queues));
            if (hot > 0 && random.nextDouble() < hot) {
                number = 0;
            }
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            message.setTopic("Bench" + number % topics);
            message.setQueueId(number / topics);
            stamp(body, i);
            message.setBody(body);
            message.setBornTimestamp(System.currentTimeMillis());
            message.setBornHost(HOST);
            message.setStoreHost(HOST);
            MessageAccessor.setProperties(message, new HashMap<>());
            message.setPropertiesString(properties(i, keys, tags));
            PutMessageResult result = stores.store.putMessage(message);
            if (!result.isOk()) {
                throw new IllegalStateException("message " + i + ": " + result.getPutMessageStatus());
            }
        }
        double seconds = (System.nanoTime() - begin) / 1e9;
        stores.caughtUp(600);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("messages", messages);
        result.put("bytes", stores.store.getMaxPhyOffset());
        result.put("put_seconds", seconds);
        stores.stop(true);
        return result;
    }

    private static final java.net.InetSocketAddress HOST =
        new java.net.InetSocketAddress(Loopback.address(), 10911);

    /** Bodies differ, so that each CRC does. */
    private static void stamp(byte[] body, long number) {
        for (int k = 0; k < 8 && k < body.length; k++) {
            body[k] = (byte) (number >>> 8 * k);
        }
    }

    private static String properties(long number, int keys, int tags) {
        StringBuilder text = new StringBuilder(160);
        text.append("UNIQ_KEY\u00017F0000010F0A18B4AAC2");
        String hex = Long.toHexString(number | 0xFFF0000000000L);
        text.append(hex.toUpperCase()).append('\u0002');
        if (keys > 0) {
            text.append("KEYS\u0001");
            for (int k = 0; k < keys; k++) {
                text.append(k == 0 ? "order-" : " order-").append(number * keys + k);
            }
            text.append('\u0002');
        }
        if (tags > 0) {
            text.append("TAGS\u0001Tag").append(number % tags).append('\u0002');
        }
        return text.toString();
    }

    /** Nothing here must survive a power cut: never as many dirty pages as a flush asks for. */
    static void noSync(MessageStoreConfig config) {
        config.setFlushCommitLogThoroughInterval(3_600_000);
        config.setFlushCommitLogLeastPages(1_000_000_000);
    }
}
