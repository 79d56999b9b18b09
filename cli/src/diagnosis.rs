//! Evaluates the answers of the servers and the session: what is wrong, and what to do about it. Pure
//! functions, without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::time::Duration;

use crate::four_letter::{Answer, Failure, Server};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Ok,
    Warning,
    Problem,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) text: String,
}

impl Level {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
    }

    pub(crate) fn says(self, text: impl Into<String>) -> Finding {
        Finding { level: self, text: text.into() }
    }
}

use Level::{Ok as Fine, Problem, Warning};

/// Returns the name of a server, for display.
pub(crate) fn name(server: &Server) -> String {
    match server.address {
        Some(address) if !server.host.contains(&address.ip().to_string()) => {
            format!("{} ({address})", server.host)
        }
        _ => server.host.clone(),
    }
}

/// Evaluates the servers, for sessions with this timeout.
pub(crate) fn servers(servers: &[Server], timeout: Duration) -> Vec<Finding> {
    // A finding that several servers have in common is reported once.
    let mut said: Vec<(Finding, Vec<String>)> = Vec::new();
    for server in servers {
        let found = match &server.answer {
            Ok(answer) => one(answer, timeout),
            Err(failure) => {
                let answers = |other: &Server| other.host == server.host && other.answer.is_ok();
                let level = if servers.iter().any(answers) { Warning } else { Problem };
                vec![level.says(why(failure))]
            }
        };
        for finding in found {
            match said.iter_mut().find(|(known, _)| *known == finding) {
                Some((_, names)) => names.push(name(server)),
                None => said.push((finding, vec![name(server)])),
            }
        }
    }
    let text = |(Finding { level, text }, names): (Finding, Vec<String>)| {
        level.says(format!("{}: {text}", names.join(", ")))
    };
    let answers = servers.iter().filter_map(|server| Some((server, server.answer.as_ref().ok()?)));
    let answers: Vec<_> = answers.collect();
    let each = said.into_iter().map(text).chain(versions(&answers));
    each.chain(ensemble(&answers, servers.len())).collect()
}

/// Returns why a server did not answer, and what to do.
pub(crate) fn why(failure: &Failure) -> String {
    let text = match failure {
        Failure::NotResolved(error) => {
            return format!(
                "the name does not resolve ({error}): check its spelling, and the resolver"
            );
        }
        Failure::Unreachable(error) => {
            return format!("it is unreachable ({error}): check the network");
        }
        Failure::Tls(error) => {
            return format!(
                "TLS failed ({error}): check the certificates, and whether the server expects TLS at this port"
            );
        }
        Failure::Foreign(begin) => {
            return format!("it is not a ZooKeeper server (it answers {begin:?}): check the port");
        }
        Failure::Refused => {
            "it refuses connections: check the port, and whether the server is running"
        }
        Failure::NoConnection => {
            "it does not answer: no host has this address, or a firewall drops packets"
        }
        Failure::Silent => {
            "it accepts connections but does not answer: the server hangs, or expects TLS at this port"
        }
        Failure::HungUp => {
            "it closes the connection without an answer: it has too many connections from this \
             machine (maxClientCnxns), or expects TLS at this port; see its log"
        }
        Failure::NotServing => {
            "it cannot reach a majority of its ensemble: check the other servers, and their quorum ports"
        }
    };
    text.to_owned()
}

/// Evaluates one server that has answered.
fn one(answer: &Answer, timeout: Duration) -> Vec<Finding> {
    let mut all = Vec::new();
    if answer.text("Mode") == Some("read-only") {
        all.push(Problem.says("it is read-only: it cannot reach a majority of its ensemble"));
    }
    all.extend(old(answer));
    all.extend(slow(answer, timeout));
    all
}

fn old(answer: &Answer) -> Option<Finding> {
    let text = version(answer)?;
    let mut parts = text.split('.').map_while(|part| part.parse::<u32>().ok());
    let [major, minor, patch] = [(); 3].map(|()| parts.next().unwrap_or(0));
    let (level, what) = match (major, minor, patch) {
        (0, ..) => return None,
        (..=2, ..) | (3, ..=4, _) | (3, 5, ..=2) => (Problem, "zoolock needs 3.5.3"),
        (3, 5, _) => {
            (Warning, "the order of locks is lost after 2,147,483,647 acquisitions in a directory")
        }
        _ => return None,
    };
    Some(level.says(format!("its version is {text}, but {what}: upgrade it to 3.6 or later")))
}

/// Evaluates round trips: a hold survives those of up to an eighth of the session timeout. From a
/// sixth on, its lease ends before a heartbeat can renew it.
fn slow(answer: &Answer, timeout: Duration) -> Option<Finding> {
    let longest = answer.text("Latency min/avg/max").and_then(|all| all.rsplit('/').next());
    let longest = Duration::from_millis(longest.and_then(|max| max.parse().ok()).unwrap_or(0));
    let (level, took, when) = match answer.latency {
        latency if latency >= timeout / 6 => (Problem, latency, "now"),
        latency if latency >= timeout / 8 => (Warning, latency, "now"),
        _ if longest >= timeout / 8 => (Warning, longest, "once since the server started"),
        _ => return None,
    };
    Some(level.says(format!(
        "a request took {} ms {when}, but locks need less than {} ms with this session timeout: \
         check its disk, memory and network, or set a longer timeout",
        took.as_millis(),
        (timeout / 8).as_millis()
    )))
}

/// A server that has answered.
type Answered<'a> = (&'a Server, &'a Answer);

/// Evaluates the versions, which have to be the same on all servers.
fn versions(answers: &[Answered<'_>]) -> Option<Finding> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (server, answer) in answers {
        all.entry(version(answer)?).or_default().push(name(server));
    }
    let has = |(version, names): (_, &Vec<_>)| format!("{} has {version}", names.join(", "));
    let each: Vec<_> = all.iter().map(has).collect();
    let text = || format!("the versions differ, {}: finish the upgrade", each.join("; "));
    (all.len() > 1).then(|| Warning.says(text()))
}

/// Checks whether the servers belong to one ensemble, and whether they are all of its servers.
fn ensemble(answers: &[Answered<'_>], addresses: usize) -> Option<Finding> {
    let modes = ["leader", "follower", "observer", "standalone"];
    let counts = modes.map(|mode| of_mode(answers, mode).count());
    let [leaders, followers, observers, alone] = counts;
    if let Some(what) = apart(answers) {
        return Some(Problem.says(format!(
            "the servers are not one ensemble ({what}), and their locks do not exclude each other: \
             remove the servers of other ensembles from the list"
        )));
    }
    let is_whole = answers.len() == addresses;
    if leaders == 0 && followers + observers > 0 && is_whole {
        let text = "the leader is not in the list: name all servers of the ensemble";
        return Some(Warning.says(text));
    }
    let counts = counts.iter().zip(modes).filter(|(count, _)| **count > 0);
    let counts: Vec<_> = counts.map(|(count, mode)| format!("{count} {mode}")).collect();
    let text = format!("{} of {addresses} addresses answer: {}", answers.len(), counts.join(", "));
    (leaders + followers + observers + alone > 0).then(|| Fine.says(text))
}

/// Returns the servers of this mode.
fn of_mode<'a>(answers: &'a [Answered<'a>], mode: &str) -> impl Iterator<Item = &'a Answered<'a>> {
    answers.iter().filter(move |(_, answer)| answer.text("Mode") == Some(mode))
}

/// Returns the reason why the servers cannot be one ensemble.
fn apart(answers: &[Answered<'_>]) -> Option<String> {
    // Several addresses of a name may belong to the same server.
    let hosts =
        |mode| of_mode(answers, mode).map(|(server, _)| &server.host).collect::<BTreeSet<_>>();
    let [leaders, alone] = ["leader", "standalone"].map(|mode| hosts(mode).len());
    if leaders > 1 {
        return Some(format!(
            "{leaders} of them say that they lead, which is normal only if one has just lost its majority"
        ));
    }
    if alone > 0 && (alone > 1 || of_mode(answers, "standalone").count() < answers.len()) {
        return Some(format!("{alone} of them are standalone"));
    }
    let epoch = |answer: &Answer| {
        let zxid = answer.text("Zxid")?.strip_prefix("0x")?;
        Some(u64::from_str_radix(zxid, 16).ok()? >> 32)
    };
    // A follower shows the previous epoch until the first transaction of the new one.
    let leads = epoch(of_mode(answers, "leader").next()?.1)?;
    let is_ahead = |(_, answer): &&Answered<'_>| epoch(answer) > Some(leads);
    let (ahead, _) = answers.iter().find(is_ahead)?;
    Some(format!("{} has a newer epoch in its zxid than the leader", name(ahead)))
}

/// Returns the version, without the build: `3.8.0` of `3.8.0-5a02a05, built on ..`.
pub(crate) fn version(answer: &Answer) -> Option<&str> {
    answer.text("Zookeeper version")?.split(['-', ',']).next()
}

/// Evaluates a session that was opened.
pub(crate) fn session(asked: Duration, granted: Duration, took: Duration) -> Finding {
    let took = took.as_millis();
    match granted == asked {
        true => Fine.says(format!("opened a session in {took} ms, with a timeout of {granted:?}")),
        false => Warning.says(format!(
            "opened a session in {took} ms, with a timeout of {granted:?} instead of {asked:?}: set \
             --session-timeout {}, or change the bounds of the servers",
            granted.as_secs_f64()
        )),
    }
}

/// Lists the identities that the servers have authenticated for the client. The servers grant
/// permissions to these schemes and users.
pub(crate) fn identities(all: &[(String, String)], is_private: bool) -> Finding {
    let each: Vec<_> = all.iter().map(|(scheme, user)| format!("{scheme}:{user}")).collect();
    let has = |scheme| all.iter().any(|(its, _)| its == scheme);
    let mut text = format!("the servers have authenticated this client as {}", each.join(", "));
    if has("digest") {
        text += "; they accept any password for digest, and a wrong one fails only where an ACL names the user";
    }
    if (has("digest") || has("sasl")) && !is_private {
        text +=
            "; without TLS, anyone who can listen on the network can learn the password: use --tls";
        return Warning.says(text);
    }
    Fine.says(text)
}

/// Reports whether a reaper ends the sessions of programs that die.
pub(crate) fn reaper(socket: &OsStr, has_accepted: bool) -> Finding {
    match has_accepted {
        true => Fine.says(format!("the reaper at {socket:?} accepts sessions")),
        false => Warning.says(format!(
            "no reaper accepts sessions at {socket:?}: if a program dies, its locks stay taken for a \
             session timeout. Start `zoolock reaper`, and check the permissions of its socket and folder"
        )),
    }
}

/// Reports a chroot that does not exist. `required` is true if it must not be created.
pub(crate) fn no_chroot(hosts: &str, required: bool) -> Finding {
    let (_, chroot) = hosts.split_once('/').unwrap_or_default();
    let level = if required { Problem } else { Warning };
    level.says(format!(
        "the chroot \"/{chroot}\" does not exist: check its spelling; the first lock creates it, \
         unless --no-create is set"
    ))
}

/// The permissions of a client for locks at `path`. The errors are texts.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) path: String,
    pub(crate) exists: bool,
    /// The directory in which contenders create their nodes, or the nearest one above.
    pub(crate) at: String,
    /// Whether there are both participants of a `LeaderLatch` and other contenders.
    pub(crate) mixed: bool,
    /// The limits under which permits were taken there.
    pub(crate) limits: BTreeSet<u32>,
    pub(crate) read: Result<(), String>,
    pub(crate) create: Result<(), String>,
    pub(crate) delete: Result<(), String>,
}

pub(crate) fn access(access: &Access) -> Vec<Finding> {
    let Access { path, exists, at, .. } = access;
    let place = match exists {
        true => format!("in {at}"),
        false => format!("in {at} ({path} does not exist yet)"),
    };
    let below = format!("{place}, or in a node there");
    let tried = [
        ("READ", &below, &access.read),
        ("CREATE", &place, &access.create),
        ("DELETE", &place, &access.delete),
    ];
    let denied = |(permission, place, result): (&str, &String, &Result<(), String>)| {
        let error = result.as_ref().err()?;
        Some(Problem.says(format!(
            "this client does not have {permission} permission {place} ({error}): check \
             ZOOKEEPER_AUTH, and the node's ACL, which must grant cdrw to all who share the lock"
        )))
    };
    let mixed = access.mixed.then(|| {
        Problem.says(format!(
            "participants of a LeaderLatch and other contenders share {path}, and do not exclude each \
             other: stop all of one kind"
        ))
    });
    let limits = (access.limits.len() > 1).then(|| {
        let each: Vec<_> = access.limits.iter().map(u32::to_string).collect();
        let text = format!("permits at {path} have different limits ({})", each.join(", "));
        Warning.says(text + ": set the same limit in all programs")
    });
    let mut all: Vec<_> = tried.into_iter().filter_map(denied).chain(mixed).collect();
    if all.is_empty() {
        all.push(Fine.says(format!("this client may read, create and delete {place}")));
    }
    all.extend(limits);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a server whose answers also contain these lines, besides those of a healthy server.
    fn server(host: &str, lines: &str) -> Server {
        let mut answer = Answer::default();
        answer.take("Zookeeper version: 3.8.0-5a02a05, built on 2022\nMode: standalone\nZxid: 0x4");
        answer.take(lines);
        Server { host: host.to_owned(), address: None, answer: Ok(answer) }
    }

    #[test]
    fn findings_say_what_is_wrong() {
        let late = |millis| {
            let mut late = server("a", "");
            late.answer.as_mut().expect("an answer").latency = Duration::from_millis(millis);
            vec![late]
        };
        let failed = |host: &str| Server { answer: Err(Failure::Refused), ..server(host, "") };
        let of = |lines: &[&str]| {
            let each = ["a", "b", "c"].into_iter().zip(lines);
            each.map(|(host, lines)| server(host, lines)).collect::<Vec<_>>()
        };
        let leader = "Mode: leader\nZxid: 0x300000001";
        let follower = "Mode: follower\nZxid: 0x200000009";
        for (servers, seconds, expected) in [
            (of(&[""]), 10, "ok 1 of 1 addresses answer: 1 standalone"),
            (of(&["Zookeeper version: 3.4.14-4c25d48"]), 10, "problem a: its version is 3.4.14"),
            (
                of(&["Zookeeper version: 3.5.2-alpha"]),
                10,
                "problem a: its version is 3.5.2, but zoolock needs 3.5.3",
            ),
            (
                of(&["Zookeeper version: 3.5.10-1"]),
                10,
                "warning a: its version is 3.5.10, but the order of locks is lost",
            ),
            (of(&["Zookeeper version: strange"]), 10, "ok "),
            (of(&["Mode: read-only"]), 10, "problem a: it is read-only"),
            (late(999), 8, "ok "),
            (late(1000), 8, "warning a: a request took 1000 ms now"),
            (late(1334), 8, "problem a: a request took 1334 ms now"),
            (of(&["Latency min/avg/max: 0/0.5/1000"]), 8, "warning a: a request took 1000 ms once"),
            (of(&["Latency min/avg/max: 0/0.5/999"]), 8, "ok "),
            (of(&[leader, follower]), 10, "ok 2 of 2 addresses answer: 1 leader, 1 follower"),
            (of(&[follower]), 10, "warning the leader is not in the list"),
            (of(&[leader, leader]), 10, "problem the servers are not one ensemble"),
            (of(&[leader, follower, ""]), 10, "problem the servers are not one ensemble"),
            (of(&["", ""]), 10, "problem the servers are not one ensemble"),
            (
                of(&[leader, "Mode: follower\nZxid: 0x400000000"]),
                10,
                "problem the servers are not one",
            ),
            (
                of(&[leader, "Mode: follower\nZookeeper version: 3.9.2-1"]),
                10,
                "warning the versions differ, a has 3.8.0; b has 3.9.2",
            ),
            // Several addresses of a name may lead to the same server.
            (vec![server("a", ""), server("a", "")], 10, "ok 2 of 2"),
            (vec![server("a", leader), server("a", leader)], 10, "ok 2 of 2"),
            (vec![server("a", leader), server("a", follower)], 10, "ok 2 of 2"),
            (vec![server("a", ""), server("a", follower)], 10, "problem the servers"),
            (vec![server("a", ""), failed("a")], 10, "warning a: it refuses connections"),
            (vec![server("a", ""), failed("b"), failed("c")], 10, "problem b, c: it refuses"),
        ] {
            let found = super::servers(&servers, Duration::from_secs(seconds));
            let found = found.iter().map(|one| format!("{} {}", one.level.name(), one.text));
            let found: Vec<_> = found.collect();
            assert!(
                found.iter().any(|line| line.starts_with(expected)),
                "{expected:?}: {found:#?}"
            );
            let is_fine = expected.starts_with("ok");
            assert_eq!(found.iter().all(|line| line.starts_with("ok")), is_fine, "{found:#?}");
        }
    }
}
