//! The service behind a gateway, and its clients: bytes in both directions, checked by their digest.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};

use sha2::{Digest, Sha256};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Protocol number that requests MPTCP from socket(2) (IPPROTO_MPTCP).
const MPTCP: i32 = 262;
const BLOCK: usize = 256 << 10;
/// Bytes of a SHA-256.
const DIGEST: usize = 32;

/// Starts the service on `at`, with a thread for each connection. A client sends a letter and a number of
/// bytes. After `d`, that many bytes are sent to the client, followed by their digest. After `u`, the client
/// sends that many bytes and gets their digest. After `z`, zeros are sent to the client, without a digest.
pub(crate) fn serve(at: SocketAddr, multipath: bool) {
    let listener = listen(at, multipath);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream));
        }
    });
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).ok()?;
    let len = u64::from_be_bytes(head[1..].try_into().ok()?);
    let digest = match head[0] {
        b'd' => send(stream, len)?,
        b'z' => return zeros(stream, len),
        _ => take(stream, len)?,
    };
    stream.write_all(&digest).ok()?;
    stream.shutdown(Shutdown::Write).ok()
}

/// Sends zeros, which cost the service almost no time.
fn zeros(mut stream: &TcpStream, len: u64) -> Option<()> {
    let zeros = std::io::repeat(0).take(len);
    std::io::copy(
        &mut std::io::BufReader::with_capacity(BLOCK, zeros),
        &mut stream,
    )
    .ok()?;
    stream.shutdown(Shutdown::Write).ok()
}

/// Fetches `len` bytes, or sends them to the service. Returns true if the bytes arrived as they were sent.
pub(crate) fn transfer(mut stream: &TcpStream, down: bool, len: u64) -> bool {
    let mut head = vec![if down { b'd' } else { b'u' }];
    head.extend_from_slice(&len.to_be_bytes());
    let mut done = || -> Option<bool> {
        stream.write_all(&head).ok()?;
        let mine = match down {
            true => take(stream, len)?,
            false => send(stream, len)?,
        };
        let mut theirs = [0; DIGEST];
        stream.read_exact(&mut theirs).ok()?;
        Some(mine[..] == theirs)
    };
    done().unwrap_or(false)
}

fn send(mut stream: &TcpStream, len: u64) -> Option<Vec<u8>> {
    let (mut left, mut x, mut hash) = (len, len | 1, Sha256::new());
    let mut block = vec![0; BLOCK];
    while left > 0 {
        for word in block.chunks_exact_mut(8) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            word.copy_from_slice(&x.to_le_bytes());
        }
        let n = left.min(BLOCK as u64) as usize;
        hash.update(&block[..n]);
        stream.write_all(&block[..n]).ok()?;
        left -= n as u64;
    }
    Some(hash.finalize().to_vec())
}

fn take(mut stream: &TcpStream, len: u64) -> Option<Vec<u8>> {
    let (mut left, mut hash) = (len, Sha256::new());
    let mut block = vec![0; BLOCK];
    while left > 0 {
        let n = left.min(BLOCK as u64) as usize;
        let n = stream.read(&mut block[..n]).ok().filter(|n| *n > 0)?;
        hash.update(&block[..n]);
        left -= n as u64;
    }
    Some(hash.finalize().to_vec())
}

fn socket(family: SocketAddr, multipath: bool) -> Socket {
    let protocol = match multipath {
        true => Protocol::from(MPTCP),
        false => Protocol::TCP,
    };
    Socket::new(Domain::for_address(family), Type::STREAM, Some(protocol)).expect("a socket")
}

/// A kernel listener, with MPTCP or TCP.
pub(crate) fn listen(at: SocketAddr, multipath: bool) -> TcpListener {
    let s = socket(at, multipath);
    s.set_reuse_address(true).expect("an option");
    s.bind(&SockAddr::from(at)).expect("the address");
    s.listen(1024).expect("to listen");
    s.into()
}

/// A kernel connection, with MPTCP or TCP.
pub(crate) fn connect(from: IpAddr, to: SocketAddr, multipath: bool) -> TcpStream {
    let s = socket(to, multipath);
    s.bind(&SockAddr::from(SocketAddr::new(from, 0)))
        .expect("the address");
    s.connect(&SockAddr::from(to))
        .unwrap_or_else(|e| panic!("{from} to {to}: {e}"));
    s.into()
}
