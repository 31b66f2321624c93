package reput.judge;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/** A gRPC consumer, simple or push; programs.py has its words and what it prints. */
public final class Grpc {
    private final String[] words;
    private final long end;
    private int left;

    private Grpc(String[] words) {
        this.words = words;
        left = Integer.parseInt(words[6]);
        end = System.currentTimeMillis() + Long.parseLong(words[7]);
    }

    public static void main(String[] words) throws Exception {
        Grpc consumer = new Grpc(words);
        if (words[1].equals("simple")) {
            consumer.simple();
        } else {
            consumer.push();
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private void simple() throws Exception {
        SimpleConsumer consumer = ClientServiceProvider.loadService().newSimpleConsumerBuilder()
            .setClientConfiguration(configuration()).setConsumerGroup(words[2])
            .setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(subscription()).build();
        // long enough for a busy machine, where nothing is to come again
        Duration invisible = Duration.ofSeconds(words[8].equals("-") ? 60 : 15);
        while (!isDone()) {
            for (MessageView each : consumer.receive(32, invisible)) {
                if (took(each)) {
                    consumer.ack(each);
                }
            }
        }
        consumer.close();
    }

    private void push() throws Exception {
        PushConsumer consumer = ClientServiceProvider.loadService().newPushConsumerBuilder()
            .setClientConfiguration(configuration()).setConsumerGroup(words[2])
            .setSubscriptionExpressions(subscription())
            .setMessageListener(each -> took(each) ? ConsumeResult.SUCCESS : ConsumeResult.FAILURE)
            .build();
        while (!isDone()) {
            Thread.sleep(20);
        }
        Thread.sleep(1000); // for what it is given beyond, and for acknowledgements
        consumer.close();
    }

    private ClientConfiguration configuration() {
        return ClientConfiguration.newBuilder().setEndpoints(words[0]).enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(20)).build();
    }

    private Map<String, FilterExpression> subscription() {
        return Collections.singletonMap(words[3], new FilterExpression(words[5],
            words[4].equals("sql") ? FilterExpressionType.SQL92 : FilterExpressionType.TAG));
    }

    private synchronized boolean isDone() {
        return left <= 0 || System.currentTimeMillis() > end;
    }

    /** Prints a message; whether it is to be acknowledged. */
    private synchronized boolean took(MessageView message) {
        byte[] body = new byte[message.getBody().remaining()];
        message.getBody().duplicate().get(body);
        List<String> keys = new ArrayList<>(message.getKeys());
        Collections.sort(keys);
        System.out.println(message.getDeliveryAttempt() + " " + message.getMessageId() + " "
            + String.join(",", keys) + " " + HexFormat.of().formatHex(body));
        left--;
        return message.getDeliveryAttempt() > 2
            || keys.stream().noneMatch(key -> key.endsWith(words[8]));
    }
}
