package reput.judge;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What TraceDataEncoder makes of bodies; clients that trace. */
final class Traces {
    private Traces() {
    }

    /**
     * bodies: Base64. Of each the contexts; where the decoder throws, those of each part between
     * separators by itself, with null for a part at which it throws.
     */
    static List<Object> decode(Job step) {
        List<Object> told = new ArrayList<>();
        for (Object body : step.list("bodies")) {
            byte[] raw = Base64.getDecoder().decode(body.toString());
            String text = new String(raw, StandardCharsets.UTF_8);
            List<Object> contexts = new ArrayList<>();
            try {
                add(text, contexts);
            } catch (RuntimeException whole) {
                contexts.clear();
                for (String part : text.split("\u0002")) {
                    try {
                        add(part, contexts);
                    } catch (RuntimeException e) {
                        contexts.add(null);
                    }
                }
            }
            told.add(contexts);
        }
        return told;
    }

    private static void add(String text, List<Object> contexts) {
        for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(text)) {
            TraceBean bean = context.getTraceBeans().get(0);
            boolean consumes = context.getTraceType().name().startsWith("Sub");
            contexts.add(Arrays.asList(context.getTraceType().name(), bean.getMsgId(),
                context.getTimeStamp(), context.getRegionId(), context.getGroupName(),
                bean.getTopic(), bean.getTags(), bean.getKeys(), host(bean.getStoreHost()),
                host(bean.getClientHost()), bean.getOffsetMsgId(), bean.getBodyLength(),
                bean.getMsgType() == null ? null : bean.getMsgType().name(),
                context.getCostTime(), context.isSuccess(),
                consumes ? context.getRequestId() : "", bean.getRetryTimes(),
                context.getContextCode(), bean.getTransactionId(),
                bean.getTransactionState() == null ? null : bean.getTransactionState().name(),
                bean.isFromTransactionCheck()));
        }
    }

    /** A bean that was told no host has that of this machine, or none. */
    private static String host(String told) {
        return told == null || told.equals(new TraceBean().getStoreHost()) ? "" : told;
    }

    /**
     * Clients that trace: of count messages, one delayed, then a batch of two, one transaction. Group
     * billing consumes every tenth only at its second attempt; group quiet traces nothing. Returns
     * [group, id] of what was consumed: of a batch all have the id of the batch.
     */
    static List<Object> live(Job step) throws Exception {
        String topic = step.text("topic");
        int count = (int) step.number("count", 20);
        DefaultMQProducer producer = new DefaultMQProducer("makers", null, true, null);
        TransactionMQProducer deciding = new TransactionMQProducer(null, "deciders", null, true, null);
        deciding.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        Told.arrange(producer, step);
        Told.arrange(deciding, step);
        producer.start();
        deciding.start();
        for (int n = 0; n < count; n++) {
            Message message = new Message(topic, "TagA", "key" + n, ("body" + n).getBytes());
            message.setDelayTimeLevel(n == 1 ? 1 : 0);
            producer.send(message, Told.PATIENCE);
        }
        producer.send(Arrays.asList(new Message(topic, "a".getBytes()),
            new Message(topic, "b".getBytes())), Told.PATIENCE);
        deciding.sendMessageInTransaction(new Message(topic, "t".getBytes()), null);
        List<Object> consumed = Collections.synchronizedList(new ArrayList<>());
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (String group : new String[] {"shipping", "billing", "quiet"}) {
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group, null,
                new AllocateMessageQueueAveragely(), !group.equals("quiet"), null);
            Told.arrange(consumer, step);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                MessageExt first = messages.get(0);
                String key = String.valueOf(first.getKeys());
                if (group.equals("billing") && first.getReconsumeTimes() == 0
                    && key.endsWith("5")) {
                    if (key.equals("key5")) {
                        throw new IllegalStateException("once");
                    }
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                consumed.add(Arrays.asList(group, first.getMsgId()));
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            consumers.add(consumer);
        }
        for (int n = 0; n < 600 && consumed.size() < 3 * (count + 3); n++) {
            Thread.sleep(100);
        }
        Thread.sleep(6000); // traces wait up to 5 s; a shutdown gives those that wait 0.5 s
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.shutdown();
        }
        producer.shutdown();
        deciding.shutdown();
        return new ArrayList<>(consumed);
    }
}
