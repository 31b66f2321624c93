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
        producer.setNamesrvAddr(step.text("namesrv"));
        producer.setInstanceName(Told.instance());
        producer.setUseTLS(step.flag("tls", false));
        producer.setRetryTimesWhenSendFailed(0);
        producer.start();
        try {
            return producer.send(new Message(step.text("topic"), new byte[] {1})).getSendStatus()
                .name();
        } catch (Exception e) {
            return PullReaders.firstLine(e);
        } finally {
            producer.shutdown();
        }
    }
}
