package reput.judge;

import org.apache.rocketmq.client.ClientConfig;

/** What all clients have. */
final class Clients {
    /** Milliseconds: on a busy machine a name server's answer may take longer than the default 3 s. */
    private static final int PATIENCE = 30_000;

    private Clients() {
    }

    static void arrange(ClientConfig client, Job job) throws Exception {
        client.setNamesrvAddr(job.text("namesrv"));
        if (Reflect.method(ClientConfig.class, "setMqClientApiTimeout", 1) != null) {
            Reflect.call(client, "setMqClientApiTimeout", PATIENCE);
        }
    }
}
