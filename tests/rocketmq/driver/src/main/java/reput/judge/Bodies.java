package reput.judge;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/** What a client makes of a body. All bytes are base64. */
final class Bodies {
    private Bodies() {
    }

    /** records: whole ones. For each the decompressed body, or null if the client gives it up. */
    static Map<String, Object> decode(Job job) {
        List<Object> answers = new ArrayList<>();
        for (Object record : job.list("records")) {
            MessageExt message = MessageDecoder.decode(bytes(record), true, true);
            answers.add(message == null || message.getBody() == null ? null
                : Base64.getEncoder().encodeToString(message.getBody()));
        }
        return answer(answers);
    }

    /** bodies, each compressed by the client's compressor of this type, as from 4.9.4 on. */
    static Map<String, Object> compress(Job job) throws Exception {
        String room = "org.apache.rocketmq.common.compression.Compress";
        Class<?> types = Class.forName(room + "ionType");
        Object type = types.getMethod("of", String.class).invoke(null, job.text("type"));
        Object compressor = Class.forName(room + "orFactory").getMethod("getCompressor", types)
            .invoke(null, type);
        List<Object> answers = new ArrayList<>();
        for (Object body : job.list("bodies")) {
            byte[] made = (byte[]) Reflect.call(compressor, "compress", bytes(body).array(),
                (int) job.number("level", 5));
            answers.add(Base64.getEncoder().encodeToString(made));
        }
        return answer(answers);
    }

    /** batches: lists of [flag, body, properties]. For each the body of an inner batch. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> batch(Job job) throws Exception {
        List<Object> answers = new ArrayList<>();
        for (Object batch : job.list("batches")) {
            List<Message> messages = new ArrayList<>();
            for (List<Object> one : (List<List<Object>>) batch) {
                Message message = new Message("T", bytes(one.get(1)).array());
                message.setFlag(((Number) one.get(0)).intValue());
                ((Map<String, String>) one.get(2)).forEach(message::putUserProperty);
                messages.add(message);
            }
            byte[] made = (byte[]) MessageDecoder.class.getMethod("encodeMessages", List.class)
                .invoke(null, messages);
            answers.add(Base64.getEncoder().encodeToString(made));
        }
        return answer(answers);
    }

    private static ByteBuffer bytes(Object text) {
        return ByteBuffer.wrap(Base64.getDecoder().decode((String) text));
    }

    private static Map<String, Object> answer(List<Object> answers) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("answers", answers);
        return result;
    }
}
