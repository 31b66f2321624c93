package reput.judge;

import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** One JVM of a client: steps as a JSON array from standard input, their answers as another. */
public final class Script {
    private Script() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        String steps = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        List<Object> told = new ArrayList<>();
        for (Object step : RemotingSerializable.fromJson(steps, List.class)) {
            told.add(answer(Job.of(step)));
        }
        answers.println(RemotingSerializable.toJson(told, false));
        Runtime.getRuntime().halt(0); // netty and RocketMQ leave threads behind
    }

    private static Map<String, Object> answer(Job step) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("answer", run(step));
        } catch (Throwable e) {
            StringWriter trace = new StringWriter();
            e.printStackTrace(new PrintWriter(trace));
            answer.put("error", trace.toString());
        }
        return answer;
    }

    private static Object run(Job step) throws Exception {
        switch (step.text("do")) {
            case "push":
                return PushReaders.read(step);
            case "push.start":
                return PushReaders.start(step);
            case "push.stop":
                return PushReaders.stop();
            case "pull":
                return PullReaders.pull(step);
            case "lite":
                return PullReaders.lite(step);
            case "find":
                return PullReaders.find(step);
            case "send":
                return Refusals.send(step);
            case "mqadmin":
                return Tools.mqadmin(step);
            case "admin":
                return Tools.admin(step);
            case "trace.decode":
                return Traces.decode(step);
            case "trace.live":
                return Traces.live(step);
            default:
                throw new IllegalArgumentException("no such step: " + step.text("do"));
        }
    }
}
