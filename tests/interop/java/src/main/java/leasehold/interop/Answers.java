package leasehold.interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/**
 * The answer lines. Each is one {@code write}, so a JVM that halts in between leaves whole lines
 * (on a pipe, up to PIPE_BUF bytes), and is never buffered.
 */
final class Answers {
    private final FileOutputStream stdout = new FileOutputStream(FileDescriptor.out);

    private Answers() {
    }

    /** Takes stdout for itself; whatever else in this JVM prints goes to stderr from now on. */
    static Answers takeStdout() {
        System.setOut(System.err);
        return new Answers();
    }

    void ready(String clientId) {
        write("ready " + clientId);
    }

    /** The time is taken on the calling thread, before it waits for its turn to write. */
    void ok(String id, String result) {
        long micros = nowMicros();
        write(id + " ok " + (result.isEmpty() ? "" : oneLine(result) + " ") + "at=" + micros);
    }

    void err(String id, Throwable e) {
        write(id + " err " + e.getClass().getSimpleName() + " " + clip(oneLine(story(e))));
    }

    private synchronized void write(String line) {
        try {
            stdout.write((line + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException e) {
            // Nobody reads us any more: the same as the end of stdin.
            Runtime.getRuntime().halt(EXIT_NOBODY_READS);
        }
    }

    /** The message with its causes: Redisson wraps what a script said ("Unexpected exception while processing command"). */
    private static String story(Throwable e) {
        StringBuilder story = new StringBuilder(String.valueOf(e.getMessage()));
        for (Throwable cause = e.getCause(); cause != null; cause = cause.getCause()) {
            story.append(" | cause ").append(cause.getClass().getSimpleName()).append(": ").append(cause.getMessage());
        }
        return story.toString();
    }

    private static String oneLine(String text) {
        return text.replaceAll("[\\r\\n]+", " ");
    }

    private static String clip(String text) {
        return text.length() <= MESSAGE_CHARS ? text : text.substring(0, MESSAGE_CHARS) + "...";
    }

    private static long nowMicros() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
    }

    /** Up to 3 bytes a char, so an error line stays below PIPE_BUF (4096). */
    private static final int MESSAGE_CHARS = 1_000;
    private static final int EXIT_NOBODY_READS = 9;
}
