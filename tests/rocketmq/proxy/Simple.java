package reput.judge;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/**
 * A gRPC SimpleConsumer: endpoints group topic expression tag|sql milliseconds kept wanted.
 *
 * Of each message a line is printed: how it was delivered, its id, its keys and its body's length.
 * It acknowledges all but each kept-th message that is delivered for the first time (0: all), and
 * ends when it has received so many as are wanted, or when the milliseconds are over.
 */
public final class Simple {
    private Simple() {
    }

    public static void main(String[] words) throws Exception {
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        FilterExpression filter = new FilterExpression(words[3],
            words[4].equals("sql") ? FilterExpressionType.SQL92 : FilterExpressionType.TAG);
        Map<String, FilterExpression> wanted = new LinkedHashMap<>();
        wanted.put(words[2], filter);
        SimpleConsumer consumer = provider.newSimpleConsumerBuilder()
            .setClientConfiguration(ClientConfiguration.newBuilder().setEndpoints(words[0])
                .enableSsl(false).setRequestTimeout(Duration.ofSeconds(20)).build())
            .setConsumerGroup(words[1]).setAwaitDuration(Duration.ofSeconds(2))
            .setSubscriptionExpressions(wanted).build();
        long end = System.currentTimeMillis() + Long.parseLong(words[5]);
        int kept = Integer.parseInt(words[6]);
        int left = Integer.parseInt(words[7]);
        int first = 0;
        while (System.currentTimeMillis() < end && left > 0) {
            List<MessageView> some = consumer.receive(32, Duration.ofSeconds(10));
            for (MessageView each : some) {
                List<String> keys = new ArrayList<>(each.getKeys());
                Collections.sort(keys);
                System.out.println(each.getDeliveryAttempt() + " " + each.getMessageId() + " "
                    + String.join(",", keys) + " " + each.getBody().remaining());
                left--;
                boolean isFirst = each.getDeliveryAttempt() == 1;
                if (isFirst) {
                    first++;
                }
                if (kept == 0 || !isFirst || first % kept != 0) {
                    consumer.ack(each);
                }
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
