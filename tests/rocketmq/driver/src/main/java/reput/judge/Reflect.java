package reput.judge;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Reaches what RocketMQ's versions spell differently, or keep private. */
final class Reflect {
    private Reflect() {
    }

    static boolean exists(String className) {
        try {
            Class.forName(className);
            return true;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    static Field field(Class<?> type, String name) {
        for (Class<?> t = type; t != null; t = t.getSuperclass()) {
            try {
                Field field = t.getDeclaredField(name);
                field.setAccessible(true);
                return field;
            } catch (NoSuchFieldException e) {
                // perhaps its superclass has it
            }
        }
        return null;
    }

    static Object get(Object target, String name) throws Exception {
        Field field = field(target.getClass(), name);
        if (field == null) {
            throw new NoSuchFieldException(target.getClass().getName() + "." + name);
        }
        return field.get(target);
    }

    static void set(Object target, String name, Object value) throws Exception {
        Field field = field(target.getClass(), name);
        if (field == null) {
            throw new NoSuchFieldException(target.getClass().getName() + "." + name);
        }
        field.set(target, value);
    }

    static Method method(Class<?> type, String name, int parameters) {
        for (Class<?> t = type; t != null; t = t.getSuperclass()) {
            for (Method method : t.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == parameters) {
                    method.setAccessible(true);
                    return method;
                }
            }
        }
        return null;
    }

    static Object call(Object target, String name, Object... arguments) throws Exception {
        Method method = method(target.getClass(), name, arguments.length);
        if (method == null) {
            throw new NoSuchMethodException(target.getClass().getName() + "." + name);
        }
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException e) {
            throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
        }
    }

    /** The first of the constructors that fits one of the argument lists. */
    static Object create(Class<?> type, Object[]... choices) throws Exception {
        for (Object[] arguments : choices) {
            for (Constructor<?> constructor : type.getConstructors()) {
                if (fits(constructor.getParameterTypes(), arguments)) {
                    return constructor.newInstance(arguments);
                }
            }
        }
        throw new NoSuchMethodException("no known constructor of " + type.getName());
    }

    private static boolean fits(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            Object argument = arguments[i];
            boolean fits = argument == null ? !types[i].isPrimitive()
                : types[i].isInstance(argument)
                    || types[i] == boolean.class && argument instanceof Boolean;
            if (!fits) {
                return false;
            }
        }
        return true;
    }
}
