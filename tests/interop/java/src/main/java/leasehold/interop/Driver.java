package leasehold.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;

/**
 * A live Redisson, driven one command a line over stdin; README.md of this project has the protocol.
 *
 * <p>It reports what Redisson did and decides nothing itself: no retry, no repair, no release of what a test left held.
 * The end of stdin ends the JVM at once, so a test that dies does not leave a JVM renewing its locks.
 */
public final class Driver {
    private final RedissonClient redisson;
    private final Answers answers;
    private final Workers workers = new Workers();
    private final Verbs verbs;

    public static void main(String[] args) {
        // Before anything can print: a library's stray line must not become an answer.
        Answers answers = Answers.takeStdout();
        Options options;
        try {
            options = Options.parse(args);
        } catch (BadCommand e) {
            System.err.println(e.getMessage() + "\n" + Options.USAGE);
            Runtime.getRuntime().halt(EXIT_USAGE);
            return;
        }
        try {
            Driver driver = new Driver(Redisson.create(options.config()),
                    options.alsoConfigs().stream().map(Redisson::create).toList(), answers);
            answers.ready(driver.redisson.getId());
            driver.run();
        } catch (Throwable e) {
            e.printStackTrace();
            // Redisson's threads are no daemons: returning would leave a JVM that answers nobody.
            Runtime.getRuntime().halt(EXIT_FAILED);
        }
    }

    private Driver(RedissonClient redisson, List<RedissonClient> others, Answers answers) {
        this.redisson = redisson;
        this.answers = answers;
        this.verbs = new Verbs(redisson, others);
    }

    private void run() throws IOException {
        BufferedReader stdin = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = stdin.readLine()) != null; ) {
            obey(line);
        }
        die();
    }

    private void obey(String line) {
        Command command;
        Verbs.Work work;
        try {
            command = Command.parse(line);
            switch (command.verb()) {
                case "halt" -> {
                    die();
                    return;
                }
                case "exit" -> {
                    leave(command);
                    return;
                }
                default -> work = verbs.bind(command);
            }
        } catch (BadCommand e) {
            answers.err(Command.idOf(line), e);
            return;
        }
        workers.on(command.thread()).execute(() -> {
            try {
                answers.ok(command.id(), work.run());
            } catch (Throwable e) {
                answers.err(command.id(), e);
            }
        });
    }

    /** Lets running commands end (bounded), closes Redisson, answers, exits. Held locks stay, with their TTL. */
    private void leave(Command command) {
        boolean idle = workers.finish(EXIT_WAIT_MS);
        redisson.shutdown();
        answers.ok(command.id(), idle ? "idle" : "busy");
        Runtime.getRuntime().halt(EXIT_OK);
    }

    /** Like kill -9 as far as Redis can see: no unlock, no shutdown hook. */
    private static void die() {
        Runtime.getRuntime().halt(EXIT_HALTED);
    }

    private static final int EXIT_OK = 0;
    private static final int EXIT_FAILED = 1;
    private static final int EXIT_USAGE = 2;
    private static final int EXIT_HALTED = 9;
    /** A command that waits for a lock nobody releases must not keep {@code exit} from exiting. */
    private static final long EXIT_WAIT_MS = 2_000;
}
