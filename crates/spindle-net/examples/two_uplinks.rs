//! Downloads from an HTTP server behind `spindle gateway --udp`, over two uplinks:
//!
//! ```sh
//! cargo run --example two_uplinks -- GATEWAY:7000 192.0.2.7@wlan0 198.51.100.9@wwan0 >/dev/null
//! ```
//!
//! Prints what each path carried. If one of the uplinks disappears, the download goes on over the other.

use std::error::Error;

use spindle_net::{Client, ClientBuilder};
use tokio::io::{AsyncReadExt, AsyncWriteExt, stdout};

/// Adds a path, `ADDRESS` or `ADDRESS@DEVICE`.
fn with_path(builder: ClientBuilder, text: &str) -> Result<ClientBuilder, Box<dyn Error>> {
    Ok(match text.split_once('@') {
        Some((addr, device)) => builder.local_on(addr.parse()?, device),
        None => builder.local(text.parse()?),
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let gateway = args
        .next()
        .ok_or("usage: two_uplinks GATEWAY:PORT ADDRESS[@DEVICE]...")?;
    let mut builder = Client::builder();
    for text in args {
        builder = with_path(builder, &text)?;
    }
    let mut stream = builder.build()?.connect(gateway.as_str()).await?;
    let request = format!("GET / HTTP/1.1\r\nHost: {gateway}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut block = vec![0; 64 << 10];
    loop {
        match stream.read(&mut block).await? {
            0 => break,
            n => stdout().write_all(&block[..n]).await?,
        }
    }
    for subflow in stream.connection_info().await?.subflows {
        eprintln!(
            "{} to {}: received {} bytes",
            subflow.local, subflow.remote, subflow.bytes_received
        );
    }
    Ok(())
}
