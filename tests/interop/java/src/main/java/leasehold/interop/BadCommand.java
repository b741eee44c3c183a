package leasehold.interop;

/** The caller wrote something that is no command (or no option). Nothing was done. */
final class BadCommand extends Exception {
    private static final long serialVersionUID = 1L;

    BadCommand(String message) {
        super(message);
    }
}
