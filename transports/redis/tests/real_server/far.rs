//! Addresses with something behind them: a server that is far, and an address that moves.

use std::{
    io::{Read, Write, copy},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
        mpsc,
    },
    time::Duration,
};

use leasehold::clock::{Clock, Instant};

/// An address whose server can be changed: connections that stand stay where they are.
pub(crate) fn movable(first: u16) -> (u16, Arc<AtomicU16>) {
    let target = Arc::new(AtomicU16::new(first));
    let at = target.clone();
    let port = listen(move |inside| {
        let Ok(outside) = TcpStream::connect(("127.0.0.1", at.load(Ordering::SeqCst))) else { return };
        for (mut from, mut to) in both_ways(inside, outside) {
            std::thread::spawn(move || {
                let _ = copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Both);
            });
        }
    });
    (port, target)
}

/// The same server, `delay` away in each direction.
pub(crate) fn far(target: u16, delay: Duration) -> u16 {
    listen(move |inside| {
        let Ok(outside) = TcpStream::connect(("127.0.0.1", target)) else { return };
        for (from, to) in both_ways(inside, outside) {
            let (push, pull) = mpsc::channel();
            std::thread::spawn(move || take_in(from, delay, &push));
            std::thread::spawn(move || hand_on(to, &pull));
        }
    })
}

fn take_in(mut from: TcpStream, delay: Duration, push: &mpsc::Sender<(Instant, Vec<u8>)>) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count) = from.read(&mut bytes) {
        if count == 0 || push.send((Clock::Boot.now() + delay, bytes[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn hand_on(mut to: TcpStream, pull: &mpsc::Receiver<(Instant, Vec<u8>)>) {
    for (due, bytes) in pull {
        std::thread::sleep(due - Clock::Boot.now());
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

fn listen(serve: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    port
}

fn both_ways(inside: TcpStream, outside: TcpStream) -> [(TcpStream, TcpStream); 2] {
    [(inside.try_clone().unwrap(), outside.try_clone().unwrap()), (outside, inside)]
}
