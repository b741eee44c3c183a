package leasehold.interop;

import java.util.ArrayList;
import java.util.List;

import org.redisson.config.Config;
import org.redisson.config.ReadMode;

/** The command line: where Redis is and how Redisson shall see it. All not named here is Redisson's default. */
record Options(List<String> urls, List<String> alsoUrls, String topology, String master, long watchdogMs) {
    static final String USAGE = """
            usage: --url redis://HOST:PORT [--url ...] [--watchdog-ms N (default 30000)]
                   [--topology single|sentinel|cluster (default single)] [--master NAME (sentinel)]
                   [--also-url redis://HOST:PORT ... (further single servers of a RedLock)]""";

    static Options parse(String[] args) throws BadCommand {
        List<String> urls = new ArrayList<>();
        List<String> alsoUrls = new ArrayList<>();
        String topology = "single";
        String master = null;
        long watchdogMs = 30_000;
        for (int i = 0; i < args.length; i += 2) {
            String value = i + 1 < args.length ? args[i + 1] : null;
            if (value == null) {
                throw new BadCommand(args[i] + " needs a value");
            }
            switch (args[i]) {
                case "--url" -> urls.add(value);
                case "--also-url" -> alsoUrls.add(value);
                case "--topology" -> topology = value;
                case "--master" -> master = value;
                case "--watchdog-ms" -> watchdogMs = Command.number("--watchdog-ms", value);
                default -> throw new BadCommand("unknown option " + args[i]);
            }
        }
        return new Options(List.copyOf(urls), List.copyOf(alsoUrls), topology, master, watchdogMs).checked();
    }

    private Options checked() throws BadCommand {
        require(!urls.isEmpty(), "--url is missing");
        require(List.of("single", "sentinel", "cluster").contains(topology), "unknown topology " + topology);
        require(!topology.equals("single") || urls.size() == 1, "single takes one --url");
        require(topology.equals("sentinel") == (master != null), "--master belongs to sentinel, and sentinel needs it");
        require(watchdogMs > 0, "--watchdog-ms must be above 0");
        return this;
    }

    /** One more client for each further server. */
    List<Config> alsoConfigs() {
        return alsoUrls.stream().map(url -> {
            Config config = new Config();
            config.setLockWatchdogTimeout(watchdogMs);
            config.useSingleServer().setAddress(url);
            return config;
        }).toList();
    }

    private static void require(boolean fine, String otherwise) throws BadCommand {
        if (!fine) {
            throw new BadCommand(otherwise);
        }
    }

    Config config() {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        String[] nodes = urls.toArray(String[]::new);
        switch (topology) {
            // A replica is behind, and an old counter looks like a lost update: reads go to the master, too.
            case "sentinel" -> config.useSentinelServers().setMasterName(master).addSentinelAddress(nodes)
                    .setReadMode(ReadMode.MASTER)
                    // A test may well run one sentinel; Redisson would refuse to start with fewer than two.
                    .setCheckSentinelsList(false);
            case "cluster" -> config.useClusterServers().addNodeAddress(nodes).setReadMode(ReadMode.MASTER);
            default -> config.useSingleServer().setAddress(nodes[0]);
        }
        return config;
    }
}
