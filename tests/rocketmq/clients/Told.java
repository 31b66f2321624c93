package reput.judge;

import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/** What every step needs: a message as a list, and what a client is made with. */
final class Told {
    /**
     * Milliseconds. By default a client gives its first request three seconds, with the connection:
     * where the machine is busy a new JVM wants longer before it has begun to speak TLS.
     */
    static final int PATIENCE = 30_000;
    private static int instances;

    private Told() {
    }

    /** All that a client knows of a message, but for what the reader itself adds. */
    static List<Object> of(MessageExt message) throws Exception {
        TreeMap<String, String> properties = new TreeMap<>(message.getProperties());
        // The client adds these to a message that it pulled.
        properties.keySet().removeIf(name -> name.equals("MIN_OFFSET")
            || name.equals("MAX_OFFSET") || name.equals("CONSUME_START_TIME"));
        List<Object> told = new ArrayList<>();
        Collections.addAll(told, message.getTopic(), message.getQueueId(),
            message.getQueueOffset(), message.getMsgId(), message.getCommitLogOffset(),
            sha(message.getBody()), message.getStoreTimestamp(), message.getBornTimestamp(),
            String.valueOf(message.getStoreHost()), String.valueOf(message.getBornHost()),
            message.getStoreSize(), message.getSysFlag(), message.getFlag(),
            message.getBodyCRC(), message.getReconsumeTimes(),
            message.getPreparedTransactionOffset(), properties);
        return told;
    }

    private static String sha(byte[] body) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-1").digest(body == null ? new byte[0] : body);
        StringBuilder text = new StringBuilder();
        for (byte b : digest) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }

    /** Whom a client asks, as whom, and how: before it is started. */
    static void arrange(ClientConfig client, Job step) {
        client.setNamesrvAddr(step.text("namesrv"));
        client.setInstanceName("client" + ++instances);
        client.setUseTLS(step.flag("tls", false));
        client.setMqClientApiTimeout(PATIENCE);
    }

    /** Signs requests (ACL 1.0) where the step has `access_key` and `secret_key`. */
    static RPCHook signer(Job step) {
        return step.has("access_key")
            ? new AclClientRPCHook(
                new SessionCredentials(step.text("access_key"), step.text("secret_key")))
            : null;
    }
}
