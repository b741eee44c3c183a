package leasehold.interop;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.redisson.api.RBucket;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;

/**
 * The verbs, each one call of Redisson's public API.
 *
 * <p>Every command takes a fresh lock object, as {@code redisson.getLock(name)} gives it: a lease given to one
 * command is not remembered by the next (Redisson remembers it in the object).
 */
final class Verbs {
    private final RedissonClient redisson;
    /** Clients of further servers. */
    private final List<RedissonClient> others;

    private final CounterVerbs counters;
    private final PermitVerbs permits;

    Verbs(RedissonClient redisson, List<RedissonClient> others) {
        this.redisson = redisson;
        this.others = others;
        this.counters = new CounterVerbs(redisson);
        this.permits = new PermitVerbs(redisson);
    }

    /**
     * {@code a+b}: the multi lock of a and b. {@code red:a}: the RedLock of a on all servers. {@code fenced:a}, {@code
     * spin:a}, {@code fair:a}, {@code read:a} and {@code write:a}: that lock, or that side of the read/write lock. Else
     * the plain lock.
     */
    private RLock lockOf(String name) {
        if (name.contains("+")) {
            return redisson.getMultiLock(
                    Arrays.stream(name.split("\\+")).map(redisson::getLock).toArray(RLock[]::new));
        }
        int colon = name.indexOf(':');
        String rest = name.substring(colon + 1);
        return switch (colon < 0 ? "" : name.substring(0, colon)) {
            case "red" -> redLockOf(rest);
            case "fenced" -> redisson.getFencedLock(rest);
            case "spin" -> redisson.getSpinLock(rest);
            case "fair" -> redisson.getFairLock(rest);
            case "read" -> redisson.getReadWriteLock(rest).readLock();
            case "write" -> redisson.getReadWriteLock(rest).writeLock();
            default -> redisson.getLock(name);
        };
    }

    private RLock redLockOf(String member) {
        Stream<RedissonClient> servers = Stream.concat(Stream.of(redisson), others.stream());
        return redisson.getRedLock(servers.map(server -> server.getLock(member)).toArray(RLock[]::new));
    }

    /** What a command does, on its thread; its value is the result text of the answer. */
    @FunctionalInterface
    interface Work {
        String run() throws Exception;
    }

    /** Checks the whole command before any of it runs. */
    Work bind(Command c) throws BadCommand {
        return switch (c.verb()) {
            case "lock" -> lock(c);
            case "trylock" -> trylock(c);
            case "unlock" -> onLock(c, lock -> {
                lock.unlock();
                return "";
            });
            case "force" -> onLock(c, lock -> "" + lock.forceUnlock());
            case "held" -> onLock(c, lock -> "" + lock.isHeldByThread(Thread.currentThread().getId()));
            case "locked" -> onLock(c, lock -> "" + lock.isLocked());
            case "ttl" -> onLock(c, lock -> "" + lock.remainTimeToLive());
            case "count" -> onLock(c, lock -> "" + lock.getHoldCount());
            case "sem-set", "sem-acquire", "sem-release", "sem-add", "sem-drain", "sem-available", "sem-try",
                    "sem-churn", "latch-set", "latch-down", "latch-count", "latch-delete", "latch-await" ->
                    counters.bind(c);
            case "permit-set", "permit-add", "permit-available", "permit-acquire", "permit-try", "permit-release",
                    "permit-churn" -> permits.bind(c);
            case "tokenlock" -> onLock(c, lock -> "" + ((RFencedLock) lock).lockAndGetToken());
            case "token" -> onLock(c, lock -> "" + ((RFencedLock) lock).getToken());
            case "increment" -> increment(c);
            case "contend" -> contend(c);
            case "get" -> get(c);
            case "set" -> set(c);
            case "time" -> onThread(c, () -> "" + System.currentTimeMillis());
            case "thread" -> onThread(c, () -> "" + Thread.currentThread().getId());
            default -> throw new BadCommand("unknown verb " + c.verb());
        };
    }

    private interface LockCall {
        String on(RLock lock) throws Exception;
    }

    private Work onLock(Command c, LockCall call) throws BadCommand {
        c.expect(1, 0, "T NAME");
        String name = c.args()[1];
        return () -> call.on(lockOf(name));
    }

    private static Work onThread(Command c, Work work) throws BadCommand {
        c.expect(0, 0, "T");
        return work;
    }

    private Work lock(Command c) throws BadCommand {
        c.expect(1, 1, "T NAME [leaseMs]");
        String name = c.args()[1];
        if (!c.has(2)) {
            return () -> {
                lockOf(name).lock();
                return "";
            };
        }
        long leaseMs = c.number(2, "leaseMs");
        return () -> {
            lockOf(name).lock(leaseMs, TimeUnit.MILLISECONDS);
            return "";
        };
    }

    private Work trylock(Command c) throws BadCommand {
        c.expect(2, 1, "T NAME waitMs [leaseMs]");
        String name = c.args()[1];
        long waitMs = c.number(2, "waitMs");
        if (!c.has(3)) {
            return () -> "" + lockOf(name).tryLock(waitMs, TimeUnit.MILLISECONDS);
        }
        long leaseMs = c.number(3, "leaseMs");
        return () -> "" + lockOf(name).tryLock(waitMs, leaseMs, TimeUnit.MILLISECONDS);
    }

    private Work increment(Command c) throws BadCommand {
        c.expect(3, 1, "T NAME COUNTER N [holdMicros]");
        String name = c.args()[1];
        String counter = c.args()[2];
        long rounds = c.number(3, "N");
        long holdMicros = c.has(4) ? c.number(4, "holdMicros") : 0;
        return () -> {
            long start = System.nanoTime();
            for (long done = 0; done < rounds; done++) {
                try {
                    incrementOnce(name, counter, holdMicros);
                } catch (Exception e) {
                    throw new IncrementFailed(done, e);
                }
            }
            return rounds + " " + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
        };
    }

    /** Read, wait, write: two holders at once lose an update. INCR would hide that. */
    private void incrementOnce(String name, String counter, long holdMicros) {
        RLock lock = lockOf(name);
        lock.lock();
        try {
            RBucket<String> bucket = bucket(counter);
            String old = bucket.get();
            LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(holdMicros));
            bucket.set(Long.toString(old == null ? 1 : Long.parseLong(old) + 1));
        } finally {
            lock.unlock();
        }
    }

    private Work contend(Command c) throws BadCommand {
        c.expect(3, 0, "T NAME runMs holdMicros");
        String name = c.args()[1];
        long runNanos = TimeUnit.MILLISECONDS.toNanos(c.number(2, "runMs"));
        long holdMicros = c.number(3, "holdMicros");
        return () -> {
            List<Long> waits = new ArrayList<>();
            long start = System.nanoTime();
            while (System.nanoTime() - start < runNanos) {
                waits.add(holdOnce(name, holdMicros));
            }
            return waits.size() + " " + waits.stream().map(String::valueOf).collect(Collectors.joining(","));
        };
    }

    /** How long it waited for the lock, in microseconds. */
    private long holdOnce(String name, long holdMicros) {
        RLock lock = lockOf(name);
        long asked = System.nanoTime();
        lock.lock();
        try {
            long waited = System.nanoTime() - asked;
            LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(holdMicros));
            return TimeUnit.NANOSECONDS.toMicros(waited);
        } finally {
            lock.unlock();
        }
    }

    private Work get(Command c) throws BadCommand {
        c.expect(1, 0, "T KEY");
        String key = c.args()[1];
        return () -> {
            String value = bucket(key).get();
            return value == null ? "nil" : value;
        };
    }

    private Work set(Command c) throws BadCommand {
        c.expect(2, Integer.MAX_VALUE - 2, "T KEY VALUE");
        String key = c.args()[1];
        String value = c.after(2);
        return () -> {
            bucket(key).set(value);
            return "";
        };
    }

    private RBucket<String> bucket(String key) {
        return redisson.getBucket(key, StringCodec.INSTANCE);
    }

    /** Some rounds succeeded: the message says how many, so that a test can still compare the counter. */
    private static final class IncrementFailed extends Exception {
        private static final long serialVersionUID = 1L;

        IncrementFailed(long done, Exception cause) {
            super("done " + done, cause);
        }
    }
}
