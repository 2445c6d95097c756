//! The parts on the system's sockets: a service, a client, and a plain byte proxy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use socket2::{Domain, Protocol, Socket, Type};

use crate::{Outcome, PIECE, Request};

/// Protocol number that requests MPTCP from socket(2) (IPPROTO_MPTCP).
const MPTCP: i32 = 262;

/// The protocol with the name `tcp` or `mptcp`.
pub(crate) fn protocol(name: &str) -> Outcome<Protocol> {
    match name {
        "tcp" => Ok(Protocol::TCP),
        "mptcp" => Ok(Protocol::from(MPTCP)),
        other => Err(format!("{other:?} is neither tcp nor mptcp").into()),
    }
}

/// A socket with the congestion control named by `THROUGHPUT_CONGESTION`, if that is set. A namespace accepts
/// as its default only what the system allows to everyone, but a socket of root accepts all.
fn socket(protocol: Protocol, at: SocketAddr) -> Outcome<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(protocol))?;
    if let Ok(name) = std::env::var("THROUGHPUT_CONGESTION") {
        socket
            .set_tcp_congestion(name.as_bytes())
            .map_err(|e| format!("congestion control {name}: {e}"))?;
    }
    Ok(socket)
}

fn connect(protocol: Protocol, to: SocketAddr) -> Outcome<TcpStream> {
    let socket = socket(protocol, to)?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

fn listener(protocol: Protocol, at: SocketAddr) -> Outcome<TcpListener> {
    let socket = socket(protocol, at)?;
    socket.set_reuse_address(true)?;
    socket.bind(&at.into())?;
    socket.listen(16)?;
    Ok(socket.into())
}

/// Serves transfers indefinitely.
pub(crate) fn service(protocol: Protocol, at: SocketAddr) -> Outcome {
    for stream in listener(protocol, at)?.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            if let Err(e) = serve(stream) {
                eprintln!("service: {e}");
            }
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream) -> Outcome {
    let mut head = [0; Request::LEN];
    stream.read_exact(&mut head)?;
    let request = Request::decode(head);
    if request.down {
        write(&mut stream, request.bytes)
    } else {
        read(&mut stream, request.bytes)?;
        Ok(stream.write_all(&[1])?)
    }
}

fn write(stream: &mut TcpStream, bytes: u64) -> Outcome {
    let buffer = vec![7; PIECE];
    let mut left = bytes;
    while left > 0 {
        let n = left.min(PIECE as u64);
        stream.write_all(&buffer[..n as usize])?;
        left -= n;
    }
    Ok(())
}

fn read(stream: &mut TcpStream, bytes: u64) -> Outcome {
    let mut buffer = vec![0; PIECE];
    let mut left = bytes;
    while left > 0 {
        match stream.read(&mut buffer)? as u64 {
            0 => return Err(format!("{left} bytes of {bytes} are missing").into()),
            n => left = left.saturating_sub(n),
        }
    }
    Ok(())
}

/// Makes one transfer.
pub(crate) fn client(protocol: Protocol, to: SocketAddr, request: Request) -> Outcome {
    let mut stream = connect(protocol, to)?;
    stream.write_all(&request.encode())?;
    if request.down {
        return read(&mut stream, request.bytes);
    }
    write(&mut stream, request.bytes)?;
    read(&mut stream, 1)
}

/// A plain byte proxy. It accepts MPTCP (TCP by fallback), connects by TCP, and copies with read(2) and
/// write(2), with a thread and a buffer of 256 KiB for each direction.
pub(crate) fn proxy(at: SocketAddr, to: SocketAddr) -> Outcome {
    for inside in listener(protocol("mptcp")?, at)?.incoming() {
        let (inside, outside) = (inside?, connect(Protocol::TCP, to)?);
        let (from, into) = (inside.try_clone()?, outside.try_clone()?);
        thread::spawn(move || copy(from, into));
        thread::spawn(move || copy(outside, inside));
    }
    Ok(())
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; PIECE];
    while let Ok(n @ 1..) = from.read(&mut buffer)
        && to.write_all(&buffer[..n]).is_ok()
    {}
    // The other end may already be closed.
    let _ = to.shutdown(Shutdown::Write);
}
