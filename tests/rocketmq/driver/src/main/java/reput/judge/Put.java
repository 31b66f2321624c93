package reput.judge;

import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.store.*;

/**
 * Puts a list of messages, each told in full (tests/rocketmq/workload.py makes them from a seed).
 * A message: t topic, q queue, p properties (or raw, their bytes as text), b and bs size and seed
 * of the body, sys, flag, born, bh and sh hosts, rc reconsume times, prep the number of an earlier
 * message whose place is its preparedTransactionOffset, batch a list of {p, b, bs}; body its bytes
 * in base64, in place of b and bs. With as_broker the properties go the way that a producer's take:
 * its text, the broker's map of it, that map's text, and then the broker's hooks (5.0.0 on).
 */
final class Put {
    private final DefaultMessageStore store;
    private final Hooks hooks;
    private final boolean asBroker;
    private final List<Long> offsets = new ArrayList<>();
    private final Map<String, Integer> statuses = new TreeMap<>();

    private Put(Stores stores, boolean asBroker) throws Exception {
        this.store = stores.store;
        this.asBroker = asBroker;
        this.hooks = asBroker ? Hooks.of(stores) : null;
    }

    static Map<String, Object> run(Job job) throws Exception {
        Stores stores = new Stores(job);
        stores.open();
        stores.load();
        stores.store.start();
        Put put = new Put(stores, job.flag("as_broker", false));
        for (Object message : job.list("messages")) {
            put.one(Job.of(message));
            if (job.has("halt_after_ms") && put.offsets.size() == 1) {
                haltAfter(job.number("halt_after_ms", 0));
            }
        }
        if (job.has("halt_after_ms")) {
            // The moment was later than the last message: it is a crash all the same.
            Runtime.getRuntime().halt(137);
        }
        stores.caughtUp(60);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("offsets", put.offsets);
        result.put("statuses", put.statuses);
        result.put("max_offset", stores.store.getMaxPhyOffset());
        result.put("times", counted(stores, "putMessageTopicTimesTotal"));
        result.put("sizes", counted(stores, "putMessageTopicSizeTotal"));
        stores.stop(true);
        return result;
    }

    /** What StoreStatsService has counted since the store was opened, by topic. */
    private static Map<String, Object> counted(Stores stores, String name) throws Exception {
        Object statistics = Reflect.call(stores.store, "getStoreStatsService");
        Map<String, Object> found = new TreeMap<>();
        for (Map.Entry<?, ?> entry : ((Map<?, ?>) Reflect.get(statistics, name)).entrySet()) {
            found.put(entry.getKey().toString(), ((Number) entry.getValue()).longValue());
        }
        return found;
    }

    private static void haltAfter(long milliseconds) {
        Thread killer = new Thread(() -> {
            try {
                Thread.sleep(milliseconds);
            } catch (InterruptedException e) {
                // then at once
            }
            Runtime.getRuntime().halt(137);
        });
        killer.setDaemon(true);
        killer.start();
    }

    private void one(Job job) throws Exception {
        PutMessageResult result = job.has("batch") ? batch(job) : single(job);
        AppendMessageResult append = result.getAppendMessageResult();
        offsets.add(append == null ? -1 : append.getWroteOffset());
        statuses.merge(String.valueOf(result.getPutMessageStatus()), 1, Integer::sum);
    }

    private PutMessageResult single(Job job) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        fill(message, job);
        message.setBody(body(job));
        message.setSysFlag((int) job.number("sys", 0));
        if (job.has("prep")) {
            message.setPreparedTransactionOffset(offsets.get((int) job.number("prep", 0)));
        }
        Map<String, String> properties = properties(job);
        if (asBroker) {
            String sent = MessageDecoder.messageProperties2String(properties);
            properties = MessageDecoder.string2messageProperties(sent);
        }
        MessageAccessor.setProperties(message, properties);
        message.setPropertiesString(
            job.has("raw") ? job.text("raw") : MessageDecoder.messageProperties2String(properties));
        PutMessageResult refusal = hooks == null ? null : hooks.before(message);
        return refusal == null ? store.putMessage(message) : refusal;
    }

    private PutMessageResult batch(Job job) throws Exception {
        MessageExtBatch batch = new MessageExtBatch();
        fill(batch, job);
        MessageAccessor.setProperties(batch, new HashMap<>());
        List<Message> messages = new ArrayList<>();
        for (Object part : job.list("batch")) {
            Job one = Job.of(part);
            Message message = new Message();
            message.setTopic(job.text("t"));
            message.setFlag((int) one.number("flag", 0));
            message.setBody(body(one));
            MessageAccessor.setProperties(message, properties(one));
            messages.add(message);
        }
        batch.setBody(MessageDecoder.encodeMessages(messages));
        return store.putMessages(batch);
    }

    private static void fill(MessageExt message, Job job) throws Exception {
        message.setTopic(job.text("t"));
        message.setQueueId((int) job.number("q", 0));
        message.setFlag((int) job.number("flag", 0));
        message.setBornTimestamp(job.number("born", 0));
        message.setBornHost(Stores.host(job.text("bh", "127.0.0.1:50000")));
        message.setStoreHost(Stores.host(job.text("sh", "127.0.0.1:10911")));
        message.setReconsumeTimes((int) job.number("rc", 0));
    }

    private static byte[] body(Job job) {
        if (job.has("body")) {
            return Base64.getDecoder().decode(job.text("body"));
        }
        byte[] body = new byte[(int) job.number("b", 0)];
        new Random(job.number("bs", 0)).nextBytes(body);
        return body;
    }

    /** As a client's message has them in its own map, or else in the order given. */
    private Map<String, String> properties(Job job) {
        Map<String, String> properties = asBroker ? new HashMap<>() : new LinkedHashMap<>();
        job.map("p").forEach((name, value) -> properties.put(name, value.toString()));
        return properties;
    }
}
