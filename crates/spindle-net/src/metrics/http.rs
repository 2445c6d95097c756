//! Just enough of HTTP/1.1 for a scraper: any GET is answered with the metrics.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Metrics;
use crate::Network;

/// The longest request taken; a scraper's is a few hundred bytes.
const MAX_REQUEST: usize = 8 << 10;
/// Scrapers at once; further ones wait.
const MAX_SCRAPERS: usize = 8;
/// How long a scraper may take over its request and over reading the answer.
const PATIENCE: Duration = Duration::from_secs(10);
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers scrapers until the listener fails.
///
/// # Errors
/// What accepting gives.
pub async fn serve(listener: TcpListener, metrics: Metrics, network: Network) -> io::Result<()> {
    let room = std::sync::Arc::new(Semaphore::new(MAX_SCRAPERS));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else {
            return Ok(());
        };
        let (stream, _) = listener.accept().await?;
        let (metrics, network) = (metrics.clone(), network.clone());
        tokio::spawn(async move {
            // A scraper that is slow or goes away is its own affair.
            let _ = tokio::time::timeout(PATIENCE, answer(stream, &metrics, &network)).await;
            drop(place);
        });
    }
}

async fn answer(mut stream: TcpStream, metrics: &Metrics, network: &Network) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 || request.len() > MAX_REQUEST {
            return Ok(());
        }
    }
    let (status, body) = match request.starts_with(b"GET ") {
        false => ("405 Method Not Allowed", String::new()),
        true => match metrics.text(network).await {
            Ok(text) => ("200 OK", text),
            Err(e) => ("503 Service Unavailable", e.to_string()),
        },
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
