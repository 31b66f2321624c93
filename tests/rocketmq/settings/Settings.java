import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.TreeMap;

/**
 * Prints the settings that one RocketMQ release takes from a broker's file, one a line: name,
 * class, type, default, with tabs between. A name is that of a setter, as MixAll.properties2Object
 * looks for it, and not that of a field.
 */
public final class Settings {
    private static final String[] CLASSES = {
        "org.apache.rocketmq.store.config.MessageStoreConfig",
        "org.apache.rocketmq.common.BrokerConfig",
        "org.apache.rocketmq.remoting.netty.NettyServerConfig",
        "org.apache.rocketmq.remoting.netty.NettyClientConfig",
        "org.apache.rocketmq.auth.config.AuthConfig",
    };

    private Settings() {
    }

    public static void main(String[] arguments) throws Exception {
        for (String name : CLASSES) {
            Class<?> type;
            try {
                type = Class.forName(name);
            } catch (ClassNotFoundException e) {
                continue;
            }
            Object config = type.getDeclaredConstructor().newInstance();
            TreeMap<String, String> lines = new TreeMap<>();
            for (Method method : type.getMethods()) {
                if (!method.getName().startsWith("set") || method.getParameterCount() == 0) {
                    continue;
                }
                String kind = method.getParameterTypes()[0].getSimpleName();
                if (!kind.matches("int|Integer|long|Long|double|Double|boolean|Boolean|float|Float|String")) {
                    continue;
                }
                String setting = method.getName().substring(3, 4).toLowerCase() + method.getName().substring(4);
                String line = setting + "\t" + type.getSimpleName() + "\t" + kind + "\t"
                    + value(type, config, setting);
                // of two setters of one name the one that takes any text
                lines.merge(setting, line, (first, second) -> kind.equals("String") ? second : first);
            }
            lines.values().forEach(System.out::println);
        }
    }

    /** What the getter says, else the field; "?" where there is neither. */
    private static String value(Class<?> type, Object config, String setting) {
        String capital = Character.toUpperCase(setting.charAt(0)) + setting.substring(1);
        for (String getter : new String[] {"get" + capital, "is" + capital}) {
            try {
                return text(type.getMethod(getter).invoke(config));
            } catch (ReflectiveOperationException e) {
                // perhaps the other
            }
        }
        for (Class<?> each = type; each != null; each = each.getSuperclass()) {
            for (String field : new String[] {setting, "is" + capital}) {
                try {
                    Field found = each.getDeclaredField(field);
                    found.setAccessible(true);
                    return text(found.get(config));
                } catch (ReflectiveOperationException e) {
                    // perhaps the other, or its superclass
                }
            }
        }
        return "?";
    }

    private static String text(Object value) {
        return String.valueOf(value).replace("\t", "\\t").replace("\n", "\\n");
    }
}
