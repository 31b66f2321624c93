package reput.judge;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.LinkedHashMap;
import java.util.Map;

/** Lets the real store make (or look over) its queues and index, and says how long it took. */
final class Derive {
    private Derive() {
    }

    /**
     * mode "crash" puts an abort file there first: recovery then checks and dispatches the whole
     * log by itself. mode "clean" removes it. mode "as-is" leaves the store as it was found.
     */
    static Map<String, Object> run(Job job) throws Exception {
        File abort = new File(job.text("store"), "abort");
        String mode = job.text("mode", "as-is");
        if (mode.equals("crash")) {
            abort.createNewFile();
        } else if (mode.equals("clean")) {
            abort.delete();
        }
        Stores stores = new Stores(job);
        stores.noDelayedDelivery();
        long begin = System.nanoTime();
        stores.open();
        Map<String, Object> result = new LinkedHashMap<>();
        if (!stores.store.load()) {
            // Whatever it then stumbled over, its recovery may have dispatched all there is.
            result.put("refused", true);
            result.put("dispatched", stores.dispatched.get());
            stores.stop(true);
            return result;
        }
        long loaded = System.nanoTime();
        long recovered = stores.dispatched.get();
        stores.store.start();
        stores.caughtUp(job.number("seconds", 600));
        long done = System.nanoTime();
        result.put("min_offset", stores.store.getMinPhyOffset());
        result.put("max_offset", stores.store.getMaxPhyOffset());
        stores.stop(job.flag("quick_stop", true));
        long stopped = System.nanoTime();
        result.put("dispatched_by_recovery", recovered);
        result.put("dispatched", stores.dispatched.get());
        result.put("load_seconds", (loaded - begin) / 1e9);
        result.put("work_seconds", (done - begin) / 1e9);
        result.put("stop_seconds", (stopped - done) / 1e9);
        result.put("process_seconds",
            (System.currentTimeMillis() - ManagementFactory.getRuntimeMXBean().getStartTime()) / 1e3);
        return result;
    }
}
