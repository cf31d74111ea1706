//! Where connections begin, and proxies, as options of the command and in the environment.

use fairwind_ftp::assembly::bind_server;
use fairwind_ftp::server::Config;
use fairwind_testing::proxy::Proxy;

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

#[test]
fn files_come_through_the_proxy_of_the_command_or_of_the_environment() {
    let bench = Bench::new();
    bench.write("x", b"abc");
    for scheme in ["socks5", "http"] {
        let proxy = Proxy::start();
        let url = format!("{scheme}://anna:pass%3Aword@{}", proxy.address);
        bench.says(&["get", "ftp://{host}/x", "new/", "--proxy", &url]);
        assert_eq!(read(&bench.here, "new/x"), b"abc");
        // The control connection and that of the data.
        assert_eq!(proxy.connections(), 2, "{url}");

        let with_environment = |arguments: &[&str]| {
            let mut command = bench.command(arguments);
            assert!(command.env("ftp_proxy", &url).status().unwrap().success());
            proxy.connections()
        };
        assert_eq!(with_environment(&["get", "ftp://{host}/x", "other/"]), 4);
        let none = &["get", "ftp://{host}/x", "third/", "--proxy", "none"];
        assert_eq!(with_environment(none), 4);
    }
}
