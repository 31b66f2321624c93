package reput.judge;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;

/** What TraceDataEncoder makes of bodies. */
final class Traces {
    private Traces() {
    }

    /**
     * bodies: Base64. Of each the contexts; where the decoder throws, those of each part between
     * separators by itself, with null for a part at which it throws.
     */
    static List<Object> decode(Job step) {
        List<Object> told = new ArrayList<>();
        for (Object body : step.list("bodies")) {
            byte[] raw = Base64.getDecoder().decode(body.toString());
            String text = new String(raw, StandardCharsets.UTF_8);
            List<Object> contexts = new ArrayList<>();
            try {
                add(text, contexts);
            } catch (RuntimeException whole) {
                contexts.clear();
                for (String part : text.split("\u0002")) {
                    try {
                        add(part, contexts);
                    } catch (RuntimeException e) {
                        contexts.add(null);
                    }
                }
            }
            told.add(contexts);
        }
        return told;
    }

    private static void add(String text, List<Object> contexts) {
        for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(text)) {
            TraceBean bean = context.getTraceBeans().get(0);
            boolean consumes = context.getTraceType().name().startsWith("Sub");
            contexts.add(Arrays.asList(context.getTraceType().name(), bean.getMsgId(),
                context.getTimeStamp(), context.getRegionId(), context.getGroupName(),
                bean.getTopic(), bean.getTags(), bean.getKeys(), host(bean.getStoreHost()),
                host(bean.getClientHost()), bean.getOffsetMsgId(), bean.getBodyLength(),
                bean.getMsgType() == null ? null : bean.getMsgType().name(),
                context.getCostTime(), context.isSuccess(),
                consumes ? context.getRequestId() : "", bean.getRetryTimes(),
                context.getContextCode(), bean.getTransactionId(),
                bean.getTransactionState() == null ? null : bean.getTransactionState().name(),
                bean.isFromTransactionCheck()));
        }
    }

    /** A bean that was told no host has that of this machine, or none. */
    private static String host(String told) {
        return told == null || told.equals(new TraceBean().getStoreHost()) ? "" : told;
    }
}
