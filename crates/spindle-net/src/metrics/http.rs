//! The metrics over HTTP.

use std::convert::Infallible;
use std::io;
use std::task::Context;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::Metrics;
use crate::Network;
use crate::observers::{self, Allowance};

/// The path of the metrics: Prometheus's default `metrics_path`.
const PATH: &str = "/metrics";
/// The longest head of a request. A scraper's has a few hundred bytes.
const MAX_REQUEST: usize = 8 << 10;
/// 10 s is Prometheus's default `scrape_timeout`.
const ALLOWANCE: Allowance = Allowance {
    at_once: 8,
    patience: Duration::from_secs(10),
};
/// How long the data path may take to report its counters. If it takes longer, the scraper gets an error.
const DATA_PATH: Duration = Duration::from_secs(5);
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

type Answer = Response<Full<Bytes>>;

/// Answers scrapers (`GET /metrics`) for as long as it is polled.
pub async fn serve(listener: TcpListener, metrics: Metrics, network: Network) -> Infallible {
    let accept = |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
    observers::serve("the metrics' port", ALLOWANCE, accept, |stream| {
        answer(stream, metrics.clone(), network.clone())
    })
    .await
}

/// Reads one request and sends one response.
async fn answer(stream: TcpStream, metrics: Metrics, network: Network) -> io::Result<()> {
    let service = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(respond(&request, &metrics, &network).await)
    });
    http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_REQUEST)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

async fn respond<B>(request: &Request<B>, metrics: &Metrics, network: &Network) -> Answer {
    if request.uri().path() != PATH {
        return text(
            StatusCode::NOT_FOUND,
            format!("the metrics are at {PATH}\n"),
        );
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "want GET\n".to_owned());
        let allowed = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(ALLOW, allowed);
        return answer;
    }
    match tokio::time::timeout(DATA_PATH, metrics.text(network)).await {
        Ok(Ok(all)) => of_type(StatusCode::OK, OPENMETRICS, all),
        Ok(Err(e)) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{e}\n")),
        Err(_) => {
            let why = format!("the data path has not answered for {DATA_PATH:?}\n");
            text(StatusCode::SERVICE_UNAVAILABLE, why)
        }
    }
}

fn text(status: StatusCode, body: String) -> Answer {
    of_type(status, TEXT, body)
}

fn of_type(status: StatusCode, kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetworkConfig, memory};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// The whole answer to a request.
    async fn told(at: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn metrics_are_served_at_one_path_and_other_requests_are_refused() {
        let (link, _other) = memory::pair(64);
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener, Metrics::new("fuso"), network.clone()));
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1", "200 OK", "# EOF\n"),
            ("GET /metrics?x=1 HTTP/1.0", "200 OK", "# EOF\n"),
            ("HEAD /metrics HTTP/1.1", "200 OK", "\r\n\r\n"),
            ("GET / HTTP/1.1", "404 Not Found", "at /metrics\n"),
            ("POST /metrics HTTP/1.1", "405 Method", "want GET\n"),
            ("nothing like it", "400 Bad Request", ""),
        ] {
            let answer = told(at, &format!("{request}\r\nHost: x\r\n\r\n")).await;
            let first = answer.lines().next().unwrap_or_default();
            assert!(first.contains(status), "{request}: {answer}");
            assert!(answer.ends_with(body), "{request}: {answer}");
        }
        network.shutdown().await;
        let answer = told(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(answer.contains("503"), "{answer}");
        serving.abort();
    }
}
