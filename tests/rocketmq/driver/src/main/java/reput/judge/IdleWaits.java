package reput.judge;

import java.util.Map;
import java.util.Set;

/**
 * Ends the waits of a stop in which nothing happens.
 *
 * <p>BrokerController.shutdown joins one service after the other, and each ends no sooner than the
 * sleep between two of its looks: NettyEventExecutor polls for 3 s (of the broker, its VIP port, its
 * client, the name server, and of each client that stops), PopReviveService and
 * PopBufferMergeService sleep for seconds, and DefaultMessageStore.shutdown sleeps 3 s for requests
 * that are under way, of which a test has none. An interrupt ends the sleep and nothing else: a
 * thread that writes or flushes is in none of these places.
 */
final class IdleWaits extends Thread implements AutoCloseable {
    private static final Set<String> SLEEPS = Set.of(
        "DefaultMessageStore.shutdown", "PopReviveService.consumeReviveMessage",
        "PopBufferMergeService.run");
    private static final String POLLS = "NettyRemotingAbstract$NettyEventExecutor.run";
    private final Thread stopping = Thread.currentThread();
    private boolean slept;
    private volatile boolean ended;

    /** Stops a broker, a client or a tool without those waits. */
    static void during(Stop stop) throws Exception {
        try (IdleWaits waits = new IdleWaits()) {
            stop.run();
        }
    }

    /** What stops it. */
    interface Stop {
        void run() throws Exception;
    }

    private IdleWaits() {
        super("idle-waits");
        setDaemon(true);
        start();
    }

    @Override
    public void run() {
        while (!ended) {
            for (Map.Entry<Thread, StackTraceElement[]> each : getAllStackTraces().entrySet()) {
                Thread thread = each.getKey();
                // the one that stops sleeps once: an interrupt that came late would end a join
                if (isIdle(each.getValue()) && !(thread == stopping && slept)) {
                    slept |= thread == stopping;
                    thread.interrupt();
                }
            }
            try {
                sleep(20);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** Whether the first frame that is not Java's own is one of those places, and sleeps there. */
    private static boolean isIdle(StackTraceElement[] frames) {
        boolean sleeps = false;
        boolean polls = false;
        for (StackTraceElement frame : frames) {
            String type = frame.getClassName();
            if (!type.startsWith("java.") && !type.startsWith("jdk.")) {
                String place = type.substring(type.lastIndexOf('.') + 1) + "."
                    + frame.getMethodName();
                return sleeps && SLEEPS.contains(place) || polls && place.equals(POLLS);
            }
            sleeps |= type.equals("java.lang.Thread") && frame.getMethodName().equals("sleep");
            polls |= type.endsWith("BlockingQueue") && frame.getMethodName().equals("poll");
        }
        return false;
    }

    /** Leaves the thread that was stopping without an interrupt. */
    @Override
    public void close() throws InterruptedException {
        ended = true;
        Thread.interrupted();
        join();
        Thread.interrupted();
    }
}
