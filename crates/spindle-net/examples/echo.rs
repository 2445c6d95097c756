//! Echoes what clients send, over Multipath TCP in UDP: `echo 0.0.0.0:7000`. `echo SERVER:7000 TEXT` is a client.

use spindle_net::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [server, text] = &args[..] {
        let mut stream = TcpStream::connect(server.as_str()).await?;
        stream.write_all(text.as_bytes()).await?;
        stream.shutdown().await?;
        let mut echo = String::new();
        stream.read_to_string(&mut echo).await?;
        println!("{echo}");
        return Ok(());
    }
    let mut listener =
        TcpListener::bind(args.first().map_or("0.0.0.0:7000", String::as_str)).await?;
    while let Ok((stream, _)) = listener.accept().await {
        let (mut reader, mut writer) = split(stream);
        tokio::spawn(async move { copy(&mut reader, &mut writer).await });
    }
    Ok(())
}
