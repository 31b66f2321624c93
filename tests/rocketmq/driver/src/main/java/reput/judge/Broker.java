package reput.judge;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/** A name server and a broker on loopback, on a store as it is. */
final class Broker {
    static final String NAME = "judge";
    private static NamesrvController names;
    private static BrokerController broker;
    private static Object controller; // a ControllerManager, from 5.0.0 on
    private static final AtomicLong DISPATCHED = new AtomicLong();

    private Broker() {
    }

    static BrokerController running() {
        return broker;
    }

    /**
     * A message id holds the broker's port: who asks for one wants the port it was sent to.
     * controller: the folder of one that is started as well, and that the broker is under;
     * controllerAddr: where one is that it shares with another broker.
     */
    static Map<String, Object> start(Job job) throws Exception {
        if (broker != null) {
            throw new IllegalStateException("a broker is running in this JVM");
        }
        // As BrokerStartup does: the name server takes a broker without a version for an ancient one.
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY,
            Integer.toString(MQVersion.CURRENT_VERSION));
        int namesPort = startNames();
        int port = (int) job.number("port", 0);
        BrokerConfig brokerConfig = new BrokerConfig();
        MessageStoreConfig storeConfig = new MessageStoreConfig();
        calm(storeConfig, brokerConfig);
        Stores.configure(job, storeConfig, brokerConfig);
        brokerConfig.setBrokerIP1(Loopback.address().getHostAddress());
        brokerConfig.setBrokerIP2(Loopback.address().getHostAddress());
        brokerConfig.setBrokerName(NAME);
        brokerConfig.setBrokerClusterName(NAME);
        brokerConfig.setNamesrvAddr(job.has("namesrv") ? job.text("namesrv") : address(namesPort));
        brokerConfig.setEnablePropertyFilter(true);
        if (job.has("controller")) {
            Reflect.call(brokerConfig, "setEnableControllerMode", true);
            Reflect.call(brokerConfig, "setControllerAddr", startController(job.text("controller")));
        } else if (job.has("controllerAddr")) {
            Reflect.call(brokerConfig, "setEnableControllerMode", true);
            Reflect.call(brokerConfig, "setControllerAddr", job.text("controllerAddr"));
        }
        if (Reflect.method(BrokerConfig.class, "setBrokerFastFailureEnable", 1) != null) {
            brokerConfig.getClass().getMethod("setBrokerFastFailureEnable", boolean.class)
                .invoke(brokerConfig, false);
        }
        storeConfig.setHaListenPort(port + 1);
        broker = (BrokerController) Reflect.create(BrokerController.class,
            new Object[] {brokerConfig, server(port), new NettyClientConfig(), storeConfig});
        if (!broker.initialize()) {
            broker = null;
            throw new IllegalStateException("the broker refused the store");
        }
        DefaultMessageStore store = (DefaultMessageStore) broker.getMessageStore();
        Loopback.remoting(broker);
        Loopback.replication(store, port + 1);
        DISPATCHED.set(0);
        Stores.count(store, DISPATCHED, Long.MAX_VALUE);
        broker.start();
        if (storeConfig.getBrokerRole() != BrokerRole.SLAVE // a slave alone makes no route
            && !job.has("controllerAddr")) { // and of two brokers the master is still to be elected
            awaitRegistered();
        } else if (storeConfig.getHaMasterAddress() != null) {
            // From 5.0.0 on the setting is read before there is an HAClient, and so is lost: there
            // the name server says who the master is, as this does.
            String method = Reflect.method(store.getClass(), "updateHaMasterAddress", 1) != null
                ? "updateHaMasterAddress" : "updateMasterAddress";
            Reflect.call(store, method, storeConfig.getHaMasterAddress());
        }
        Map<String, Object> result = status();
        result.put("port", port);
        result.put("namesrv", address(namesPort));
        return result;
    }

    /** Settings, where the release has them, without which an idle broker takes a whole core. */
    private static void calm(MessageStoreConfig storeConfig, BrokerConfig brokerConfig)
            throws Exception {
        if (Reflect.method(BrokerConfig.class, "setTransactionMetricFlushInterval", 1) != null) {
            // Until so many milliseconds have passed TransactionMetricsFlushService asks for the time
            // without a pause: for the first 10 s, by default.
            Reflect.call(brokerConfig, "setTransactionMetricFlushInterval", 300L);
        }
        if (Reflect.method(MessageStoreConfig.class, "setTimerFlushIntervalMs", 1) != null) {
            // Each second 38 MB of the timer wheel are copied and synced: a quarter of a core.
            Reflect.call(storeConfig, "setTimerFlushIntervalMs", 3000);
        }
    }

    /** A controller and a name server without a broker, for two brokers in JVMs of their own. */
    static Map<String, Object> startControllerAlone(Job job) throws Exception {
        System.setProperty(RemotingCommand.REMOTING_VERSION_KEY,
            Integer.toString(MQVersion.CURRENT_VERSION));
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("namesrv", address(startNames()));
        result.put("controller", startController(job.text("folder")));
        return result;
    }

    private static int startNames() throws Exception {
        int port = Loopback.freePort();
        names = new NamesrvController(new NamesrvConfig(), server(port));
        names.initialize();
        Loopback.remoting(names);
        names.start();
        return port;
    }

    /** A group of one controller, which elects itself, and then the broker as the master. */
    private static String startController(String folder) throws Exception {
        int port = Loopback.freePort();
        Object config = Class.forName("org.apache.rocketmq.common.ControllerConfig")
            .getConstructor().newInstance();
        Reflect.call(config, "setControllerDLegerGroup", "controllers");
        Reflect.call(config, "setControllerDLegerPeers", "n0-" + address(port));
        Reflect.call(config, "setControllerDLegerSelfId", "n0");
        Reflect.call(config, "setControllerStorePath", folder);
        Reflect.call(config, "setMappedFileSize", 1 << 20);
        controller = Reflect.create(
            Class.forName("org.apache.rocketmq.controller.ControllerManager"),
            new Object[] {config, server(port), new NettyClientConfig()});
        Reflect.call(controller, "initialize");
        Reflect.call(controller, "start");
        return address(port);
    }

    /**
     * The broker registers itself in its own time, and a client needs a route at once. From 5.0.0 on
     * its first try knows of no name server where none has answered yet, and the next comes after 10 s.
     */
    private static void awaitRegistered() throws Exception {
        boolean again = Reflect.method(BrokerController.class, "registerBrokerAll", 3) != null;
        for (int attempt = 1; attempt <= 600; attempt++) {
            if (names.getRouteInfoManager().pickupTopicRouteData("TBW102") != null) {
                return;
            }
            Thread.sleep(50);
            if (again && attempt % 10 == 0) {
                Reflect.call(broker, "registerBrokerAll", true, false, true);
            }
        }
        throw new IllegalStateException("the broker did not register with the name server");
    }

    private static NettyServerConfig server(int port) throws Exception {
        NettyServerConfig config = new NettyServerConfig();
        config.setListenPort(port);
        if (Reflect.method(NettyServerConfig.class, "setBindAddress", 1) != null) {
            Reflect.call(config, "setBindAddress", Loopback.address().getHostAddress());
        }
        return config;
    }

    private static String address(int port) {
        return Loopback.address().getHostAddress() + ":" + port;
    }

    /** dispatched counts what the running broker dispatched, not what its recovery did. */
    static Map<String, Object> status() {
        Map<String, Object> result = new LinkedHashMap<>();
        DefaultMessageStore store = (DefaultMessageStore) broker.getMessageStore();
        result.put("dispatched", DISPATCHED.get());
        result.put("role", broker.getMessageStoreConfig().getBrokerRole().name());
        result.put("behind", store.dispatchBehindBytes());
        result.put("min_offset", store.getMinPhyOffset());
        result.put("max_offset", store.getMaxPhyOffset());
        return result;
    }

    static Map<String, Object> stop() throws Exception {
        Map<String, Object> result = status();
        IdleWaits.during(() -> {
            broker.shutdown();
            if (controller != null) {
                Reflect.call(controller, "shutdown");
                controller = null;
            }
            names.shutdown();
        });
        broker = null;
        names = null;
        return result;
    }
}
