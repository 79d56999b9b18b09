//! A small HTTP server: one thread accepts, and a pool of threads answers. Each connection carries
//! one request. This module does not use distributed locks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use zoolock::crossbeam_channel::{Receiver, bounded};

/// How many connections may wait for a thread. More wait in the operating system.
const QUEUE: usize = 64;
/// A connection that has waited longer for a thread is refused, so that the queue empties quickly.
const LONGEST_QUEUED: Duration = Duration::from_secs(2);
/// How long a client may take to send its request, and to receive the answer.
const LONGEST_TRANSFER: Duration = Duration::from_secs(2);
const LARGEST_HEAD: usize = 8192;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn new(status: &'static str, text: impl Into<String>) -> Answer {
        Answer { status, text: text.into() }
    }

    /// Nothing was done, and the client may try again.
    pub(crate) fn unavailable(text: impl Into<String>) -> Answer {
        Answer::new("503 Service Unavailable", text)
    }

    fn write(&self, mut stream: &TcpStream) -> io::Result<()> {
        let Answer { status, text } = self;
        let retry = if status.starts_with("503") { "Retry-After: 1\r\n" } else { "" };
        let length = text.len();
        let kind = "Content-Type: text/plain; version=0.0.4";
        let head = format!("HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {length}\r\n{retry}");
        stream.write_all(format!("{head}Connection: close\r\n\r\n{text}").as_bytes())
    }
}

pub(crate) struct Server {
    address: SocketAddr,
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts the pool. `answer` must not block for long.
    pub(crate) fn start<F>(listener: TcpListener, threads: usize, answer: F) -> io::Result<Server>
    where
        F: Fn(&Request) -> Answer + Send + Sync + 'static,
    {
        let (address, is_stopping) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let (queue, accepted) = bounded(QUEUE);
        let (answer, stop) = (Arc::new(answer), Arc::clone(&is_stopping));
        let pool = (0..threads).map(|_| {
            let (accepted, answer) = (accepted.clone(), Arc::clone(&answer));
            thread::spawn(move || serve(&accepted, &*answer))
        });
        let mut threads: Vec<_> = pool.collect();
        threads.push(thread::spawn(move || {
            for stream in listener.incoming() {
                match stream {
                    _ if stop.load(Ordering::SeqCst) => break,
                    Ok(stream) => drop(queue.send((Instant::now(), stream))),
                    // Too many files are open: this passes.
                    Err(_) => thread::sleep(Duration::from_millis(50)),
                }
            }
        }));
        Ok(Server { address, is_stopping, threads })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, and returns when all accepted requests are answered.
    pub(crate) fn shutdown(self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts. The pool ends after it, when the queue is empty.
        let _ = TcpStream::connect_timeout(&self.address, LONGEST_TRANSFER);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn serve(accepted: &Receiver<(Instant, TcpStream)>, answer: &dyn Fn(&Request) -> Answer) {
    for (since, stream) in accepted {
        let is_late = since.elapsed() > LONGEST_QUEUED;
        // A client that hangs up affects no other client.
        let _ = read(&stream).and_then(|request| {
            let answer = match request {
                None => Answer::new("400 Bad Request", "this is no HTTP request\n"),
                Some(_) if is_late => Answer::unavailable("too many requests\n"),
                // A panic ends its request, but not the thread.
                Some(request) => catch_unwind(AssertUnwindSafe(|| answer(&request)))
                    .unwrap_or_else(|_| Answer::new("500 Internal Server Error", "a bug\n")),
            };
            answer.write(&stream)
        });
    }
}

/// Reads a request up to its empty line. Requests to this service have no body.
fn read(mut stream: &TcpStream) -> io::Result<Option<Request>> {
    let end = Instant::now() + LONGEST_TRANSFER;
    stream.set_write_timeout(Some(LONGEST_TRANSFER))?;
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        // A timeout of zero is refused, which ends the request as well.
        stream.set_read_timeout(Some(end.saturating_duration_since(Instant::now())))?;
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ if head.len() > LARGEST_HEAD => return Ok(None),
            read => head.extend_from_slice(&part[..read]),
        }
    }
    let head = String::from_utf8_lossy(&head);
    let line: Vec<_> = head.lines().next().unwrap_or_default().split(' ').collect();
    Ok(match line[..] {
        [method, path, version] if version.starts_with("HTTP/1.") => {
            Some(Request { method: method.to_owned(), path: path.to_owned() })
        }
        _ => None,
    })
}
