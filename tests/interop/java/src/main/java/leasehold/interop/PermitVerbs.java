package leasehold.interop;

import java.util.concurrent.TimeUnit;

import org.redisson.api.RAtomicLong;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** The verbs of semaphores whose permits expire, each one call of Redisson's public API. */
final class PermitVerbs {
    /** Redisson's word for a permit that ends by its release only. */
    private static final long NO_LEASE = -1;

    private final RedissonClient redisson;

    PermitVerbs(RedissonClient redisson) {
        this.redisson = redisson;
    }

    private interface Call {
        String on(RPermitExpirableSemaphore semaphore) throws Exception;
    }

    Verbs.Work bind(Command c) throws BadCommand {
        return switch (c.verb()) {
            case "permit-set" -> withNumber(c, (semaphore, n) -> "" + semaphore.trySetPermits(n));
            case "permit-add" -> withNumber(c, (semaphore, n) -> {
                semaphore.addPermits(n);
                return "";
            });
            case "permit-available" -> {
                c.expect(1, 0, "T NAME");
                yield on(c, semaphore -> "" + semaphore.availablePermits());
            }
            case "permit-acquire" -> acquire(c);
            case "permit-try" -> tryAcquire(c);
            case "permit-release" -> {
                c.expect(2, 0, "T NAME ID");
                String id = c.args()[2];
                yield on(c, semaphore -> "" + semaphore.tryRelease(id));
            }
            case "permit-churn" -> churn(c);
            default -> throw new BadCommand("unknown verb " + c.verb());
        };
    }

    private Verbs.Work on(Command c, Call call) {
        String name = c.args()[1];
        return () -> call.on(redisson.getPermitExpirableSemaphore(name));
    }

    private interface NumberCall {
        String on(RPermitExpirableSemaphore semaphore, int number) throws Exception;
    }

    private Verbs.Work withNumber(Command c, NumberCall call) throws BadCommand {
        c.expect(2, 0, "T NAME N");
        int number = (int) c.number(2, "N");
        return on(c, semaphore -> call.on(semaphore, number));
    }

    private Verbs.Work acquire(Command c) throws BadCommand {
        c.expect(2, 1, "T NAME N [leaseMs]");
        int number = (int) c.number(2, "N");
        long leaseMs = c.has(3) ? c.number(3, "leaseMs") : NO_LEASE;
        return on(c, semaphore -> leaseMs == NO_LEASE
                ? String.join(",", semaphore.acquire(number))
                : String.join(",", semaphore.acquire(number, leaseMs, TimeUnit.MILLISECONDS)));
    }

    private Verbs.Work tryAcquire(Command c) throws BadCommand {
        c.expect(3, 0, "T NAME waitMs leaseMs");
        long waitMs = c.number(2, "waitMs");
        long leaseMs = c.number(3, "leaseMs");
        return on(c, semaphore -> "" + semaphore.tryAcquire(waitMs, leaseMs, TimeUnit.MILLISECONDS));
    }

    /** Takes a permit and gives it back, for so long. Counts who is inside in a number that others count in, too. */
    private Verbs.Work churn(Command c) throws BadCommand {
        c.expect(3, 0, "T NAME INSIDE runMs");
        String counter = c.args()[2];
        long runMs = c.number(3, "runMs");
        return on(c, semaphore -> {
            RAtomicLong inside = redisson.getAtomicLong(counter);
            long rounds = 0;
            long most = 0;
            for (long end = System.nanoTime() + runMs * 1_000_000; System.nanoTime() < end; rounds++) {
                String id = semaphore.acquire(60, TimeUnit.SECONDS);
                most = Math.max(most, inside.incrementAndGet());
                inside.decrementAndGet();
                semaphore.release(id);
            }
            return rounds + " " + most;
        });
    }
}
