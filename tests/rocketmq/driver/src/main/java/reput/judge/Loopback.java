package reput.judge;

import io.netty.bootstrap.ServerBootstrap;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.SocketAddress;

/** Keeps every listening socket on 127.0.0.1: RocketMQ itself would bind some on all interfaces. */
final class Loopback {
    private Loopback() {
    }

    static InetAddress address() {
        return InetAddress.getLoopbackAddress();
    }

    /** A port with its neighbours (-2: the broker's "VIP" port, +1: replication) free as well. */
    static int freePort() throws Exception {
        for (int attempt = 0; attempt < 200; attempt++) {
            try (ServerSocket port = new ServerSocket(0, 1, address())) {
                int number = port.getLocalPort();
                try (ServerSocket vip = new ServerSocket(number - 2, 1, address());
                    ServerSocket ha = new ServerSocket(number + 1, 1, address())) {
                    return number;
                } catch (java.io.IOException taken) {
                    // the next one
                }
            }
        }
        throw new IllegalStateException("no three free ports on loopback");
    }

    /** Replication (HAService) listens even where no replica will ever come. */
    static void replication(Object store) throws Exception {
        replication(store, 0);
    }

    static void replication(Object store, int port) throws Exception {
        if (Reflect.field(store.getClass(), "haService") == null) {
            return;
        }
        Object service = Reflect.get(store, "haService");
        if (service == null) {
            return;
        }
        Class<?> type = Class.forName("org.apache.rocketmq.store.ha.HAService");
        if (!type.isInterface()) {
            rebind(service, port);
            return;
        }
        // From 5.0.0 the listener is made by init(), within start(). After that the service itself
        // stands there again: under a controller it is cast to its own class.
        Object proxy = Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type},
            (self, method, arguments) -> {
                try {
                    Object result = method.invoke(service, arguments);
                    if (method.getName().equals("init")) {
                        rebind(service, port);
                        Reflect.set(store, "haService", service);
                    }
                    return result;
                } catch (InvocationTargetException e) {
                    throw e.getCause();
                }
            });
        Reflect.set(store, "haService", proxy);
    }

    private static void rebind(Object service, int port) throws Exception {
        Object acceptor = Reflect.get(service, "acceptSocketService");
        Reflect.set(acceptor, "socketAddressListen", new InetSocketAddress(address(), port));
    }

    /** The netty servers of broker and name server; those before bindAddress take any interface. */
    static void remoting(Object controller) throws Exception {
        for (String name : new String[] {"remotingServer", "fastRemotingServer"}) {
            if (Reflect.field(controller.getClass(), name) == null) {
                continue;
            }
            Object server = Reflect.get(controller, name);
            if (server != null && Reflect.field(server.getClass(), "serverBootstrap") != null) {
                Reflect.set(server, "serverBootstrap", new LoopbackBootstrap());
            }
        }
    }

    private static final class LoopbackBootstrap extends ServerBootstrap {
        @Override
        public ServerBootstrap localAddress(SocketAddress wanted) {
            int port = ((InetSocketAddress) wanted).getPort();
            return super.localAddress(new InetSocketAddress(address(), port));
        }
    }
}
