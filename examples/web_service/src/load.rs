//! Load for a running service: threads that reserve items, and a probe of `/health`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

const CLIENTS: usize = 32;
const ITEMS: usize = 20;
/// The pause of each client between its requests. It is shorter than `Retry-After`, for more load.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest that `/health` may take.
const LIMIT: Duration = Duration::from_millis(50);

/// Runs for some seconds, and prints what was answered. An error if `/health` took too long.
pub(crate) fn run(items: &str, admin: &str, seconds: u64) -> Outcome<()> {
    let end = Instant::now() + Duration::from_secs(seconds);
    let (answers, mut times) = (Mutex::new(BTreeMap::<_, usize>::new()), Vec::new());
    let ask = &|address, method, path: &str| {
        let answer = request(address, method, path);
        let status = |answer: String| answer.split(' ').nth(1).unwrap_or_default().to_owned();
        let status = answer.map_or_else(|error| error.kind().to_string(), status);
        *answers.lock().expect("no panic").entry((method, status)).or_default() += 1;
    };
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for turn in (client..).take_while(|_| Instant::now() < end) {
                    ask(items, "POST", &format!("/items/{}/reserve", turn % ITEMS));
                    thread::sleep(PAUSE);
                }
            });
        }
        while Instant::now() < end {
            let begun = Instant::now();
            ask(admin, "GET", "/health");
            times.push(begun.elapsed());
            thread::sleep(PAUSE / 2);
        }
    });
    times.sort_unstable();
    let (most, longest) = (times[times.len() * 99 / 100], times[times.len() - 1]);
    let answers = answers.into_inner().expect("no panic");
    println!("{answers:?}\n/health: 99 of 100 within {most:.1?}, all within {longest:.1?}");
    match longest <= LIMIT {
        true => Ok(()),
        false => Err(format!("/health took longer than {LIMIT:?}").into()),
    }
}

/// Returns the whole answer to one request.
pub(crate) fn request(address: &str, method: &str, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
