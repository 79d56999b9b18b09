//! `doctor`: opens a session, queries the servers, and shows what is wrong.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};
use std::{env, process, thread};

use serde_json::{Value, json};
use zoolock::{Client, ClientBuilder, DistributedLock, EphemeralLock, Error, LockKind};

use crate::args::{REAPER, Servers};
use crate::diagnosis::{self, Access, Finding, Level, name, version, why};
use crate::exit::{CONFLICT, Failed, USAGE, print};
use crate::four_letter::{Answer, Server, ask_all};
use crate::table::{columns, escaped, plain};

const HEADER: [&str; 7] =
    ["SERVER", "VERSION", "MODE", "LATENCY", "CONNECTIONS", "OUTSTANDING", "ZXID"];

/// How long a reaper may take to accept a registration.
const ANSWER: Duration = Duration::from_secs(1);

pub(crate) fn examine(to: &Servers, path: Option<&str>, as_json: bool) -> Result<u8, Failed> {
    let builder = to.builder()?;
    let asked = builder.requested_timeout();
    // Opens the session first: if the client rejects the list of servers, none of them is queried.
    let seen = through_a_session(to, &builder, path)?;
    let within = (asked / 3).clamp(Duration::from_secs(1), Duration::from_secs(10));
    let servers = ask_all(builder.hosts(), builder.tls_settings(), within)?;
    let mut findings = diagnosis::servers(&servers, asked);
    findings.extend(seen);
    let text = match as_json {
        true => escaped(&json!({
            "servers": servers.iter().map(object).collect::<Vec<_>>(),
            "findings": findings.iter().map(|one| json!({
                "level": one.level.name(),
                "text": one.text,
            })).collect::<Vec<_>>(),
        })),
        false => {
            let line = |one: &Finding| format!("{:<7}  {}\n", one.level.name(), plain(&one.text));
            let lines: String = findings.iter().map(line).collect();
            columns(HEADER, servers.iter().map(row), usize::MAX) + "\n" + &lines
        }
    };
    print(text.as_bytes())?;
    let is_problem = findings.iter().any(|one| one.level == Level::Problem);
    Ok(if is_problem { CONFLICT } else { 0 })
}

/// Opens a session, and checks the permissions at `path` with it.
fn through_a_session(
    to: &Servers,
    builder: &ClientBuilder,
    path: Option<&str>,
) -> Result<Vec<Finding>, Failed> {
    let begun = Instant::now();
    let socket = env::var_os(REAPER).filter(|socket| !socket.is_empty());
    let builder = &match &socket {
        Some(socket) => builder.clone().reaper(socket),
        None => builder.clone(),
    };
    let opened = match builder.clone().existing_chroot(true).connect() {
        // Either the chroot is missing, or another argument is wrong.
        Err(Error::InvalidArgument { .. }) => {
            builder.clone().existing_chroot(false).connect().map(|client| (client, false))
        }
        opened => opened.map(|client| (client, true)),
    };
    let (client, has_root) = match opened.map_err(|error| to.wrong(error)) {
        Ok(opened) => opened,
        Err(wrong) if wrong.code == USAGE => return Err(wrong),
        Err(failed) => return Ok(vec![Level::Problem.says(failed.text.unwrap_or_default())]),
    };
    let (asked, granted) = (builder.requested_timeout(), client.session_timeout());
    let mut findings = vec![diagnosis::session(asked, granted, begun.elapsed())];
    if !has_root {
        findings.push(diagnosis::no_chroot(builder.hosts(), to.no_create));
    } else if let Some(path) = path {
        match access(&client, path) {
            Ok(access) => findings.extend(diagnosis::access(&access)),
            Err(wrong @ Error::InvalidPath { .. }) => return Err(wrong.into()),
            Err(error) => findings.push(Level::Problem.says(error.to_string())),
        }
    }
    // Servers before 3.7 do not support this request, and end the connection.
    if let Ok(all) = client.who_am_i() {
        findings.insert(1, diagnosis::identities(&all, builder.tls_settings().is_some()));
    }
    if let Some(socket) = socket {
        let end = Instant::now() + ANSWER;
        while !client.stats().is_registered && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        findings.push(diagnosis::reaper(&socket, client.stats().is_registered));
    }
    let _ = client.close();
    Ok(findings)
}

/// Tries out the client's permissions at `path`. The node that this creates is deleted with the session
/// at the latest.
fn access(client: &Client, path: &str) -> zoolock::Result<Access> {
    let above = |path: &str| match path.rsplit_once('/') {
        None | Some(("", _)) => "/".to_owned(),
        Some((above, _)) => above.to_owned(),
    };
    // Fails if no lock can have this path.
    DistributedLock::new(client, path)?;
    let mut at = path.to_owned();
    let is_there =
        |at: &str| Ok(at == "/" || denied(client.read(at))?.map_or(true, |node| node.is_some()));
    while !is_there(&at)? {
        at = above(&at);
    }
    let (exists, mut read, mut mixed, mut limits) = (at == path, Ok(()), false, BTreeSet::new());
    if exists && at != "/" {
        let contenders = denied(client.contenders(path))?;
        // This is an `EphemeralLock` that is held. Its contenders create nodes in the directory above.
        if contenders.as_ref().is_ok_and(|all| all.iter().any(|one| one.node.is_empty())) {
            at = above(&at);
        }
        let all = contenders.as_deref().unwrap_or_default();
        let latches: Vec<_> = all.iter().map(|one| one.kind == LockKind::Latch).collect();
        mixed = latches.contains(&true) && latches.contains(&false);
        limits = all.iter().filter_map(|one| one.limit).collect();
        read = contenders.map(drop);
    }
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    let own = format!("{}/zoolock-doctor-{}-{now}", at.trim_end_matches('/'), process::id());
    let (mut create, mut delete) = (Ok(()), Ok(()));
    match denied(EphemeralLock::new(client, own)?.try_acquire())? {
        Ok(guard) => delete = guard.map_or(Ok(Ok(())), |guard| denied(guard.release()))?,
        Err(error) => create = Err(error),
    }
    Ok(Access { path: path.to_owned(), exists, at, mixed, limits, read, create, delete })
}

/// Separates denied permission, which it returns as a text, from other errors.
fn denied<T>(result: zoolock::Result<T>) -> zoolock::Result<Result<T, String>> {
    match result {
        Err(error @ Error::PermissionDenied { .. }) => Ok(Err(error.to_string())),
        result => result.map(Ok),
    }
}

fn row(server: &Server) -> [String; HEADER.len()] {
    let answer = server.answer.as_ref();
    let shown = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), plain);
    let value = |name| shown(answer.ok().and_then(|answer| answer.text(name)));
    [
        plain(&name(server)),
        shown(answer.ok().and_then(version)),
        value("Mode"),
        shown(answer.ok().map(millis).as_deref()),
        value("Connections"),
        value("Outstanding"),
        value("Zxid"),
    ]
}

fn millis(answer: &Answer) -> String {
    format!("{:.1} ms", answer.latency.as_secs_f64() * 1000.0)
}

fn object(server: &Server) -> Value {
    let answer = server.answer.as_ref();
    let text = |name| answer.ok().and_then(|answer| answer.text(name));
    let number = |name| answer.ok().and_then(|answer| answer.number(name));
    json!({
        "server": server.host,
        "address": server.address.map(|address| address.to_string()),
        "error": answer.err().map(why),
        "version": answer.ok().and_then(version),
        "mode": text("Mode"),
        "latency_ms": answer.ok().map(|answer| answer.latency.as_micros() as f64 / 1000.0),
        "connections": number("Connections"),
        "outstanding": number("Outstanding"),
        "zxid": text("Zxid"),
    })
}
