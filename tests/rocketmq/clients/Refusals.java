package reput.judge;

import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/** What writes: a producer's send, which a server of a store must refuse. */
final class Refusals {
    private Refusals() {
    }

    static Object send(Job step) throws Exception {
        DefaultMQProducer producer =
            new DefaultMQProducer(step.text("group", "producers"), Told.signer(step));
        Told.arrange(producer, step);
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            return producer.send(new Message(step.text("topic"), new byte[] {1})).getSendStatus()
                .name();
        } catch (Exception e) {
            return PullReaders.firstLine(e);
        } finally {
            IdleWaits.during(producer::shutdown);
        }
    }
}
