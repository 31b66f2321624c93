package reput.judge;

import java.util.Collections;
import java.util.List;
import java.util.Map;

/** One command: a JSON object, read with defaults. */
final class Job {
    private final Map<String, Object> values;

    Job(Map<String, Object> values) {
        this.values = values;
    }

    boolean has(String name) {
        return values.get(name) != null;
    }

    String text(String name) {
        Object value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("the job lacks \"" + name + "\"");
        }
        return value.toString();
    }

    String text(String name, String otherwise) {
        Object value = values.get(name);
        return value == null ? otherwise : value.toString();
    }

    long number(String name, long otherwise) {
        Object value = values.get(name);
        return value == null ? otherwise : ((Number) value).longValue();
    }

    boolean flag(String name, boolean otherwise) {
        Object value = values.get(name);
        return value == null ? otherwise : (Boolean) value;
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> map(String name) {
        Object value = values.get(name);
        return value == null ? Collections.emptyMap() : (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    List<Object> list(String name) {
        Object value = values.get(name);
        return value == null ? Collections.emptyList() : (List<Object>) value;
    }

    @SuppressWarnings("unchecked")
    static Job of(Object map) {
        return new Job((Map<String, Object>) map);
    }
}
