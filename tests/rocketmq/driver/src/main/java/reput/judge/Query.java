package reput.judge;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;

/** Opens a store as it is and asks it what a broker asks it: by position, by time, by key. */
final class Query {
    private static final int QUEUE_OFFSET_AT = 20;
    private static final int PHYSICAL_OFFSET_AT = 28;

    private Query() {
    }

    /** questions: lists of a name and its arguments; the answers are in their order. */
    static Map<String, Object> run(Job job) throws Exception {
        Stores stores = new Stores(job);
        stores.noDelayedDelivery();
        stores.open();
        stores.load();
        stores.store.start();
        stores.caughtUp(job.number("seconds", 600));
        List<Object> answers = new ArrayList<>();
        try {
            for (Object question : job.list("questions")) {
                answers.add(answer(stores.store, (List<?>) question));
            }
        } finally {
            stores.stop(true);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("answers", answers);
        result.put("dispatched", stores.dispatched.get());
        return result;
    }

    private static Object answer(DefaultMessageStore store, List<?> question) throws Exception {
        String name = (String) question.get(0);
        if (name.equals("look")) {
            return look(store, number(question, 1));
        }
        String topic = (String) question.get(1);
        if (name.equals("key")) {
            return key(store.queryMessage(topic, (String) question.get(2), (int) number(question, 3),
                number(question, 4), number(question, 5)));
        }
        int queue = (int) number(question, 2);
        switch (name) {
            case "min":
                return store.getMinOffsetInQueue(topic, queue);
            case "max":
                return store.getMaxOffsetInQueue(topic, queue);
            case "time":
                return time(store, topic, queue, number(question, 3), (String) question.get(4));
            case "get":
                return get(store.getMessage("reput", topic, queue, number(question, 3),
                    (int) number(question, 4), null));
            default:
                throw new IllegalArgumentException("no such question: " + name);
        }
    }

    private static long number(List<?> question, int at) {
        return ((Number) question.get(at)).longValue();
    }

    /** Before 5.1.1 there is no boundary; later the enum is looked up by its name. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object time(DefaultMessageStore store, String topic, int queue, long timestamp,
        String boundary) throws Exception {
        String type = "org.apache.rocketmq.common.BoundaryType";
        if (!Reflect.exists(type)) {
            return store.getOffsetInQueueByTime(topic, queue, timestamp);
        }
        Object which = Enum.valueOf((Class<Enum>) Class.forName(type), boundary);
        return Reflect.call(store, "getOffsetInQueueByTime", topic, queue, timestamp, which);
    }

    private static Object get(GetMessageResult result) {
        if (result == null) {
            return null;
        }
        List<Object> messages = new ArrayList<>();
        for (ByteBuffer buffer : result.getMessageBufferList()) {
            List<Object> one = new ArrayList<>();
            one.add(buffer.getLong(QUEUE_OFFSET_AT));
            one.add(buffer.getLong(PHYSICAL_OFFSET_AT));
            messages.add(one);
        }
        List<Object> answer = new ArrayList<>();
        answer.add(String.valueOf(result.getStatus()));
        answer.add(result.getMinOffset());
        answer.add(result.getMaxOffset());
        answer.add(messages);
        result.release();
        return answer;
    }

    private static Object key(QueryMessageResult result) {
        List<Object> places = new ArrayList<>();
        for (ByteBuffer buffer : result.getMessageBufferList()) {
            places.add(buffer.getLong(PHYSICAL_OFFSET_AT));
        }
        List<Object> answer = new ArrayList<>();
        answer.add(places);
        answer.add(result.getIndexLastUpdateTimestamp());
        answer.add(result.getIndexLastUpdatePhyoffset());
        result.release();
        return answer;
    }

    private static Object look(DefaultMessageStore store, long place) {
        MessageExt message = store.lookMessageByOffset(place);
        if (message == null) {
            return null;
        }
        List<Object> answer = new ArrayList<>();
        answer.add(message.getTopic());
        answer.add(message.getQueueId());
        answer.add(message.getQueueOffset());
        answer.add(message.getCommitLogOffset());
        answer.add(message.getStoreSize());
        answer.add(message.getSysFlag());
        answer.add(message.getFlag());
        answer.add(message.getBornTimestamp());
        answer.add(message.getStoreTimestamp());
        answer.add(message.getBodyCRC());
        answer.add(message.getReconsumeTimes());
        answer.add(message.getPreparedTransactionOffset());
        answer.add(message.getKeys());
        answer.add(message.getTags());
        return answer;
    }
}
