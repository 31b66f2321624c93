package reput.judge;

import java.util.HashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.store.PutMessageResult;

/** putMessage in SYNC_FLUSH from many threads, beside benchmarks/writer.py. One JSON argument. */
public final class SyncPut {
    private SyncPut() {
    }

    public static void main(String[] arguments) throws Exception {
        java.io.PrintStream answers = System.out;
        System.setOut(System.err);
        Job job = Job.of(RemotingSerializable.fromJson(arguments[0], java.util.Map.class));
        Stores stores = new Stores(job);
        stores.open();
        stores.load();
        stores.store.start();
        run(stores, 4, 1.0, new AtomicLong()); // warm
        AtomicLong count = new AtomicLong();
        int threads = (int) job.number("threads", 8);
        double seconds = run(stores, threads, job.number("milliseconds", 3000) / 1e3, count);
        answers.println(count.get() + " " + Math.round(count.get() / seconds));
        answers.flush();
        Runtime.getRuntime().halt(0);
    }

    private static double run(Stores stores, int threads, double seconds, AtomicLong count)
        throws Exception {
        long begin = System.nanoTime();
        long until = begin + (long) (seconds * 1e9);
        Thread[] running = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            int number = t;
            running[t] = new Thread(() -> {
                while (System.nanoTime() < until) {
                    PutMessageResult result = stores.store.putMessage(message(number));
                    if (result.isOk()) {
                        count.incrementAndGet();
                    }
                }
            });
            running[t].start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        return (System.nanoTime() - begin) / 1e9;
    }

    private static MessageExtBrokerInner message(int number) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic("Bench");
        message.setQueueId(number % 8);
        message.setBody(new byte[300]);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        MessageAccessor.setProperties(message, new HashMap<>());
        message.setPropertiesString("UNIQ_KEY\u00017F0000010F0A18B4AAC20000000000000\u0002KEYS\u0001k\u0002");
        return message;
    }

    private static final java.net.InetSocketAddress HOST =
        new java.net.InetSocketAddress(Loopback.address(), 10911);
}
