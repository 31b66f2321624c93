package reput.judge;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/** Which queues the client's strategies give to a consumer. */
final class Allocation {
    private Allocation() {
    }

    /**
     * cases: strategy, client, queues [[topic, broker, id]], clients, and what the strategy needs
     * (nodes, rooms, given: queues). The answer has for each the queues, or null if it throws.
     */
    static Map<String, Object> run(Job job) {
        List<Object> answers = new ArrayList<>();
        for (Object each : job.list("cases")) {
            answers.add(answer(Job.of(each)));
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("answers", answers);
        return result;
    }

    private static List<Object> answer(Job one) {
        List<String> clients = new ArrayList<>();
        one.list("clients").forEach(client -> clients.add((String) client));
        List<Object> answer = new ArrayList<>();
        try {
            for (MessageQueue queue : strategy(one).allocate("G", one.text("client"),
                queues(one.list("queues")), clients)) {
                answer.add(List.of(queue.getTopic(), queue.getBrokerName(), queue.getQueueId()));
            }
        } catch (RuntimeException e) {
            return null;
        }
        return answer;
    }

    private static List<MessageQueue> queues(List<Object> texts) {
        List<MessageQueue> queues = new ArrayList<>();
        for (Object text : texts) {
            List<?> parts = (List<?>) text;
            queues.add(new MessageQueue((String) parts.get(0), (String) parts.get(1),
                ((Number) parts.get(2)).intValue()));
        }
        return queues;
    }

    private static AllocateMessageQueueStrategy strategy(Job one) {
        switch (one.text("strategy")) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash((int) one.number("nodes", 10));
            case "CONFIG":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(queues(one.list("given")));
                return config;
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(new HashSet<>());
                one.list("rooms").forEach(name -> room.getConsumeridcs().add((String) name));
                return room;
            default:
                throw new IllegalArgumentException(one.text("strategy"));
        }
    }
}
