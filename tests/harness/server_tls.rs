//! How a server is to speak TLS, and TLS alone.

use std::ffi::OsString;

use crate::harness::certificates::{Certificates, Identity};

/// What a server shows and what it asks for. Its plain port is closed; the harness asks it through a socket file.
#[derive(Clone, Debug)]
pub struct ServerTls {
    certificates: Certificates,
    identity: Identity,
    asks_clients: bool,
}

impl ServerTls {
    /// With the certificate that is to be accepted, and no client is asked for one.
    pub fn new(certificates: &Certificates) -> Self {
        Self { certificates: certificates.clone(), identity: Identity::Server, asks_clients: false }
    }

    /// With another certificate. Replicas, sentinels and nodes of a cluster refuse each other an expired or a strange one,
    /// but do not look at its names.
    #[must_use]
    pub fn identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Clients without a certificate of the known authority are refused.
    #[must_use]
    pub fn asks_clients(self) -> Self {
        Self { asks_clients: true, ..self }
    }

    /// Also towards its master, the sentinels and the other nodes.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let (certificate, key) =
            (self.certificates.certificate(self.identity), self.certificates.key(self.identity));
        let files = [
            ("--tls-cert-file", certificate),
            ("--tls-key-file", key),
            ("--tls-ca-cert-file", self.certificates.authority()),
        ];
        let asks = if self.asks_clients { "yes" } else { "no" };
        let words = ["--tls-auth-clients", asks, "--tls-replication", "yes", "--tls-cluster", "yes"];
        let files = files.into_iter().flat_map(|(name, path)| [name.into(), path.into()]);
        files.chain(words.map(OsString::from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;
    use crate::harness::cluster::RedisCluster;
    use crate::harness::node::Node;
    use crate::harness::raw_client::RawClient;
    use crate::harness::redis_server::RedisServer;
    use crate::harness::sentinel::RedisSentinel;

    /// What `redis-cli`, which comes with Debian's server, hears through TLS. It trusts that file, or everybody, and does
    /// not look at names.
    fn ping(port: u16, trusts: Option<PathBuf>, shows: Option<(&Certificates, Identity)>) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["--tls", "-h", "127.0.0.1", "-p", &port.to_string()]);
        match trusts {
            Some(authority) => command.arg("--cacert").arg(authority),
            None => command.arg("--insecure"),
        };
        if let Some((certificates, identity)) = shows {
            command.arg("--cert").arg(certificates.certificate(identity));
            command.arg("--key").arg(certificates.key(identity));
        }
        let said = command.arg("PING").output().expect("redis-cli: apt-get install redis-tools");
        let said = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).trim().to_owned());
        said.concat()
    }

    fn started(tls: ServerTls) -> RedisServer {
        RedisServer::builder().tls(&tls).start().expect("a server")
    }

    #[test]
    fn a_server_with_tls_has_no_plain_port_and_refuses_clients_it_does_not_know() {
        let certificates = Certificates::new().expect("certificates");
        let authority = || Some(certificates.authority());
        let open = started(ServerTls::new(&certificates));
        assert_eq!(ping(open.port(), authority(), None), "PONG");
        let plain = RawClient::connect(open.port()).and_then(|mut client| client.command(&["PING"]));
        assert!(plain.is_err(), "{plain:?}");
        let strict = started(ServerTls::new(&certificates).asks_clients());
        let shown = |identity| ping(strict.port(), authority(), Some((&certificates, identity)));
        assert_eq!(shown(Identity::Client), "PONG");
        assert_ne!(shown(Identity::StrangeClient), "PONG");
        assert_ne!(ping(strict.port(), authority(), None), "PONG");
    }

    #[test]
    fn a_server_shows_the_identity_it_is_told_to() {
        let certificates = Certificates::new().expect("certificates");
        let (known, unknown) = (certificates.authority(), certificates.unknown_authority());
        let cases = [
            (Identity::Server, Some(&known), None),
            (Identity::ServerElsewhere, Some(&known), None),
            (Identity::StrangeServer, Some(&unknown), Some(&known)),
            (Identity::ExpiredServer, None, Some(&known)),
        ];
        for (identity, accepting, refusing) in cases {
            let server = started(ServerTls::new(&certificates).identity(identity));
            assert_eq!(ping(server.port(), accepting.cloned(), None), "PONG", "{identity:?}");
            if let Some(refusing) = refusing {
                let heard = ping(server.port(), Some(refusing.clone()), None);
                assert!(heard.contains("certificate verify failed"), "{identity:?}: {heard}");
            }
        }
    }

    #[test]
    fn a_cluster_and_sentinels_speak_tls_with_passwords() {
        let certificates = Certificates::new().expect("certificates");
        let tls = ServerTls::new(&certificates).asks_clients();
        let cluster = RedisCluster::builder().tls(&tls).password("hunter2-pw").start().expect("a cluster");
        let heard = |node: &Node| {
            ping(node.port(), Some(certificates.authority()), Some((&certificates, Identity::Client)))
        };
        let (source, target) = (cluster.master_of(12_182).expect("one"), cluster.master_of(0).expect("one"));
        source.command(&["SET", "foo", "1"]).expect("a reply");
        cluster.migrate_slot(12_182, &target).expect("migrated");
        assert_eq!(target.command(&["GET", "foo"]).expect("a reply").text().as_deref(), Some("1"));
        assert!(heard(&source).starts_with("NOAUTH"));

        let sentinels =
            RedisSentinel::builder().tls(&tls).password("hunter2-pw").sentinel_password("hunter2-other");
        let sentinels = sentinels.start().expect("sentinels");
        let first = sentinels.master().expect("a master");
        first.kill().expect("killed");
        sentinels.wait_for_switch(first.port()).expect("switched");
        assert!(heard(&sentinels.sentinels()[0]).starts_with("NOAUTH"));
    }
}
