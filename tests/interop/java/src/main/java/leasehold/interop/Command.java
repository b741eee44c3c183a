package leasehold.interop;

/**
 * One line of stdin, {@code ID VERB ARGS...}, split at white space. The first argument names the thread.
 *
 * @param rest the argument text as written, for the one argument that may contain spaces
 */
record Command(String id, String verb, String[] args, String rest) {
    static Command parse(String line) throws BadCommand {
        String[] parts = line.strip().split("\\s+", 3);
        if (parts.length < 2) {
            throw new BadCommand("a command is: ID VERB ARGS...");
        }
        String rest = parts.length == 3 ? parts[2] : "";
        return new Command(parts[0], parts[1], rest.isEmpty() ? new String[0] : rest.split("\\s+"), rest);
    }

    /** The id to answer to, even of a line that is no command; {@code -} for a blank one. */
    static String idOf(String line) {
        String first = line.strip().split("\\s+", 2)[0];
        return first.isEmpty() ? "-" : first;
    }

    static long number(String name, String text) throws BadCommand {
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException e) {
            throw new BadCommand(name + " must be a whole number, not " + text);
        }
    }

    String thread() {
        return args[0];
    }

    /** Only the thread and {@code more} arguments, no fewer; at most {@code optional} above that. */
    void expect(int more, int optional, String usage) throws BadCommand {
        int given = args.length - 1;
        if (given < more || given > more + optional) {
            throw new BadCommand("expected: " + verb + " " + usage);
        }
    }

    long number(int index, String name) throws BadCommand {
        return number(name, args[index]);
    }

    boolean has(int index) {
        return index < args.length;
    }

    /** What follows the first {@code words} words of the arguments, as it was written. */
    String after(int words) {
        String[] parts = rest.split("\\s+", words + 1);
        return parts.length > words ? parts[words] : "";
    }
}
