package reput.judge;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin as it prints, and the methods of MQAdminExt that the dashboard calls. */
final class Tools {
    private Tools() {
    }

    /** words: a command and its options. What it prints, on both streams, is the answer. */
    @SuppressWarnings("removal")
    static Object mqadmin(Job step) throws Exception {
        System.setProperty(MixAll.NAMESRV_ADDR_PROPERTY, step.text("namesrv"));
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream out = System.out;
        PrintStream errors = System.err;
        PrintStream both = new PrintStream(text, true, "UTF-8");
        System.setOut(both);
        System.setErr(both);
        System.setSecurityManager(new NoExit()); // 4.9.7 exits where it does not know an option
        try {
            MQAdminStartup.main0(
                step.list("words").stream().map(Object::toString).toArray(String[]::new),
                Told.signer(step));
        } finally {
            System.setSecurityManager(null);
            System.setOut(out);
            System.setErr(errors);
        }
        return text.toString(StandardCharsets.UTF_8);
    }

    @SuppressWarnings("removal")
    private static final class NoExit extends SecurityManager {
        @Override
        public void checkExit(int status) {
            throw new SecurityException("it would end with " + status);
        }

        @Override
        public void checkPermission(java.security.Permission permission) {
            // all else is allowed
        }
    }

    /**
     * calls: [[method, argument...]] of one MQAdminExt; an error's first line where one fails. The
     * argument "@kept" is the id of the consumer that push.start began.
     */
    @SuppressWarnings("unchecked")
    static Object admin(Job step) throws Exception {
        DefaultMQAdminExt admin = new DefaultMQAdminExt(Told.signer(step), Told.PATIENCE);
        Told.arrange(admin, step);
        admin.start();
        List<Object> told = new ArrayList<>();
        try {
            for (Object call : step.list("calls")) {
                told.add(call(admin, (List<Object>) call));
            }
        } finally {
            IdleWaits.during(admin::shutdown);
        }
        return told;
    }

    private static Object call(DefaultMQAdminExt admin, List<Object> words) throws Exception {
        String name = words.get(0).toString();
        Object[] given = words.subList(1, words.size()).toArray();
        for (int n = 0; n < given.length; n++) {
            if ("@kept".equals(given[n])) {
                given[n] = PushReaders.keptId();
            }
        }
        for (Method method : DefaultMQAdminExt.class.getMethods()) {
            Object[] arguments = method.getName().equals(name)
                ? arguments(method.getParameterTypes(), given) : null;
            if (arguments == null) {
                continue;
            }
            try {
                Object answer = method.invoke(admin, arguments);
                // As text: fastjson writes maps whose keys are no strings in its own way.
                return answer == null ? null : RemotingSerializable.toJson(answer, false);
            } catch (InvocationTargetException e) {
                return PullReaders.firstLine(e.getCause());
            }
        }
        return "no such method"; // of this release's MQAdminExt
    }

    /** The arguments as a method's types want them, or null where they do not fit. */
    private static Object[] arguments(Class<?>[] types, Object[] given) {
        if (types.length != given.length) {
            return null;
        }
        Object[] fitting = new Object[types.length];
        for (int n = 0; n < types.length; n++) {
            if (given[n] instanceof Number && types[n] == long.class) {
                fitting[n] = ((Number) given[n]).longValue();
            } else if (given[n] instanceof Number && types[n] == int.class) {
                fitting[n] = ((Number) given[n]).intValue();
            } else if (given[n] instanceof Boolean && types[n] == boolean.class
                || given[n] instanceof String && types[n] == String.class) {
                fitting[n] = given[n];
            } else if (given[n] instanceof List && types[n] == Set.class) {
                fitting[n] = new HashSet<>((List<?>) given[n]);
            } else {
                return null;
            }
        }
        return fitting;
    }
}
