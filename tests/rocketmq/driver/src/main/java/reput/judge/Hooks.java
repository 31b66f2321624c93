package reput.judge;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * What a broker does to a message before its store puts it (HookUtils, from 5.0.0): delay levels and
 * timers. Before, CommitLog.putMessage did it.
 */
final class Hooks {
    private final Object broker;
    private final Method schedule;

    private Hooks(Object broker, Method schedule) {
        this.broker = broker;
        this.schedule = schedule;
    }

    /** null where this version has none. The broker is made for its settings, and never started. */
    static Hooks of(Stores stores) throws Exception {
        if (!Reflect.exists("org.apache.rocketmq.broker.util.HookUtils")) {
            return null;
        }
        Object broker = Reflect.create(BrokerController.class, new Object[] {
            stores.brokerConfig, new NettyServerConfig(), new NettyClientConfig(), stores.storeConfig});
        Reflect.call(Reflect.get(broker, "scheduleMessageService"), "parseDelayLevel");
        Class<?> hooks = Class.forName("org.apache.rocketmq.broker.util.HookUtils");
        return new Hooks(broker, Reflect.method(hooks, "handleScheduleMessage", 2));
    }

    PutMessageResult before(Object message) throws Exception {
        try {
            return (PutMessageResult) schedule.invoke(null, broker, message);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
        }
    }
}
