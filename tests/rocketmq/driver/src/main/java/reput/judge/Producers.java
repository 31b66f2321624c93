package reput.judge;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageQueue;

/** Sends messages through the real client. */
final class Producers {
    private static int instances;

    private Producers() {
    }

    /**
     * messages: t topic, q queue (or the client's choice), b and bs body, p properties, delay
     * level. With until_killed an error ends the list: the answer tells what the
     * broker had acknowledged before it died.
     */
    static Map<String, Object> send(Job job) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(job.text("group", "producers"));
        configure(producer, job);
        producer.start();
        List<Object> sent = new ArrayList<>();
        try {
            if (job.flag("as_batch", false)) {
                sendBatch(producer, job);
            }
            for (Object each : job.flag("as_batch", false) ? List.of() : job.list("messages")) {
                Job one = Job.of(each);
                Message message = message(one);
                SendResult result = one.has("q")
                    ? producer.send(message, new MessageQueue(one.text("t"), Broker.NAME,
                        (int) one.number("q", 0)))
                    : producer.send(message);
                sent.add(List.of(one.text("t"), result.getMessageQueue().getQueueId(),
                    result.getQueueOffset(), result.getMsgId(), result.getOffsetMsgId()));
            }
        } catch (Exception e) {
            if (!job.flag("until_killed", false)) {
                throw e;
            }
        } finally {
            IdleWaits.during(producer::shutdown);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("sent", sent);
        return result;
    }

    /** All messages, which are of one topic and queue, in one request. */
    private static void sendBatch(DefaultMQProducer producer, Job job) throws Exception {
        List<Message> batch = new ArrayList<>();
        Job first = Job.of(job.list("messages").get(0));
        for (Object each : job.list("messages")) {
            batch.add(message(Job.of(each)));
        }
        producer.send(batch, new MessageQueue(first.text("t"), Broker.NAME,
            (int) first.number("q", 0)));
    }

    private static void configure(DefaultMQProducer producer, Job job) throws Exception {
        Clients.arrange(producer, job);
        producer.setInstanceName("producer" + ++instances);
        producer.setVipChannelEnabled(false);
        producer.setHeartbeatBrokerInterval(1000);
        producer.setSendMsgTimeout((int) job.number("send_timeout_ms", 10_000));
        producer.setRetryTimesWhenSendFailed(0);
        producer.setDefaultTopicQueueNums((int) job.number("queues", 4));
    }

    private static Message message(Job one) {
        byte[] body = new byte[(int) one.number("b", 10)];
        new Random(one.number("bs", 0)).nextBytes(body);
        Message message = new Message(one.text("t"), body);
        one.map("p").forEach((name, value) ->
            MessageAccessor.putProperty(message, name, value.toString()));
        if (one.has("delay")) {
            message.setDelayTimeLevel((int) one.number("delay", 0));
        }
        return message;
    }

    /** Transactional messages, each with its "outcome": COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW. */
    static Map<String, Object> transactions(Job job) throws Exception {
        ConcurrentLinkedQueue<String> checked = new ConcurrentLinkedQueue<>();
        TransactionMQProducer producer = transactional(job, checked, "UNKNOW");
        List<Object> sent = new ArrayList<>();
        try {
            for (Object each : job.list("messages")) {
                Job one = Job.of(each);
                Message message = message(one);
                message.putUserProperty("outcome", one.text("outcome"));
                SendResult result =
                    (SendResult) Reflect.call(producer, "sendMessageInTransaction", message, null);
                sent.add(List.of(one.text("t"), result.getMsgId(), one.text("outcome")));
            }
        } finally {
            IdleWaits.during(producer::shutdown);
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("sent", sent);
        return result;
    }

    /** Waits as the group's producer until the broker has checked back so many transactions. */
    static Map<String, Object> awaitChecks(Job job) throws Exception {
        ConcurrentLinkedQueue<String> checked = new ConcurrentLinkedQueue<>();
        TransactionMQProducer producer = transactional(job, checked, "COMMIT_MESSAGE");
        long end = System.currentTimeMillis() + job.number("seconds", 60) * 1000;
        // A broker knows a group's producers by their heartbeat, and they know the brokers of
        // those topics that they sent to.
        producer.send(new Message(job.text("topic"), new byte[] {1}));
        while (checked.size() < job.number("checks", 1) && System.currentTimeMillis() < end) {
            Thread.sleep(50);
        }
        Thread.sleep(500);
        IdleWaits.during(producer::shutdown);
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("checked", new ArrayList<>(checked));
        return result;
    }

    /** TransactionListener is none of 4.1.0's classes, so it is met by reflection. */
    private static TransactionMQProducer transactional(Job job,
        ConcurrentLinkedQueue<String> checked, String answer) throws Exception {
        TransactionMQProducer producer =
            new TransactionMQProducer(job.text("group", "transactions"));
        configure(producer, job);
        Class<?> type = Class.forName("org.apache.rocketmq.client.producer.TransactionListener");
        Object listener = Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (self, method, arguments) -> {
                switch (method.getName()) {
                    case "executeLocalTransaction":
                        Message message = (Message) arguments[0];
                        return LocalTransactionState.valueOf(message.getUserProperty("outcome"));
                    case "checkLocalTransaction":
                        checked.add(((Message) arguments[0]).getProperty("UNIQ_KEY"));
                        return LocalTransactionState.valueOf(answer);
                    default:
                        return null;
                }
            });
        Reflect.call(producer, "setTransactionListener", listener);
        producer.start();
        return producer;
    }
}
