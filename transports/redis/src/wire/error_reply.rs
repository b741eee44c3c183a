//! Maps errors of a server or of fred to what a caller can do. Pure.
//!
//! Two kinds are kept apart. A *refusal* is an error reply to exactly this request. The tables below list the
//! refusals that prove that the request was not executed; a text that is not listed proves nothing. A *failure* is
//! everything else (no answer, a lost connection, an error of fred itself), and never proves anything.
//!
//! A cluster node looks for `CLUSTERDOWN` before it executes a command, so that refusal proves it too.

use leasehold::transport::{ErrorKind, TransportError};

use super::shown::shown;

/// A refusal that proves that the request was not executed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorReply {
    /// The code or phrase in the table that matched.
    pub(crate) code: &'static str,
    pub(crate) kind: ErrorKind,
    pub(crate) remedy: &'static str,
}

/// Looks up a server's error text. `None`: the text proves nothing.
pub(crate) fn refusal(text: &str) -> Option<ErrorReply> {
    let bare = without_script_position(text);
    let code = bare.split(' ').next().unwrap_or_default();
    let by_code = || BY_CODE.iter().find(|row| row.0 == code);
    let by_phrase = || BY_PHRASE.iter().find(|row| bare.contains(row.0));
    let &(code, kind, remedy) = by_code().or_else(by_phrase)?;
    Some(ErrorReply { code, kind, remedy })
}

/// Returns the caller's error for a refusal that proves that the request was not executed.
pub(crate) fn refused(address: &str, refusal: ErrorReply, text: &str) -> TransportError {
    let detail = format!("redis {address} refused: {}; {}", shown(text), refusal.remedy);
    TransportError::without_effect(refusal.kind, None, detail)
}

/// Returns the error for a refused login. Its text may repeat the password anywhere, so only the matching phrase of
/// the table is shown.
pub(crate) fn refused_login(address: &str, text: &str, credentials: &str) -> TransportError {
    let unknown = ErrorReply { code: "unknown error text", kind: ErrorKind::NotReady, remedy: "see its log" };
    let ErrorReply { code, kind, remedy } = login_refusal(text).or(refusal(text)).unwrap_or(unknown);
    let detail = format!("redis {address} refused the login ({credentials}): {code}; {remedy}");
    TransportError::without_effect(kind, None, detail)
}

fn login_refusal(text: &str) -> Option<ErrorReply> {
    let row = LOGIN.iter().find(|row| text.contains(row.0))?;
    Some(ErrorReply { code: row.0, kind: row.1, remedy: row.2 })
}

/// Redis 6.2 puts the position in the script, and a dash, before an error text that a `pcall` has caught.
fn without_script_position(text: &str) -> &str {
    let behind = text.strip_prefix("@user_script:").and_then(|rest| rest.split_once(": "));
    let bare = behind.map_or(text, |(_, rest)| rest);
    bare.trim_start_matches('-').trim()
}

type Row = (&'static str, ErrorKind, &'static str);

/// By the first word of the text.
const BY_CODE: &[Row] = &[
    ("NOSCRIPT", ErrorKind::NotReady, "the script is sent again with the next request"),
    ("LOADING", ErrorKind::NotReady, "wait until the server has loaded its data"),
    ("BUSY", ErrorKind::NotReady, "a script is running for too long on the server; see SCRIPT KILL"),
    ("UNKILLABLE", ErrorKind::NotReady, "a script is running for too long on the server"),
    ("READONLY", ErrorKind::NotReady, "this server is a replica; point `addresses` at the master"),
    ("MASTERDOWN", ErrorKind::NotReady, "this server is a replica without its master; see INFO replication"),
    ("MISCONF", ErrorKind::NotReady, "the server cannot write its snapshot; look at its disk and its log"),
    ("NOREPLICAS", ErrorKind::NotReady, "too few replicas are connected; see min-replicas-to-write"),
    ("OOM", ErrorKind::NotReady, "the server is out of memory; see maxmemory and maxmemory-policy"),
    ("CLUSTERDOWN", ErrorKind::NotReady, "the cluster is down; see CLUSTER INFO"),
    ("TRYAGAIN", ErrorKind::NotReady, "a slot is being moved; ask again"),
    ("ASK", ErrorKind::NotReady, "a slot is being moved; ask again"),
    (
        "MOVED",
        ErrorKind::Misconfigured,
        "this server is part of a cluster, which the topology `single` cannot use",
    ),
    (
        "CROSSSLOT",
        ErrorKind::Misconfigured,
        "this server is part of a cluster, which the topology `single` cannot use",
    ),
    ("NOEXPIRY", ErrorKind::NotReady, "the hold was taken back"),
    ("NOAUTH", ErrorKind::Denied, "set `password` (and `username`)"),
    ("WRONGPASS", ErrorKind::Denied, "correct `username` and `password`"),
    ("NOPERM", ErrorKind::Denied, "grant the rights that the README of leasehold-redis lists"),
    (
        "DENIED",
        ErrorKind::Denied,
        "the server is in protected mode: give it a password, or bind it to other addresses",
    ),
    (
        "WRONGTOKEN",
        ErrorKind::WrongType,
        "the key of the lock's token counter holds something else; delete that key or use another name",
    ),
    ("NOTOKEN", ErrorKind::WrongType, "ask again; and let nobody delete the token counter of a fenced lock"),
    ("WRONGTYPE", ErrorKind::WrongType, "the key holds something else; use another name"),
];

/// By a phrase anywhere in the text.
const BY_PHRASE: &[Row] = &[
    // Inside scripts. The first phrase is used before 7.0, for a command, a key or a channel, the second one since.
    (
        "The user executing the script can't",
        ErrorKind::Denied,
        "grant the rights that the README of leasehold-redis lists",
    ),
    ("ACL failure in script", ErrorKind::Denied, "grant the rights that the README of leasehold-redis lists"),
    ("max number of clients reached", ErrorKind::NotReady, "see maxclients"),
    ("access a non local key in a cluster node", ErrorKind::NotReady, "a slot is being moved; ask again"),
    // `CLUSTERDOWN` inside a script.
    ("while the cluster is down", ErrorKind::NotReady, "see CLUSTER INFO"),
    (
        "unknown command",
        ErrorKind::Misconfigured,
        "the server must offer EVAL, EVALSHA and TIME; see rename-command",
    ),
    (
        "Unknown Redis command called from script",
        ErrorKind::Misconfigured,
        "a command was renamed; see rename-command",
    ),
    ("DB index is out of range", ErrorKind::Misconfigured, "correct `database`"),
    ("invalid DB index", ErrorKind::Misconfigured, "correct `database`"),
    ("SELECT is not allowed in cluster mode", ErrorKind::Misconfigured, "set `database` to 0"),
    (
        "cluster support disabled",
        ErrorKind::Misconfigured,
        "this server is no node of a cluster; set topology = \"single\", or write redis:// in place of redis-cluster://",
    ),
];

const NO_PASSWORD: &str =
    "the server has no password; leave the password out, or give the server one (requirepass)";

/// By a phrase anywhere in the text of a refused login.
const LOGIN: &[Row] = &[
    (
        "unknown command",
        ErrorKind::Misconfigured,
        "the server does not know AUTH (see rename-command); let it offer AUTH, or leave the password out",
    ),
    ("invalid password", ErrorKind::Denied, "correct the password"),
    ("without any password configured", ErrorKind::Misconfigured, NO_PASSWORD),
    ("no password is set", ErrorKind::Misconfigured, NO_PASSWORD),
    (
        "wrong number of arguments",
        ErrorKind::Misconfigured,
        "the server knows no users; leave the user name out",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Option<ErrorKind> {
        refusal(text).map(|refusal| refusal.kind)
    }

    #[test]
    fn texts_that_prove_that_nothing_was_executed() {
        for (text, expected) in [
            ("NOSCRIPT No matching script. Please use EVAL.", ErrorKind::NotReady),
            ("LOADING Redis is loading the dataset in memory", ErrorKind::NotReady),
            (
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                ErrorKind::NotReady,
            ),
            (
                "UNKILLABLE Sorry the script already executed write commands against the dataset.",
                ErrorKind::NotReady,
            ),
            ("READONLY You can't write against a read only replica.", ErrorKind::NotReady),
            (
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                ErrorKind::NotReady,
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
                ErrorKind::NotReady,
            ),
            ("NOREPLICAS Not enough good replicas to write.", ErrorKind::NotReady),
            ("OOM command not allowed when used memory > 'maxmemory'.", ErrorKind::NotReady),
            (
                "@user_script: 40: -OOM command not allowed when used memory > 'maxmemory'.",
                ErrorKind::NotReady,
            ),
            ("CLUSTERDOWN The cluster is down", ErrorKind::NotReady),
            ("CLUSTERDOWN Hash slot not served", ErrorKind::NotReady),
            ("TRYAGAIN Multiple keys request during rehashing of slot", ErrorKind::NotReady),
            ("ASK 3999 127.0.0.1:6381", ErrorKind::NotReady),
            ("MOVED 3999 127.0.0.1:6381", ErrorKind::Misconfigured),
            ("CROSSSLOT Keys in request don't hash to the same slot", ErrorKind::Misconfigured),
            ("ERR max number of clients reached", ErrorKind::NotReady),
            ("ERR Script attempted to access a non local key in a cluster node", ErrorKind::NotReady),
            ("NOAUTH Authentication required.", ErrorKind::Denied),
            ("WRONGPASS invalid username-password pair or user is disabled.", ErrorKind::Denied),
            ("NOPERM this user has no permissions to run the 'evalsha' command", ErrorKind::Denied),
            (
                "NOPERM this user has no permission to run the 'hdel' command on the lock's key",
                ErrorKind::Denied,
            ),
            ("ERR The user executing the script can't run this command or subcommand", ErrorKind::Denied),
            (
                "@user_script: 17: The user executing the script can't run this command or subcommand",
                ErrorKind::Denied,
            ),
            (
                "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments",
                ErrorKind::Denied,
            ),
            (
                "ERR ACL failure in script: User ours has no permissions to run the 'time' command",
                ErrorKind::Denied,
            ),
            ("ERR Script attempted to execute a command while the cluster is down", ErrorKind::NotReady),
            (
                "ERR Script attempted to execute a write command while the cluster is down and readonly",
                ErrorKind::NotReady,
            ),
            (
                "DENIED Redis is running in protected mode because protected mode is enabled",
                ErrorKind::Denied,
            ),
            ("-DENIED Redis is running in protected mode", ErrorKind::Denied),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", ErrorKind::WrongType),
            ("WRONGTOKEN the token counter holds \"x\", which cannot be counted up", ErrorKind::WrongType),
            ("NOTOKEN the lock is held, but its token counter is gone", ErrorKind::WrongType),
            ("ERR unknown command 'EVALSHA', with args beginning with: ", ErrorKind::Misconfigured),
            ("ERR DB index is out of range", ErrorKind::Misconfigured),
            ("ERR This instance has cluster support disabled", ErrorKind::Misconfigured),
            ("NOEXPIRY the server did not set an expiry on the lock's key", ErrorKind::NotReady),
        ] {
            assert_eq!(kind(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn any_other_text_proves_nothing() {
        for text in [
            "",
            "ERR Error running script (call to f_2b): @user_script:9: something else",
            "ERR Script killed by user with SCRIPT KILL.",
            "ERR value is not an integer or out of range",
            "Connection closed.",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    #[test]
    fn every_remedy_reaches_the_reader() {
        let text = "OOM command not allowed when used memory > 'maxmemory'.";
        let error = refused("cache:6379", refusal(text).unwrap(), text);
        assert!(error.to_string().contains("cache:6379") && error.to_string().contains("maxmemory-policy"));
    }
}
