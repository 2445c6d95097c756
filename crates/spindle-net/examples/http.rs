//! HTTP over Multipath TCP with hyper: `http` starts a server on the loopback and sends it a request. The streams
//! of Spindle implement tokio's traits, so hyper, and what is built on it (tower, axum), uses them like kernel sockets.

use std::convert::Infallible;
use std::error::Error;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use spindle_net::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let text = format!("{} over Multipath TCP\n", request.uri().path());
    Ok(Response::new(Full::new(Bytes::from(text))))
}

async fn serve(mut listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let connection =
            http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(hello));
        tokio::spawn(async move {
            if let Err(e) = connection.await {
                eprintln!("a connection failed: {e}");
            }
        });
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let server = listener.local_addr();
    tokio::spawn(serve(listener));
    let mut stream = TcpStream::connect(server).await?;
    stream
        .write_all(b"GET /hello HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{answer}");
    Ok(())
}
