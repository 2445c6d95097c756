//! The metrics and the state of the service over HTTP.

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
use crate::observers::{self, Allowance};
use crate::service::{Lifecycle, Stage};
use crate::{NetError, Network};

/// The path of the metrics: Prometheus's default `metrics_path`.
const METRICS: &str = "/metrics";
/// Whether the data path serves connections, for a supervisor that restarts the process otherwise.
const HEALTH: &str = "/healthz";
/// Whether new connections are accepted, for a balancer that sends them elsewhere otherwise.
const READY: &str = "/ready";
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

/// What the answers are made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The metrics that the service counts.
    pub metrics: Metrics,
    /// The network whose data path must answer.
    pub network: Network,
    /// The service's life: one that drains is not ready.
    pub lifecycle: Lifecycle,
}

/// Answers scrapers (`GET /metrics`) and probes (`GET /healthz`, `GET /ready`) for as long as it is polled.
pub async fn serve(listener: TcpListener, observed: Observed) -> Infallible {
    let accept = |cx: &mut Context<'_>| listener.poll_accept(cx).map_ok(|(stream, _)| stream);
    observers::serve("the metrics' port", ALLOWANCE, accept, |stream| {
        answer(stream, observed.clone())
    })
    .await
}

/// Reads one request and sends one response.
async fn answer(stream: TcpStream, observed: Observed) -> io::Result<()> {
    let service = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(respond(&request, &observed).await)
    });
    http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_REQUEST)
        .serve_connection(TokioIo::new(stream), service)
        .await
        .map_err(io::Error::other)
}

async fn respond<B>(request: &Request<B>, observed: &Observed) -> Answer {
    let path = request.uri().path();
    if ![METRICS, HEALTH, READY].contains(&path) {
        let paths = format!("want {METRICS}, {HEALTH} or {READY}\n");
        return text(StatusCode::NOT_FOUND, paths);
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "want GET\n".to_owned());
        let allowed = HeaderValue::from_static("GET, HEAD");
        answer.headers_mut().insert(ALLOW, allowed);
        return answer;
    }
    if path == READY && observed.lifecycle.stage() != Stage::Running {
        let why = "no new connections are accepted\n";
        return text(StatusCode::SERVICE_UNAVAILABLE, why.to_owned());
    }
    let network = &observed.network;
    if path == METRICS {
        return match in_time(observed.metrics.text(network)).await {
            Ok(all) => of_type(StatusCode::OK, OPENMETRICS, all),
            Err(no) => no,
        };
    }
    match in_time(network.turn()).await {
        Ok(()) => text(StatusCode::OK, "ok\n".to_owned()),
        Err(no) => no,
    }
}

/// What the data path answers, or the response that it does not.
async fn in_time<T>(answer: impl Future<Output = Result<T, NetError>>) -> Result<T, Answer> {
    let why = match tokio::time::timeout(DATA_PATH, answer).await {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(e)) => format!("{e}\n"),
        Err(_) => format!("the data path has not answered for {DATA_PATH:?}\n"),
    };
    Err(text(StatusCode::SERVICE_UNAVAILABLE, why))
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
    async fn metrics_and_states_are_served_and_other_requests_are_refused() {
        let (link, _other) = memory::pair(64);
        let network = Network::start(NetworkConfig::default(), Box::new(link)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let observed = Observed {
            metrics: Metrics::new("fuso"),
            network: network.clone(),
            lifecycle: Lifecycle::default(),
        };
        let lifecycle = observed.lifecycle.clone();
        let serving = tokio::spawn(serve(listener, observed));
        for (request, status, body) in [
            ("GET /metrics HTTP/1.1", "200 OK", "# EOF\n"),
            ("GET /metrics?x=1 HTTP/1.0", "200 OK", "# EOF\n"),
            ("HEAD /metrics HTTP/1.1", "200 OK", "\r\n\r\n"),
            ("GET /healthz HTTP/1.1", "200 OK", "ok\n"),
            ("GET /ready HTTP/1.1", "200 OK", "ok\n"),
            (
                "GET / HTTP/1.1",
                "404 Not Found",
                "want /metrics, /healthz or /ready\n",
            ),
            ("POST /metrics HTTP/1.1", "405 Method", "want GET\n"),
            ("nothing like it", "400 Bad Request", ""),
        ] {
            let answer = told(at, &format!("{request}\r\nHost: x\r\n\r\n")).await;
            let first = answer.lines().next().unwrap_or_default();
            assert!(first.contains(status), "{request}: {answer}");
            assert!(answer.ends_with(body), "{request}: {answer}");
        }
        let get = async |path| told(at, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await;
        lifecycle.drain();
        let answer = get(READY).await;
        assert!(
            answer.contains("503") && answer.ends_with("accepted\n"),
            "{answer}"
        );
        assert!(
            get(HEALTH).await.contains("200 OK"),
            "it still serves connections"
        );
        network.shutdown().await;
        for path in [METRICS, HEALTH] {
            let answer = get(path).await;
            assert!(answer.contains("503"), "{answer}");
        }
        serving.abort();
    }
}
