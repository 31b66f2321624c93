package reput.judge;

import java.io.File;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.store.CommitLogDispatcher;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageArrivingListener;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** Makes, starts and stops one DefaultMessageStore of whatever version is on the class path. */
final class Stores {
    final MessageStoreConfig storeConfig = new MessageStoreConfig();
    final BrokerConfig brokerConfig = new BrokerConfig();
    final AtomicLong dispatched = new AtomicLong();
    private final ConcurrentHashMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
    private final long pace;
    DefaultMessageStore store;

    Stores(Job job) throws Exception {
        // From 5.4.0 on recovery reads no more than the last ten segments unless told.
        if (Reflect.method(MessageStoreConfig.class, "setCommitLogRecoverMaxNum", 1) != null) {
            Reflect.call(storeConfig, "setCommitLogRecoverMaxNum", 1_000_000);
        }
        configure(job, storeConfig, brokerConfig);
        topics(job);
        pace = job.number("pace", Long.MAX_VALUE);
    }

    /** Settings by RocketMQ's own names; one that neither configuration knows is an error. */
    static void configure(Job job, MessageStoreConfig storeConfig, BrokerConfig brokerConfig) {
        String root = job.text("store");
        storeConfig.setStorePathRootDir(root);
        storeConfig.setStorePathCommitLog(root + File.separator + "commitlog");
        // Nothing here may be cleaned away because it is old or the disk is full.
        storeConfig.setFileReservedTime(1_000_000);
        storeConfig.setDiskMaxUsedSpaceRatio(95);
        storeConfig.setCleanFileForciblyEnable(false);
        storeConfig.setOsPageCacheBusyTimeOutMills(600_000);
        List<String> unknown = new ArrayList<>();
        for (Map.Entry<String, Object> entry : job.map("settings").entrySet()) {
            boolean known = false;
            for (Object config : new Object[] {storeConfig, brokerConfig}) {
                for (String name : spellings(entry.getKey())) {
                    String setter = "set" + Character.toUpperCase(name.charAt(0)) + name.substring(1);
                    if (Reflect.method(config.getClass(), setter, 1) != null
                        || Reflect.method(config.getClass(), "set" + name, 1) != null) { // setdLegerPeers
                        Properties one = new Properties();
                        one.setProperty(name, String.valueOf(entry.getValue()));
                        MixAll.properties2Object(one, config);
                        known = true;
                    }
                }
            }
            if (!known) {
                unknown.add(entry.getKey());
            }
        }
        if (!unknown.isEmpty()) {
            throw new IllegalArgumentException("this RocketMQ has no setting " + unknown);
        }
    }

    /** The first releases wrote "maped" for "mapped". */
    private static String[] spellings(String name) {
        return name.startsWith("mapped")
            ? new String[] {name, name.replaceFirst("mapped", "maped")} : new String[] {name};
    }

    @SuppressWarnings("unchecked")
    private void topics(Job job) throws Exception {
        for (Map.Entry<String, Object> entry : job.map("topic_attributes").entrySet()) {
            TopicConfig topic = new TopicConfig(entry.getKey());
            Map<String, String> attributes = (Map<String, String>) entry.getValue();
            if (attributes != null && !attributes.isEmpty()) {
                Reflect.call(topic, "setAttributes", attributes);
            }
            topics.put(entry.getKey(), topic);
        }
    }

    /** Before 5.0.0 a master's store delivers delayed messages by itself, into the log we judge. */
    void noDelayedDelivery() {
        if (Reflect.exists("org.apache.rocketmq.store.schedule.ScheduleMessageService")) {
            storeConfig.setBrokerRole(BrokerRole.SLAVE);
        }
    }

    @SuppressWarnings("unchecked")
    void open() throws Exception {
        Object stats = Reflect.create(BrokerStatsManager.class,
            new Object[] {"judge", true}, new Object[] {"judge"});
        MessageArrivingListener nobody = (MessageArrivingListener) java.lang.reflect.Proxy
            .newProxyInstance(Stores.class.getClassLoader(),
                new Class<?>[] {MessageArrivingListener.class}, (self, method, arguments) -> null);
        store = (DefaultMessageStore) Reflect.create(DefaultMessageStore.class,
            new Object[] {storeConfig, stats, nobody, brokerConfig, topics},
            new Object[] {storeConfig, stats, nobody, brokerConfig});
        Loopback.replication(store);
        count(store, dispatched, pace);
    }

    /**
     * Counts what the store dispatches, by recovery and while it runs. With a pace it waits a
     * millisecond after so many messages: RocketMQ names an index file by its millisecond, and
     * would fill more than one of a test's small ones in it.
     */
    @SuppressWarnings("unchecked")
    static void count(Object store, AtomicLong counter, long pace) throws Exception {
        CommitLogDispatcher dispatcher = request -> {
            if (counter.incrementAndGet() % pace == 0) {
                try {
                    Thread.sleep(1);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        };
        ((LinkedList<CommitLogDispatcher>) Reflect.get(store, "dispatcherList"))
            .addFirst(dispatcher);
    }

    void load() {
        if (!store.load()) {
            throw new IllegalStateException("RocketMQ refused to load the store");
        }
    }

    void caughtUp(long seconds) throws InterruptedException {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (store.dispatchBehindBytes() > 0) {
            if (System.nanoTime() > end) {
                throw new IllegalStateException(
                    "still " + store.dispatchBehindBytes() + " bytes to dispatch");
            }
            Thread.sleep(1);
        }
    }

    /**
     * RocketMQ's shutdown begins with a sleep of up to six seconds for requests still under way.
     * There are none here: an interrupt ends that sleep, and nothing else of the shutdown.
     */
    void stop(boolean quick) throws InterruptedException {
        indexFlushesDone();
        if (quick) {
            Thread.currentThread().interrupt();
        }
        store.shutdown();
        Thread.interrupted();
    }

    /**
     * Each full index file is flushed by a thread of its own, which then writes the checkpoint.
     * RocketMQ's shutdown does not wait for it, and unmaps the checkpoint under its hands: a
     * quick shutdown of many small index files has crashed the JVM so (SIGSEGV in
     * StoreCheckpoint.flush).
     */
    private static void indexFlushesDone() throws InterruptedException {
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().startsWith("FlushIndexFileThread")) {
                thread.join();
            }
        }
    }

    static InetSocketAddress host(String text) throws Exception {
        int colon = text.lastIndexOf(':');
        return new InetSocketAddress(java.net.InetAddress.getByName(text.substring(0, colon)),
            Integer.parseInt(text.substring(colon + 1)));
    }
}
