//! Where connections begin, and proxies, as options of the command and in the environment.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::server::Config;

use super::{Bench, err, read};

#[test]
fn connections_begin_at_the_address_that_is_named() {
    let bench = Bench::with_server(|config| {
        bind_server(Config {
            allow: vec!["127.77.0.0/16".parse().unwrap()],
            ..config
        })
    });
    bench.write("x", b"abc");
    let output = bench.run(&["get", "ftp://{host}/x", "--retries", "0"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    bench.says(&["get", "ftp://{host}/x", "--bind", "127.77.0.1"]);
    assert_eq!(read(&bench.here, "x"), b"abc");
    let output = bench.run(&["ls", "ftp://{host}/", "--bind", "192.0.2.1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("192.0.2.1"), "{}", err(&output));
}

/// A proxy for HTTP's CONNECT and for SOCKS 5, which counts what it connects.
struct Proxy {
    address: SocketAddr,
    count: Arc<AtomicUsize>,
}

impl Proxy {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counted = Arc::clone(&counted);
                thread::spawn(move || relay(client, &counted));
            }
        });
        Self { address, count }
    }

    /// Connections since this was last asked.
    fn connections(&self) -> usize {
        self.count.swap(0, Ordering::Relaxed)
    }
}

fn relay(mut client: TcpStream, count: &AtomicUsize) -> io::Result<()> {
    let mut first = [0];
    client.peek(&mut first)?;
    let (wanted, granted) = match first[0] {
        5 => (socks(&mut client)?, &b"\x05\0\0\x01\0\0\0\0\0\0"[..]),
        _ => (http(&client)?, &b"HTTP/1.1 200 OK\r\n\r\n"[..]),
    };
    let server = TcpStream::connect(wanted)?;
    count.fetch_add(1, Ordering::Relaxed);
    client.write_all(granted)?;
    let (mut up, mut down) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut up, &mut down);
        down.shutdown(std::net::Shutdown::Write)
    });
    io::copy(&mut &server, &mut client)?;
    client.shutdown(std::net::Shutdown::Write)
}

/// RFC 1928, without authentication, to an IPv4 address.
fn socks(client: &mut TcpStream) -> io::Result<SocketAddr> {
    let mut methods = [0; 2];
    client.read_exact(&mut methods)?;
    client.read_exact(&mut vec![0; methods[1].into()])?;
    client.write_all(b"\x05\0")?;
    let mut request = [0; 10];
    client.read_exact(&mut request)?;
    assert_eq!(request[..4], [5, 1, 0, 1]);
    let address: [u8; 4] = request[4..8].try_into().unwrap();
    let port = u16::from_be_bytes([request[8], request[9]]);
    Ok((Ipv4Addr::from(address), port).into())
}

fn http(client: &TcpStream) -> io::Result<SocketAddr> {
    let mut lines = BufReader::with_capacity(1, client).lines();
    let request = lines.next().unwrap()?;
    while !lines.next().unwrap()?.is_empty() {}
    let wanted = request.strip_prefix("CONNECT ").unwrap();
    Ok(wanted.split(' ').next().unwrap().parse().unwrap())
}

#[test]
fn files_come_through_the_proxy_of_the_command_or_of_the_environment() {
    let (bench, proxy) = (Bench::new(), Proxy::start());
    bench.write("x", b"abc");
    for scheme in ["socks5", "http"] {
        let url = format!("{scheme}://{}", proxy.address);
        bench.says(&["get", "ftp://{host}/x", "new/", "--proxy", &url]);
        assert_eq!(read(&bench.here, "new/x"), b"abc");
        // The control connection and that of the data.
        assert_eq!(proxy.connections(), 2, "{url}");

        let with_environment = |arguments: &[&str]| {
            let mut command = bench.command(arguments);
            assert!(command.env("ftp_proxy", &url).status().unwrap().success());
            proxy.connections()
        };
        assert_eq!(with_environment(&["get", "ftp://{host}/x", "other/"]), 2);
        let none = &["get", "ftp://{host}/x", "third/", "--proxy", "none"];
        assert_eq!(with_environment(none), 0);
    }
}
