package reput.judge;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.ConsumerFilterData;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.filter.ExpressionMessageFilter;
import org.apache.rocketmq.store.MessageFilter;

/** What a broker's filters say of records: by SQL92, and by tags. */
final class Filters {
    private Filters() {
    }

    /**
     * expressions: texts; records: base64 of whole records. The answer has for each expression
     * null if it does not parse, else a text with 1 or 0 for each record.
     */
    static Map<String, Object> sql(Job job) throws Exception {
        List<ByteBuffer> records = new ArrayList<>();
        for (Object record : job.list("records")) {
            records.add(ByteBuffer.wrap(Base64.getDecoder().decode((String) record)));
        }
        List<Object> answers = new ArrayList<>();
        for (Object expression : job.list("expressions")) {
            MessageFilter filter = filter((String) expression);
            if (filter == null) {
                answers.add(null);
                continue;
            }
            StringBuilder said = new StringBuilder();
            for (ByteBuffer record : records) {
                said.append(filter.isMatchedByCommitLog(record.slice(), null) ? '1' : '0');
            }
            answers.add(said.toString());
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("answers", answers);
        return result;
    }

    private static MessageFilter filter(String expression) throws Exception {
        ConsumerFilterData data =
            ConsumerFilterManager.build("T", "G", expression, "SQL92", 1);
        if (data == null) {
            return null;
        }
        Object subscription = subscriptionType().getConstructor().newInstance();
        Reflect.call(subscription, "setTopic", "T");
        Reflect.call(subscription, "setSubString", expression);
        Reflect.call(subscription, "setExpressionType", "SQL92");
        return made(subscription, data);
    }

    private static MessageFilter made(Object subscription, ConsumerFilterData data)
        throws Exception {
        return (MessageFilter) Reflect.create(ExpressionMessageFilter.class,
            new Object[] {subscription, data, new ConsumerFilterManager()});
    }

    private static Class<?> subscriptionType() throws ClassNotFoundException {
        String name = ".protocol.heartbeat.SubscriptionData";
        String moved = "org.apache.rocketmq.remoting" + name;
        return Class.forName(Reflect.exists(moved) ? moved : "org.apache.rocketmq.common" + name);
    }

    /**
     * texts: subscriptions; codes: tagsCodes of entries. For each text null if it is refused, else
     * [its tags, a text with 1 or 0 for each code].
     */
    static Map<String, Object> tags(Job job) throws Exception {
        String name = ".filter.FilterAPI";
        String moved = "org.apache.rocketmq.remoting.protocol" + name;
        Class<?> type =
            Class.forName(Reflect.exists(moved) ? moved : "org.apache.rocketmq.common" + name);
        List<Object> answers = new ArrayList<>();
        for (Object text : job.list("texts")) {
            Object subscription;
            try {
                subscription = type.getMethod("build", String.class, String.class, String.class)
                    .invoke(null, "T", text, "TAG");
            } catch (java.lang.reflect.InvocationTargetException e) {
                answers.add(null);
                continue;
            }
            MessageFilter filter = made(subscription, null);
            StringBuilder said = new StringBuilder();
            for (Object code : job.list("codes")) {
                boolean may = filter.isMatchedByConsumeQueue(((Number) code).longValue(), null);
                said.append(may ? '1' : '0');
            }
            answers.add(List.of(Reflect.call(subscription, "getTagsSet"), said.toString()));
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("answers", answers);
        return result;
    }
}
