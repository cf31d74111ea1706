//! A proxy for clients under test.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A proxy on loopback that passes everything on, as [`Asked::by`] understands it.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    /// Runs until the process ends.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let count = Arc::clone(&count);
                thread::spawn(move || serve(stream, &count));
            }
        });
        Self {
            address,
            connections,
        }
    }

    /// Connections to servers so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

fn serve(mut client: TcpStream, count: &AtomicUsize) -> io::Result<()> {
    let asked = Asked::by(&mut client)?;
    let server = asked.connect()?;
    client.write_all(asked.granted)?;
    count.fetch_add(1, Ordering::Relaxed);
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    let up = thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (server, client);
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = up.join();
    Ok(())
}

/// What a client asks a proxy for.
pub struct Asked {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The answer that it is connected.
    pub granted: &'static [u8],
}

impl Asked {
    /// By SOCKS 5 or HTTP, as the user `anna` with the password `pass:word`, which have to be used.
    ///
    /// # Errors
    ///
    /// If the client goes.
    pub fn by(client: &mut TcpStream) -> io::Result<Self> {
        let mut first = [0];
        client.read_exact(&mut first)?;
        match first {
            [5] => socks(client),
            _ => http(client),
        }
    }

    /// The connection to the server.
    ///
    /// # Errors
    ///
    /// If it does not listen.
    pub fn connect(&self) -> io::Result<TcpStream> {
        TcpStream::connect((self.host.as_str(), self.port))
    }
}

/// RFC 1928 and RFC 1929.
fn socks(client: &mut TcpStream) -> io::Result<Asked> {
    let exactly = |client: &mut TcpStream, count: usize| {
        let mut bytes = vec![0; count];
        client.read_exact(&mut bytes).map(|()| bytes)
    };
    let count = exactly(client, 1)?[0];
    assert!(exactly(client, count.into())?.contains(&2));
    client.write_all(&[5, 2])?;
    let mut login = Vec::new();
    assert_eq!(exactly(client, 1)?, [1]);
    for _ in 0..2 {
        let length = exactly(client, 1)?[0];
        login.push(exactly(client, length.into())?);
    }
    let known = login == [b"anna".to_vec(), b"pass:word".to_vec()];
    client.write_all(&[1, u8::from(!known)])?;
    let kind = exactly(client, 4)?[3];
    let host = match kind {
        1 => {
            let address: [u8; 4] = exactly(client, 4)?.try_into().unwrap();
            Ipv4Addr::from(address).to_string()
        }
        _ => {
            let length = exactly(client, 1)?[0];
            String::from_utf8(exactly(client, length.into())?).unwrap()
        }
    };
    let port: [u8; 2] = exactly(client, 2)?.try_into().unwrap();
    Ok(Asked {
        host,
        port: u16::from_be_bytes(port),
        granted: &[5, 0, 0, 3, 4, b'h', b'o', b's', b't', 0, 7],
    })
}

fn http(client: &mut TcpStream) -> io::Result<Asked> {
    let mut request = b"C".to_vec();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        client.read_exact(&mut byte)?;
        request.push(byte[0]);
    }
    let request = String::from_utf8(request).unwrap();
    // `anna:pass:word`
    assert!(request.contains("\r\nProxy-Authorization: Basic YW5uYTpwYXNzOndvcmQ=\r\n"));
    let target = request.split(' ').nth(1).unwrap();
    let (host, port) = target.rsplit_once(':').unwrap();
    Ok(Asked {
        host: host.to_owned(),
        port: port.parse().unwrap(),
        granted: b"HTTP/1.1 200 Connected\r\nVia: test\r\n\r\n",
    })
}
