package leasehold.interop;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * One long-lived Java thread a name: Redisson's lock owner is {@code clientId:Thread.getId()}.
 *
 * <p>Commands of one name run one after the other in the order read; those of different names run at once.
 * Only the reader of stdin calls this, so it needs no lock.
 */
final class Workers {
    private final Map<String, ExecutorService> byName = new HashMap<>();

    ExecutorService on(String name) {
        // A fixed pool of one, not newSingleThreadExecutor's restart semantics: work never throws out of its thread.
        return byName.computeIfAbsent(name, n -> Executors.newFixedThreadPool(1, work -> new Thread(work, n)));
    }

    /** Waits until all given work is done, at most {@code waitMs} in total; false if some still runs. */
    boolean finish(long waitMs) {
        byName.values().forEach(ExecutorService::shutdown);
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs);
        try {
            for (ExecutorService worker : byName.values()) {
                if (!worker.awaitTermination(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)) {
                    return false;
                }
            }
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}
