//! The connect string: servers and a chroot, `a:2181,[::1]:2182/chroot`. Pure: does not resolve names
//! or open connections.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::path;

/// ZooKeeper's usual client port.
const DEFAULT_PORT: u16 = 2181;

/// The servers, in the given order, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostList {
    /// Never empty.
    pub(crate) hosts: Vec<Host>,
    /// The chroot: empty, or a legal path without a slash at its end, so that any path can follow.
    pub(crate) chroot: String,
}

/// A server, by name or address. Names keep the case in which they were written, although it makes
/// no difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// A DNS name or an IP address, an IPv6 address without its brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl HostList {
    /// Reads a connect string as ZooKeeper's own clients do. The chroot comes once, after the last
    /// host. The error says which entry is wrong, and why.
    pub(crate) fn parse(connect: &str) -> Result<HostList, String> {
        let connect = connect.trim();
        if connect.contains("://") {
            return Err("it is a URL (expected HOST:PORT[,HOST:PORT]..[/CHROOT])".into());
        }
        let (servers, chroot) = connect.split_at(connect.find('/').unwrap_or(connect.len()));
        if servers.contains('@') {
            // The entry may contain a password, so it is not printed.
            return Err(
                "an entry has an `@`: credentials do not belong in the list of hosts".into()
            );
        }
        let chroot = parse_chroot(chroot)?;
        if servers.trim().is_empty() {
            return Err("the list of hosts is empty".into());
        }
        let mut hosts: Vec<Host> = Vec::new();
        for (index, entry) in servers.split(',').enumerate() {
            let entry = entry.trim();
            let number = index + 1;
            let host = Host::parse(entry).map_err(|problem| match entry {
                "" => format!("host {number} is empty"),
                _ => format!("host {number} ({entry:?}) {problem}"),
            })?;
            if !hosts.iter().any(|known| known.is_same(&host)) {
                hosts.push(host);
            }
        }
        Ok(HostList { hosts, chroot: chroot.to_owned() })
    }

    /// Returns the servers in normal form: in a fixed order, with their ports, in lower case. Names
    /// are not resolved.
    pub(crate) fn servers(&self) -> String {
        let mut servers: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        servers.iter_mut().for_each(|server| server.make_ascii_lowercase());
        servers.sort_unstable();
        servers.join(",")
    }
}

impl fmt::Display for HostList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if index == 0 { "" } else { "," })?;
        }
        f.write_str(&self.chroot)
    }
}

impl Host {
    /// Returns the address, if this host is an address.
    pub(crate) fn literal(&self) -> Option<SocketAddr> {
        let address: IpAddr = self.name.parse().ok()?;
        Some(SocketAddr::new(address, self.port))
    }

    /// Reads a trimmed entry. The error is a text to append to the entry.
    fn parse(entry: &str) -> Result<Host, String> {
        if let Some(bracketed) = entry.strip_prefix('[') {
            let (address, rest) = bracketed.split_once(']').ok_or("has no closing bracket")?;
            let address: Ipv6Addr =
                address.parse().map_err(|_| "does not have an IPv6 address in its brackets")?;
            return Ok(Host { name: address.to_string(), port: parse_port(rest)? });
        }
        // `::1:2181` is also an address: without brackets, a port looks like the last group.
        if let Ok(address) = entry.parse::<Ipv6Addr>() {
            return Ok(Host { name: address.to_string(), port: DEFAULT_PORT });
        }
        if entry.matches(':').nth(1).is_some() {
            return Err(
                "has more than one colon; an IPv6 address with a port needs brackets: [::1]:2181"
                    .into(),
            );
        }
        let (name, port) = entry.split_at(entry.find(':').unwrap_or(entry.len()));
        check_name(name)?;
        Ok(Host { name: name.to_owned(), port: parse_port(port)? })
    }

    fn is_same(&self, other: &Host) -> bool {
        self.port == other.port && self.name.eq_ignore_ascii_case(&other.name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Host { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

/// Refuses names that cannot be resolved. The resolver checks the rest.
fn check_name(name: &str) -> Result<(), String> {
    let refused = |c: char| c.is_whitespace() || c.is_control() || "[]%@?#\\\"'<>;".contains(c);
    if name.is_empty() {
        return Err("has no name".into());
    }
    match name.chars().find(|&c| refused(c)) {
        Some(c) => Err(format!("has {c:?} in its name, which is not allowed")),
        None => Ok(()),
    }
}

/// Reads the text after the name: nothing, or a colon and the port.
fn parse_port(text: &str) -> Result<u16, String> {
    if text.is_empty() {
        return Ok(DEFAULT_PORT);
    }
    let digits =
        text.strip_prefix(':').ok_or("has something other than a port after its bracket")?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(port) if is_number && port > 0 => Ok(port),
        _ => Err("has an invalid port (expected 1 to 65535)".into()),
    }
}

/// Reads the chroot. `/` alone means that there is none, as in ZooKeeper. A comma is legal in a path,
/// but here it always means that a host comes after the chroot.
fn parse_chroot(chroot: &str) -> Result<&str, String> {
    if chroot.is_empty() || chroot == "/" {
        return Ok("");
    }
    let problem = match path::check(chroot) {
        Err(problem) => problem,
        Ok(()) if chroot.contains(',') => {
            "it has a comma, but the chroot comes once, after the last host".into()
        }
        Ok(()) => return Ok(chroot),
    };
    Err(format!("the chroot {chroot:?} is invalid: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_list_is_parsed_and_printed_in_full() {
        for (connect, printed) in [
            ("a", "a:2181"),
            ("a:1", "a:1"),
            ("a:65535", "a:65535"),
            ("a:02181", "a:2181"),
            ("a:2181,[::1]:2182,10.0.0.1/chroot", "a:2181,[::1]:2182,10.0.0.1:2181/chroot"),
            (" a , b:2182\t,c /x/y\n", "a:2181,b:2182,c:2181/x/y"),
            ("zk-1.example.com.,zk_2", "zk-1.example.com.:2181,zk_2:2181"),
            ("b\u{fc}ro", "b\u{fc}ro:2181"),
            ("a/", "a:2181"),
            ("a:2181/b c", "a:2181/b c"),
            ("a/zookeeper", "a:2181/zookeeper"),
            ("::1", "[::1]:2181"),
            ("[::1]", "[::1]:2181"),
            ("::1:2182", "[::1:2182]:2181"),
            ("[2001:DB8:0:0::1]:2182", "[2001:db8::1]:2182"),
            ("[::ffff:10.0.0.1]:2182", "[::ffff:10.0.0.1]:2182"),
            // If servers are equal, only the first one is kept.
            ("a,b,a:2181,c,b", "a:2181,b:2181,c:2181"),
            ("a:1,a:2,a:1", "a:1,a:2"),
            ("A,a", "A:2181"),
            ("::1,[0:0:0:0:0:0:0:1]:2181,[::1]", "[::1]:2181"),
            ("127.0.0.1,localhost", "127.0.0.1:2181,localhost:2181"),
        ] {
            let seen = HostList::parse(connect).map(|list| list.to_string());
            assert_eq!(seen.as_deref(), Ok(printed), "{connect:?}");
            assert_eq!(HostList::parse(printed), HostList::parse(connect), "{printed:?}");
        }
    }

    #[test]
    fn host_list_error_names_the_entry_and_the_problem() {
        let port = "has an invalid port (expected 1 to 65535)";
        let colons =
            "has more than one colon; an IPv6 address with a port needs brackets: [::1]:2181";
        let url = "it is a URL (expected HOST:PORT[,HOST:PORT]..[/CHROOT])";
        for (connect, expected) in [
            ("", "the list of hosts is empty".to_owned()),
            (" \n", "the list of hosts is empty".into()),
            ("/a", "the list of hosts is empty".into()),
            ("a,,b", "host 2 is empty".into()),
            (",", "host 1 is empty".into()),
            ("a,", "host 2 is empty".into()),
            ("a, /x", "host 2 is empty".into()),
            ("b,a:99999", format!("host 2 (\"a:99999\") {port}")),
            ("a:65536", format!("host 1 (\"a:65536\") {port}")),
            ("a:0", format!("host 1 (\"a:0\") {port}")),
            ("a:", format!("host 1 (\"a:\") {port}")),
            ("a:+1", format!("host 1 (\"a:+1\") {port}")),
            ("a: 1", format!("host 1 (\"a: 1\") {port}")),
            ("a:x", format!("host 1 (\"a:x\") {port}")),
            ("[::1]:0", format!("host 1 (\"[::1]:0\") {port}")),
            ("http://a:2181", url.into()),
            ("a:2181,zk://b:2181/x", url.into()),
            ("a://x", url.into()),
            (":2181", "host 1 (\":2181\") has no name".into()),
            ("a b", "host 1 (\"a b\") has ' ' in its name, which is not allowed".into()),
            ("a\u{7}", "host 1 (\"a\\u{7}\") has '\\u{7}' in its name, which is not allowed".into()),
            ("a]:1", "host 1 (\"a]:1\") has ']' in its name, which is not allowed".into()),
            ("u:secret@a:1", "an entry has an `@`: credentials do not belong in the list of hosts".into()),
            ("a,[::1:2181", "host 2 (\"[::1:2181\") has no closing bracket".into()),
            ("[a]:1", "host 1 (\"[a]:1\") does not have an IPv6 address in its brackets".into()),
            ("[10.0.0.1]", "host 1 (\"[10.0.0.1]\") does not have an IPv6 address in its brackets".into()),
            ("[fe80::1%eth0]", "host 1 (\"[fe80::1%eth0]\") does not have an IPv6 address in its brackets".into()),
            ("[::1]2181", "host 1 (\"[::1]2181\") has something other than a port after its bracket".into()),
            ("::1:99999", format!("host 1 (\"::1:99999\") {colons}")),
            ("a:1:2", format!("host 1 (\"a:1:2\") {colons}")),
            ("1:2:3:4:5:6:7:8:2181", format!("host 1 (\"1:2:3:4:5:6:7:8:2181\") {colons}")),
            ("a/x/", "the chroot \"/x/\" is invalid: it ends in a slash".into()),
            ("a//", "the chroot \"//\" is invalid: it ends in a slash".into()),
            ("a/x/../y", "the chroot \"/x/../y\" is invalid: part 2 is `..`, but ZooKeeper does not support relative paths".into()),
            ("a/x,b/x", "the chroot \"/x,b/x\" is invalid: it has a comma, but the chroot comes once, after the last host".into()),
        ] {
            assert_eq!(HostList::parse(connect), Err(expected), "{connect:?}");
        }
    }
}
