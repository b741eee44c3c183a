package leasehold.interop;

import java.util.concurrent.TimeUnit;

import org.redisson.api.RCountDownLatch;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The verbs of semaphores and latches, each one call of Redisson's public API. */
final class CounterVerbs {
    private final RedissonClient redisson;

    CounterVerbs(RedissonClient redisson) {
        this.redisson = redisson;
    }

    private interface SemaphoreCall {
        String on(RSemaphore semaphore, int number) throws Exception;
    }

    private interface LatchCall {
        String on(RCountDownLatch latch) throws Exception;
    }

    Verbs.Work bind(Command c) throws BadCommand {
        return switch (c.verb()) {
            case "sem-set" -> onSemaphore(c, (semaphore, n) -> "" + semaphore.trySetPermits(n));
            case "sem-acquire" -> onSemaphore(c, (semaphore, n) -> {
                semaphore.acquire(n);
                return "";
            });
            case "sem-release" -> onSemaphore(c, (semaphore, n) -> {
                semaphore.release(n);
                return "";
            });
            case "sem-add" -> onSemaphore(c, (semaphore, n) -> {
                semaphore.addPermits(n);
                return "";
            });
            case "sem-try" -> tryAcquire(c);
            case "sem-churn" -> onSemaphore(c, CounterVerbs::churn);
            case "sem-drain" -> named(c, name -> "" + redisson.getSemaphore(name).drainPermits());
            case "sem-available" -> named(c, name -> "" + redisson.getSemaphore(name).availablePermits());
            case "latch-set" -> latchSet(c);
            case "latch-down" -> onLatch(c, latch -> {
                latch.countDown();
                return "";
            });
            case "latch-count" -> onLatch(c, latch -> "" + latch.getCount());
            case "latch-delete" -> onLatch(c, latch -> "" + latch.delete());
            case "latch-await" -> latchAwait(c);
            default -> throw new BadCommand("unknown verb " + c.verb());
        };
    }

    private interface NamedCall {
        String on(String name) throws Exception;
    }

    private static Verbs.Work named(Command c, NamedCall call) throws BadCommand {
        c.expect(1, 0, "T NAME");
        String name = c.args()[1];
        return () -> call.on(name);
    }

    private Verbs.Work onLatch(Command c, LatchCall call) throws BadCommand {
        return named(c, name -> call.on(redisson.getCountDownLatch(name)));
    }

    private Verbs.Work onSemaphore(Command c, SemaphoreCall call) throws BadCommand {
        c.expect(2, 0, "T NAME N");
        String name = c.args()[1];
        int number = (int) c.number(2, "N");
        return () -> call.on(redisson.getSemaphore(name), number);
    }

    /** Takes a permit and gives it back, so many times. */
    private static String churn(RSemaphore semaphore, int rounds) throws Exception {
        for (int round = 0; round < rounds; round++) {
            semaphore.acquire();
            semaphore.release();
        }
        return "";
    }

    private Verbs.Work tryAcquire(Command c) throws BadCommand {
        c.expect(3, 0, "T NAME N waitMs");
        String name = c.args()[1];
        int number = (int) c.number(2, "N");
        long waitMs = c.number(3, "waitMs");
        return () -> "" + redisson.getSemaphore(name).tryAcquire(number, waitMs, TimeUnit.MILLISECONDS);
    }

    private Verbs.Work latchSet(Command c) throws BadCommand {
        c.expect(2, 0, "T NAME N");
        String name = c.args()[1];
        long count = c.number(2, "N");
        return () -> "" + redisson.getCountDownLatch(name).trySetCount(count);
    }

    private Verbs.Work latchAwait(Command c) throws BadCommand {
        c.expect(1, 1, "T NAME [waitMs]");
        String name = c.args()[1];
        if (!c.has(2)) {
            return () -> {
                redisson.getCountDownLatch(name).await();
                return "";
            };
        }
        long waitMs = c.number(2, "waitMs");
        return () -> "" + redisson.getCountDownLatch(name).await(waitMs, TimeUnit.MILLISECONDS);
    }
}
