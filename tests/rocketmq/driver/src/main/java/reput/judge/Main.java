package reput.judge;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;

/** Jobs as JSON, one a line: one from the argument, or many from standard input. */
public final class Main {
    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        // Whatever RocketMQ prints must not mix with the answers.
        PrintStream answers = new PrintStream(System.out, true, "UTF-8");
        System.setOut(System.err);
        if (arguments.length > 0) {
            boolean ok = answer(arguments[0], answers);
            Runtime.getRuntime().halt(ok ? 0 : 1);
        }
        BufferedReader jobs =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = jobs.readLine(); line != null; line = jobs.readLine()) {
            answer(line, answers);
        }
        // Netty and RocketMQ leave threads behind; the one who asked is gone.
        Runtime.getRuntime().halt(0);
    }

    private static boolean answer(String line, PrintStream answers) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            Job job = Job.of(RemotingSerializable.fromJson(line, Map.class));
            answer.put("ok", true);
            answer.putAll(run(job));
        } catch (Throwable e) {
            StringWriter trace = new StringWriter();
            e.printStackTrace(new PrintWriter(trace));
            answer.clear();
            answer.put("ok", false);
            answer.put("error", trace.toString());
        }
        answers.println(RemotingSerializable.toJson(answer, false));
        return (Boolean) answer.get("ok");
    }

    private static Map<String, Object> run(Job job) throws Exception {
        String command = job.text("command");
        switch (command) {
            case "derive":
                return Derive.run(job);
            case "put":
                return Put.run(job);
            case "broker.start":
                return Broker.start(job);
            case "controller.start":
                return Broker.startControllerAlone(job);
            case "broker.status":
                return Broker.status();
            case "broker.stop":
                return Broker.stop();
            case "broker.clean":
                return Operations.clean(Broker.running(), job);
            case "broker.delete_topic":
                return Operations.deleteTopic(Broker.running(), job);
            case "broker.pop":
                return Operations.pop(Broker.running());
            case "broker.topic":
                return Operations.topic(Broker.running(), job);
            case "broker.clock":
                return Operations.clock(Broker.running(), job);
            case "broker.checks":
                return Operations.checks(Broker.running(), job);
            case "broker.writable":
                return Operations.writable(Broker.running(), job);
            case "send":
                return Producers.send(job);
            case "transactions":
                return Producers.transactions(job);
            case "await_checks":
                return Producers.awaitChecks(job);
            case "pull":
                return Consumers.pull(job);
            case "drain":
                return Drain.run(job);
            case "sql":
                return Consumers.sql(job);
            case "fail":
                return Consumers.fail(job);
            case "find":
                return Consumers.find(job);
            case "query":
                return Query.run(job);
            case "filter.sql":
                return Filters.sql(job);
            case "filter.tags":
                return Filters.tags(job);
            case "bodies.decode":
                return Bodies.decode(job);
            case "bodies.compress":
                return Bodies.compress(job);
            case "bodies.batch":
                return Bodies.batch(job);
            case "allocate":
                return Allocation.run(job);
            case "bulk":
                return Bulk.run(job);
            default:
                throw new IllegalArgumentException("no such command: " + command);
        }
    }
}
