//! The listener of a proxy. It can be closed, and opened again on the same port.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use socket2::SockRef;

use super::control::Control;
use super::link::Link;
use super::relay;

/// A listening socket, and the thread that accepts its connections.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: Arc<TcpListener>,
    closing: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub(crate) fn open(
        listener: TcpListener,
        control: Arc<Control>,
        target: SocketAddr,
    ) -> io::Result<Self> {
        let listener = Arc::new(listener);
        let closing = Arc::new(AtomicBool::new(false));
        let body = {
            let (listener, closing) = (Arc::clone(&listener), Arc::clone(&closing));
            move || {
                while !closing.load(Ordering::SeqCst) {
                    if let Ok((client, _)) = listener.accept() {
                        admit(&control, client, target);
                    }
                }
            }
        };
        let acceptor = Builder::new().name("fault-proxy-accept".into()).spawn(body)?;
        Ok(Self { listener, closing, acceptor: Some(acceptor) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Shutting down a listening socket wakes the thread in `accept`.
        let _ = SockRef::from(&*self.listener).shutdown(Shutdown::Both);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn admit(control: &Arc<Control>, client: TcpStream, target: SocketAddr) {
    let number = control.accepted.fetch_add(1, Ordering::SeqCst) + 1;
    if control.accept_and_close.load(Ordering::SeqCst) {
        control.note(&format!("#{number} accepted and closed"));
        return;
    }
    control.note(&format!("#{number} accepted"));
    let _ = client.set_nodelay(true);
    relay::start(Arc::clone(control), Link::new(number, client), target);
}
