//! Block mode (RFC 959, section 3.4.2), by a client that knows the RFC only: files end with a block that says so, and the
//! data connection stays open behind them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fairwind_ftp::protocol::Reply;
use fairwind_ftp::protocol::host_port::format_port;
use fairwind_ftp::server::{Config, LogTarget, console};
use fairwind_testing::advisor::{Reply as Answer, TestAdvisor};

use crate::common::{Client, Process, Running, eventually, listening, noise};

/// Descriptors.
pub(crate) const END_OF_RECORD: u8 = 128;
pub(crate) const END_OF_FILE: u8 = 64;
const SUSPECT: u8 = 32;
const RESTART_MARKER: u8 = 16;

/// Bytes in the largest block.
pub(crate) const LARGEST: usize = 65_535;

pub(crate) fn block(descriptor: u8, bytes: &[u8]) -> Vec<u8> {
    let count = u16::try_from(bytes.len()).unwrap().to_be_bytes();
    [&[descriptor], &count[..], bytes].concat()
}

/// A file in blocks of so many bytes, the last of which is the end.
pub(crate) fn in_blocks(bytes: &[u8], largest: usize) -> Vec<u8> {
    let mut blocks = Vec::new();
    let mut rest = bytes;
    while rest.len() > largest {
        let (one, others) = rest.split_at(largest);
        blocks.extend(block(0, one));
        rest = others;
    }
    blocks.extend(block(END_OF_FILE, rest));
    blocks
}

/// The next file, up to its end.
pub(crate) fn read_file(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let mut header = [0; 3];
        from.read_exact(&mut header)?;
        let [descriptor, high, low] = header;
        assert_eq!(descriptor & !END_OF_FILE, 0, "neither records nor markers");
        let begin = bytes.len();
        bytes.resize(begin + usize::from(u16::from_be_bytes([high, low])), 0);
        from.read_exact(&mut bytes[begin..])?;
        if descriptor == END_OF_FILE {
            return Ok(bytes);
        }
    }
}

/// Whether the other end has closed the connection, or does within the time of a test.
pub(crate) fn is_closed(connection: &mut impl Read) -> bool {
    match connection.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        ),
    }
}

/// A server that closes no connection because it is idle.
fn serving() -> Running {
    serving_with(|_| ())
}

fn serving_with(change: impl FnOnce(&mut Config)) -> Running {
    Running::with(|config| {
        config.limits.connect_s = 600;
        change(config);
    })
}

/// alice, in block mode.
fn alice(server: &Running) -> Client {
    let mut client = Client::alice(server);
    client.expect("MODE B", 200);
    client
}

/// A client with a control connection, in clear or not.
pub(crate) trait Speaks {
    fn expect(&mut self, line: &str, code: u16) -> Reply;
    fn reply(&mut self) -> Reply;
}

impl Speaks for Client {
    fn expect(&mut self, line: &str, code: u16) -> Reply {
        self.expect(line, code)
    }

    fn reply(&mut self) -> Reply {
        self.reply()
    }
}

/// Has each session get the file `x` and store a file through a data connection, which it keeps. That takes a descriptor and
/// less than `each` KiB of memory of the server for each of them.
pub(crate) fn share<C: Speaks, D: Read + Write>(
    server: &Process,
    sessions: &mut [C],
    content: &[u8],
    each: u64,
    open: impl Fn(&mut C) -> D,
) -> Vec<D> {
    let without = (server.descriptors(), server.kib("RssAnon"));
    let numbered = sessions.iter_mut().enumerate();
    let kept: Vec<D> = numbered
        .map(|(number, client)| {
            client.expect("MODE B", 200);
            let mut data = open(client);
            assert!(get(client, &mut data, "RETR x", 150) == content);
            let sent = in_blocks(content, LARGEST);
            let command = format!("STOR up-{number}");
            assert_eq!(put(client, &mut data, &command, 125, &sent), 250);
            data
        })
        .collect();
    let with = (server.descriptors(), server.kib("RssAnon"));
    println!("{without:?} descriptors and KiB without, {with:?} with");
    assert_eq!(with.0, without.0 + sessions.len());
    assert!(
        with.1 < without.1 + each * sessions.len() as u64,
        "{without:?} {with:?}"
    );
    kept
}

/// Asks for a file or listing, and checks the replies before and behind it; the first is 150 where the data connection is
/// new, else 125.
pub(crate) fn get(
    client: &mut impl Speaks,
    data: &mut impl Read,
    command: &str,
    opening: u16,
) -> Vec<u8> {
    client.expect(command, opening);
    let content = read_file(data).unwrap();
    let reply = client.reply();
    assert_eq!(reply.code, 250, "{command}: {reply}");
    content
}

/// Sends these bytes for a command; returns the last reply.
pub(crate) fn put(
    client: &mut impl Speaks,
    data: &mut impl Write,
    command: &str,
    opening: u16,
    sent: &[u8],
) -> u16 {
    client.expect(command, opening);
    data.write_all(sent).unwrap();
    data.flush().unwrap();
    client.reply().code
}

/// A client whose data connection has been used once.
fn with_kept_connection(server: &Running) -> (Client, TcpStream) {
    server.write("kept", "kept");
    let mut client = alice(server);
    let mut data = client.passive();
    assert_eq!(get(&mut client, &mut data, "RETR kept", 150), b"kept");
    (client, data)
}

/// The session is as good as a new one.
fn goes_on(client: &mut Client) {
    client.expect("MODE B", 200);
    let mut data = client.passive();
    assert_eq!(get(client, &mut data, "RETR kept", 150), b"kept");
    assert_eq!(get(client, &mut data, "RETR kept", 125), b"kept");
    client.expect("MODE S", 200);
    assert_eq!(client.fetch("RETR kept"), b"kept");
}

fn codes(client: &mut Client, count: usize) -> Vec<u16> {
    (0..count).map(|_| client.reply().code).collect()
}

const SIZES: [usize; 5] = [0, 1, 65_535, 65_536, 1 << 20];

/// Files of these sizes, named by their number.
fn with_files(server: &Running) -> Vec<(String, Vec<u8>)> {
    let content = noise(1 << 20);
    let files = SIZES.iter().enumerate();
    let files = files.map(|(number, size)| (format!("f{number}"), content[..*size].to_vec()));
    let files: Vec<_> = files.collect();
    for (name, bytes) in &files {
        server.write(name, bytes);
    }
    files
}

#[test]
fn features_and_status_tell_of_it() {
    let server = serving();
    server.write("x", "abc");
    let mut client = Client::alice(&server);
    let features = client.expect("FEAT", 211).text();
    assert!(
        features.lines().any(|line| line.trim() == "MODE B"),
        "{features}"
    );
    let status = |client: &mut Client| client.expect("STAT", 211).text();
    assert!(status(&mut client).contains("MODE: Stream"));
    client.expect("MODE b", 200);
    let text = status(&mut client);
    assert!(text.contains("MODE: Block"), "{text}");
    assert!(text.contains("No data connection"), "{text}");
    let mut data = client.passive();
    get(&mut client, &mut data, "RETR x", 150);
    let text = status(&mut client);
    assert!(text.contains("Data connection open"), "{text}");
    drop(data);
    client.expect("MODE S", 200);
    let text = status(&mut client);
    assert!(text.contains("No data connection"), "{text}");
    assert!(text.contains("MODE: Stream"), "{text}");
}

#[test]
fn a_file_is_a_descriptor_a_count_and_its_bytes() {
    let server = serving();
    server.write("x", "abc");
    server.write("empty", "");
    let mut client = alice(&server);
    let mut data = client.passive();
    client.raw(b"RETR x\r\nRETR empty\r\n");
    let mut sent = [0; 9];
    data.read_exact(&mut sent).unwrap();
    assert_eq!(&sent, b"\x40\x00\x03abc\x40\x00\x00");
    assert_eq!(codes(&mut client, 4), [150, 250, 125, 250]);
}

#[test]
fn files_of_all_sizes_come_through_one_connection_whoever_opens_it() {
    let server = serving();
    let files = with_files(&server);
    for is_active in [false, true] {
        let mut client = alice(&server);
        let (name, content) = &files[4];
        let mut data = if is_active {
            let (listener, port) = listening("127.0.0.1");
            client.expect(&format!("PORT {port}"), 200);
            client.expect(&format!("RETR {name}"), 150);
            listener.accept().unwrap().0
        } else {
            let data = client.passive();
            client.expect(&format!("RETR {name}"), 150);
            data
        };
        assert!(read_file(&mut data).unwrap() == *content);
        assert_eq!(client.reply().code, 250);
        for (name, content) in files.iter().cycle().take(20) {
            let got = get(&mut client, &mut data, &format!("RETR {name}"), 125);
            assert!(got == *content, "{name}");
        }
    }
}

#[test]
fn files_that_are_asked_for_at_once_come_in_their_order() {
    let server = serving();
    let files = with_files(&server);
    let mut client = alice(&server);
    let mut data = client.passive();
    let commands: String = files
        .iter()
        .map(|(name, _)| format!("RETR {name}\r\n"))
        .collect();
    client.raw(commands.repeat(10).as_bytes());
    for _ in 0..10 {
        for (name, content) in &files {
            assert!(read_file(&mut data).unwrap() == *content, "{name}");
        }
    }
    let codes = codes(&mut client, 100);
    assert_eq!(codes[..4], [150, 250, 125, 250]);
    assert_eq!(codes[2..], [125, 250].repeat(49));
}

#[test]
fn all_files_come_whose_client_quits_behind_them() {
    let server = serving();
    server.write("x", noise(300_000));
    let mut client = alice(&server);
    let mut data = client.passive();
    client.raw(b"RETR x\r\nRETR x\r\nQUIT\r\n");
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..2 {
        assert_eq!(read_file(&mut data).unwrap().len(), 300_000);
    }
    assert!(is_closed(&mut data));
    assert_eq!(codes(&mut client, 5), [150, 250, 125, 250, 221]);
}

#[test]
fn files_that_are_missing_or_refused_between_others_cost_these_nothing() {
    let server = serving();
    server.write("a", "first");
    server.write("b", "second");
    let mut client = alice(&server);
    let mut data = client.passive();
    client
        .raw(b"RETR a\r\nRETR missing\r\nRETR /\r\nLIST missing\r\nMLSD a\r\nXYZZY\r\nRETR b\r\n");
    assert_eq!(read_file(&mut data).unwrap(), b"first");
    assert_eq!(read_file(&mut data).unwrap(), b"second");
    assert_eq!(
        codes(&mut client, 9),
        [150, 250, 550, 550, 550, 501, 500, 125, 250]
    );
}

#[test]
fn listings_come_in_blocks_between_files() {
    let server = serving();
    server.write("x", "abc");
    std::fs::create_dir(server.path("empty")).unwrap();
    for number in 0..1_000 {
        let name = format!("empty/../{number:0100}");
        server.write(&name, "");
    }
    let mut client = alice(&server);
    let mut data = client.passive();
    let names = get(&mut client, &mut data, "NLST", 150);
    // More than a block.
    assert_eq!(names.len(), 1_000 * 102 + b"empty\r\nx\r\n".len());
    assert_eq!(get(&mut client, &mut data, "RETR x", 125), b"abc");
    let list = String::from_utf8(get(&mut client, &mut data, "LIST x", 125)).unwrap();
    assert!(list.ends_with(" x\r\n"), "{list}");
    let facts = String::from_utf8(get(&mut client, &mut data, "MLSD", 125)).unwrap();
    assert!(facts.contains("; x\r\n"), "{facts}");
    assert_eq!(get(&mut client, &mut data, "NLST empty", 125), b"");
    assert_eq!(get(&mut client, &mut data, "RETR x", 125), b"abc");
}

#[test]
fn text_has_its_ends_of_lines_wherever_a_block_ends() {
    let server = serving();
    server.write("x", "one\ntwo\n");
    let mut client = alice(&server);
    client.expect("TYPE A", 200);
    let mut data = client.passive();
    assert_eq!(
        get(&mut client, &mut data, "RETR x", 150),
        b"one\r\ntwo\r\n"
    );
    let text = b"one\r\ntwo\r\n";
    for largest in 1..=text.len() {
        let sent = in_blocks(text, largest);
        assert_eq!(put(&mut client, &mut data, "STOR y", 125, &sent), 250);
        assert_eq!(server.read("y"), b"one\ntwo\n", "{largest}");
    }
    client.expect("TYPE I", 200);
    assert_eq!(get(&mut client, &mut data, "RETR x", 125), b"one\ntwo\n");
}

#[test]
fn uploads_of_all_kinds_and_sizes_come_through_one_connection() {
    let server = serving();
    let files = with_files(&server);
    let mut client = alice(&server);
    let mut data = client.passive();
    let mut opening = 150;
    for (name, content) in &files {
        for largest in [1_000, 16 << 10, LARGEST] {
            let sent = in_blocks(content, largest);
            let command = format!("STOR up-{name}");
            assert_eq!(put(&mut client, &mut data, &command, opening, &sent), 250);
            assert!(server.read(&format!("up-{name}")) == *content);
            opening = 125;
        }
    }
    assert_eq!(
        put(&mut client, &mut data, "APPE a", 125, &in_blocks(b"ab", 1)),
        250
    );
    assert_eq!(
        put(&mut client, &mut data, "APPE a", 125, &in_blocks(b"cd", 9)),
        250
    );
    assert_eq!(server.read("a"), b"abcd");
    let named = client.expect("STOU", 125).text();
    let named = named.strip_prefix("FILE: ").unwrap();
    data.write_all(&in_blocks(b"unique", 2)).unwrap();
    assert_eq!(client.reply().code, 250);
    assert_eq!(server.read(named), b"unique");
    client.expect("ALLO 3", 200);
    assert_eq!(
        put(&mut client, &mut data, "STOR b", 125, &in_blocks(b"xyz", 2)),
        250
    );
    // Both ways.
    assert_eq!(get(&mut client, &mut data, "RETR b", 125), b"xyz");
    assert_eq!(
        put(&mut client, &mut data, "STOR b", 125, &in_blocks(b"", 2)),
        250
    );
    assert_eq!(server.read("b"), b"");
}

#[test]
fn uploads_that_are_sent_at_once_are_told_apart() {
    let server = serving();
    let content = noise(1 << 20);
    let mut client = alice(&server);
    let mut data = client.passive();
    let sizes: Vec<usize> = (0..60).map(|n| n * n * n * 4).collect();
    let mut commands = String::new();
    let mut sent = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        commands += &format!("STOR f{number}\r\n");
        sent.extend(in_blocks(&content[..*size], 1 + 77 * number));
    }
    client.raw(commands.as_bytes());
    data.write_all(&sent).unwrap();
    let codes = codes(&mut client, 120);
    assert_eq!(codes[..2], [150, 250]);
    assert_eq!(codes[2..], [125, 250].repeat(59));
    for (number, size) in sizes.iter().enumerate() {
        assert!(server.read(&format!("f{number}")) == content[..*size]);
    }
}

#[test]
fn what_was_sent_for_a_refused_upload_is_in_no_other_file() {
    let server = serving();
    server.write("b", "old");
    std::fs::create_dir(server.path("dir")).unwrap();
    for refused in ["STOR dir", "STOR nowhere/a", "APPE dir", "STOR ."] {
        // On a connection that is new, and on one that was kept.
        for is_kept in [false, true] {
            let mut client = alice(&server);
            let mut data = client.passive();
            if is_kept {
                get(&mut client, &mut data, "RETR b", 150);
            }
            client.raw(format!("{refused}\r\nSTOR b\r\n").as_bytes());
            let sent = [in_blocks(b"for a", 9), in_blocks(b"for b", 9)].concat();
            let _ = data.write_all(&sent);
            let codes = codes(&mut client, 2);
            assert!(codes[0] >= 500, "{refused}: {codes:?}");
            assert_eq!(codes[1], 425, "{refused}");
            assert!(is_closed(&mut data));
            assert_eq!(server.read("b"), b"old", "{refused}");
        }
    }
}

#[test]
fn a_read_only_user_gets_files_behind_a_refused_upload() {
    let server = serving();
    server.write("x", "abc");
    let mut client = Client::anonymous(&server);
    client.expect("MODE B", 200);
    let mut data = client.passive();
    get(&mut client, &mut data, "RETR x", 150);
    client.expect("STOR y", 550);
    let mut data = client.passive();
    assert_eq!(get(&mut client, &mut data, "RETR x", 150), b"abc");
}

/// A server that lets alice have so many bytes.
fn with_quota(bytes: u64) -> Running {
    serving_with(|config| config.users[0].quota_bytes = bytes)
}

#[test]
fn an_upload_that_reaches_the_quota_takes_its_connection_with_it() {
    let server = with_quota(300_000);
    let content = noise(1 << 20);
    let mut client = alice(&server);
    let mut data = client.passive();
    let sent = in_blocks(&content[..100_000], LARGEST);
    assert_eq!(put(&mut client, &mut data, "STOR a", 150, &sent), 250);
    client.raw(b"STOR x\r\nSTOR y\r\n");
    // The server may have closed before all is there.
    let _ = data.write_all(&in_blocks(&content, LARGEST));
    let _ = data.write_all(&in_blocks(b"for y", LARGEST));
    assert_eq!(codes(&mut client, 3), [125, 552, 425]);
    assert!(is_closed(&mut data));
    assert!(!server.path("x").exists() && !server.path("y").exists());
    // What has come is the file's beginning, and waits to be resumed where there is room.
    let kept: usize = client.expect("SIZE x", 213).text().parse().unwrap();
    assert!(kept > 0 && kept <= 200_000, "{kept}");
    client.expect("DELE a", 250);
    client.expect("MODE S", 200);
    client.expect(&format!("REST {kept}"), 350);
    assert_eq!(client.give("STOR x", &content[kept..300_000]).code, 226);
    assert!(server.read("x") == content[..300_000]);
}

#[test]
fn files_are_counted_by_the_quota_without_their_headers() {
    let server = with_quota(10_000);
    let mut client = alice(&server);
    let mut data = client.passive();
    let sent = in_blocks(&noise(10_000), 10);
    assert_eq!(put(&mut client, &mut data, "STOR x", 150, &sent), 250);
    assert_eq!(server.read("x").len(), 10_000);
    let text = client.expect("SITE QUOTA", 200).text();
    assert!(text.contains("bytes 10000"), "{text}");
}

#[test]
fn a_connection_that_ends_before_the_file_does_leaves_what_has_come_to_be_resumed() {
    let server = serving();
    let content = noise(200_000);
    let whole = block(0, &content[..50_000]);
    for (sent, kept) in [
        // Between blocks, in a header, in a block, and in the last one.
        (whole.clone(), 50_000),
        ([&whole[..], &[0, 1]].concat(), 50_000),
        (
            [&whole[..], &block(0, &content[50_000..60_000])[..8_003]].concat(),
            58_000,
        ),
        (
            [
                &whole[..],
                &block(END_OF_FILE, &content[50_000..60_000])[..10_002],
            ]
            .concat(),
            59_999,
        ),
        (Vec::new(), 0),
    ] {
        let mut client = alice(&server);
        let mut data = client.passive();
        client.expect("STOR x", 150);
        data.write_all(&sent).unwrap();
        drop(data);
        let reply = client.reply();
        assert_eq!(reply.code, 426, "{reply}");
        assert!(!server.path("x").exists());
        client.expect("STOR x", 425);
        if kept > 0 {
            assert_eq!(client.expect("SIZE x", 213).text(), kept.to_string());
        }
        client.expect("MODE S", 200);
        if kept > 0 {
            client.expect(&format!("REST {kept}"), 350);
        }
        assert_eq!(client.give("STOR x", &content[kept..]).code, 226);
        assert!(server.read("x") == content);
        client.expect("DELE x", 250);
    }
}

#[test]
fn all_bytes_that_were_announced_are_no_end_of_a_file() {
    let server = serving();
    let mut client = alice(&server);
    let mut data = client.passive();
    client.expect("ALLO 3", 200);
    client.expect("STOR x", 150);
    data.write_all(&block(0, b"abc")).unwrap();
    drop(data);
    assert_eq!(client.reply().code, 426);
    client.expect("STOR x", 425);
    assert!(!server.path("x").exists());
    assert_eq!(client.expect("SIZE x", 213).text(), "3");
}

#[test]
fn a_file_with_fewer_bytes_than_announced_fails_and_so_does_its_connection() {
    let server = serving();
    let mut client = alice(&server);
    let mut data = client.passive();
    client.expect("ALLO 10", 200);
    assert_eq!(
        put(&mut client, &mut data, "STOR x", 150, &in_blocks(b"abc", 9)),
        426
    );
    assert!(is_closed(&mut data));
    client.expect("STOR y", 425);
    assert!(!server.path("x").exists());
    assert_eq!(client.expect("SIZE x", 213).text(), "3");
}

#[test]
fn markers_ends_of_records_and_empty_blocks_are_no_part_of_the_file() {
    let server = serving();
    let mut client = alice(&server);
    let mut data = client.passive();
    let sent = [
        block(RESTART_MARKER, b"000001"),
        block(0, b""),
        block(END_OF_RECORD, b"ab"),
        block(END_OF_RECORD, b""),
        block(0, b"c"),
        block(RESTART_MARKER | END_OF_RECORD, &[b'9'; 40_000]),
        block(0, b"d"),
        // RFC 959: the end of the last record may come with that of the file.
        block(END_OF_RECORD | END_OF_FILE, b"e"),
    ];
    assert_eq!(
        put(&mut client, &mut data, "STOR x", 150, &sent.concat()),
        250
    );
    assert_eq!(server.read("x"), b"abcde");
    let sent = [
        block(0, b"f"),
        block(RESTART_MARKER | END_OF_FILE, b"the end"),
    ];
    assert_eq!(
        put(&mut client, &mut data, "STOR x", 125, &sent.concat()),
        250
    );
    assert_eq!(server.read("x"), b"f");
}

#[test]
fn bytes_that_the_client_suspects_and_descriptors_of_no_rfc_are_not_taken() {
    let server = serving();
    for descriptor in [SUSPECT, SUSPECT | END_OF_FILE, 1, 2, 4, 8, 0xff] {
        let mut client = alice(&server);
        let mut data = client.passive();
        let sent = [block(0, b"good"), block(descriptor, b"bad")].concat();
        assert_eq!(
            put(&mut client, &mut data, "STOR x", 150, &sent),
            426,
            "{descriptor}"
        );
        assert!(is_closed(&mut data));
        client.expect("STOR x", 425);
        assert!(!server.path("x").exists());
        assert_eq!(client.expect("SIZE x", 213).text(), "4");
        client.expect("DELE x", 250);
    }
}

#[test]
fn what_is_not_in_blocks_at_all_is_refused() {
    let server = serving();
    let mut client = alice(&server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    let _ = data.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.reply().code, 426);
    assert!(!server.path("x").exists());
}

#[test]
fn blocks_without_bytes_and_markers_without_end_are_no_progress() {
    let server = serving_with(|config| config.limits.stalled_s = 1);
    for endless in [
        block(0, b""),
        block(END_OF_RECORD, b""),
        block(RESTART_MARKER, &[b'1'; 1_000]),
    ] {
        let mut client = alice(&server);
        let mut data = client.passive();
        client.expect("STOR x", 150);
        let begin = Instant::now();
        while data.write_all(&endless).is_ok() {
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
        let reply = client.reply();
        assert_eq!(reply.code, 426, "{reply}");
        assert!(reply.text().contains("nothing moved for 1 s"), "{reply}");
    }
}

#[test]
fn who_sends_nothing_or_reads_nothing_loses_the_connection_after_a_while() {
    let server = serving_with(|config| config.limits.stalled_s = 1);
    server.write("large", noise(30_000_000));
    let mut client = alice(&server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    data.write_all(&block(0, b"abc")[..5]).unwrap();
    assert_eq!(client.reply().code, 426);
    assert!(is_closed(&mut data));
    let _data = client.passive();
    client.expect("RETR large", 150);
    assert_eq!(client.reply().code, 426);
    client.expect("RETR large", 425);
}

#[test]
fn blocks_may_come_byte_by_byte() {
    let server = serving();
    let mut client = alice(&server);
    let mut data = client.passive();
    data.set_nodelay(true).unwrap();
    let sent = [block(RESTART_MARKER, b"12"), in_blocks(b"abcde", 3)].concat();
    for opening in [150, 125] {
        client.expect("STOR x", opening);
        for byte in &sent {
            data.write_all(&[*byte]).unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(client.reply().code, 250);
        assert_eq!(server.read("x"), b"abcde");
        client.expect("DELE x", 250);
    }
}

#[test]
fn transfers_at_a_position_are_refused_and_the_position_is_forgotten() {
    let server = serving();
    let (mut client, mut data) = with_kept_connection(&server);
    for position in ["REST 2", "RANG 1 2"] {
        client.expect(position, 350);
        client.expect("RETR kept", 501);
        assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
    }
    client.expect("REST 0", 350);
    assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
    client.expect("REST 2", 350);
    client.expect("STOR kept", 501);
    assert_eq!(server.read("kept"), b"kept");
    goes_on(&mut client);
}

#[test]
fn modes_follow_one_another() {
    let server = serving_with(|config| config.limits.deflate_level = 6);
    let text = b"all work and no play\n".repeat(20_000);
    server.write("x", &text);
    let mut client = Client::alice(&server);
    for _ in 0..2 {
        client.expect("MODE Z", 200);
        let mut plain = Vec::new();
        let deflated = client.fetch("RETR x");
        flate2::read::ZlibDecoder::new(&deflated[..])
            .read_to_end(&mut plain)
            .unwrap();
        assert_eq!(plain, text);
        client.expect("MODE B", 200);
        let mut data = client.passive();
        assert_eq!(get(&mut client, &mut data, "RETR x", 150), text);
        assert_eq!(get(&mut client, &mut data, "RETR x", 125), text);
        client.expect("MODE S", 200);
        assert!(is_closed(&mut data));
        client.expect("RETR x", 425);
        assert_eq!(client.fetch("RETR x"), text);
    }
    client.expect("MODE C", 504);
    client.expect("MODE", 501);
}

#[test]
fn a_mode_that_is_not_taken_closes_nothing() {
    let server = serving();
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("MODE C", 504);
    client.expect("STRU R", 504);
    assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
}

#[test]
fn a_connection_that_is_agreed_on_anew_takes_the_place_of_the_kept_one() {
    let server = serving();
    let (mut client, mut kept) = with_kept_connection(&server);
    for command in ["PASV", "EPSV"] {
        let mut data = match command {
            "PASV" => client.passive(),
            _ => client.extended_passive(),
        };
        assert!(is_closed(&mut kept), "{command}");
        assert_eq!(get(&mut client, &mut data, "RETR kept", 150), b"kept");
        kept = data;
    }
    let (listener, port) = listening("127.0.0.1");
    client.expect(&format!("PORT {port}"), 200);
    assert!(is_closed(&mut kept));
    client.expect("RETR kept", 150);
    let mut data = listener.accept().unwrap().0;
    assert_eq!(read_file(&mut data).unwrap(), b"kept");
    assert_eq!(client.reply().code, 250);
    assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
    // The same again, over IPv4 in the words of RFC 2428.
    let at = listener.local_addr().unwrap();
    client.expect(&format!("EPRT |1|127.0.0.1|{}|", at.port()), 200);
    assert!(is_closed(&mut data));
    client.expect("RETR kept", 150);
    let mut data = listener.accept().unwrap().0;
    assert_eq!(read_file(&mut data).unwrap(), b"kept");
    assert_eq!(client.reply().code, 250);
    // No connection, then, that was not wanted.
    client.expect("PORT 192,0,2,1,200,200", 504);
    assert!(is_closed(&mut data));
    client.expect("RETR kept", 425);
    goes_on(&mut client);
}

#[test]
fn what_begins_the_session_anew_or_ends_it_closes_the_connection() {
    let server = serving();
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("REIN", 220);
    assert!(is_closed(&mut data));
    client.login("alice", "secret");
    let status = client.expect("STAT", 211).text();
    assert!(status.contains("MODE: Stream"), "{status}");
    client.expect("RETR kept", 425);
    goes_on(&mut client);
    for command in ["MODE B", "MODE S", "MODE B"] {
        let (mut client, mut data) = with_kept_connection(&server);
        client.expect(command, 200);
        assert!(is_closed(&mut data), "{command}");
        client.expect("RETR kept", 425);
    }
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("QUIT", 221);
    assert!(is_closed(&mut data));
    let (client, mut data) = with_kept_connection(&server);
    drop(client);
    assert!(is_closed(&mut data));
}

#[test]
fn what_is_asked_for_between_transfers_leaves_the_connection_open() {
    let server = serving();
    let (mut client, mut data) = with_kept_connection(&server);
    for (command, code) in [
        ("NOOP", 200),
        ("PWD", 257),
        ("CWD /", 250),
        ("SIZE kept", 213),
        ("MDTM kept", 213),
        ("MLST kept", 250),
        ("HASH kept", 213),
        ("STAT", 211),
        ("STAT kept", 213),
        ("TYPE I", 200),
        ("STRU F", 200),
        ("MKD new", 257),
        ("RMD new", 250),
        ("ALLO 5", 200),
        ("OPTS MLST size;", 200),
        ("DELE missing", 550),
        ("USER alice", 503),
        ("EPSV ALL", 200),
    ] {
        client.expect(command, code);
        assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
    }
}

/// RFC 959, section 4.1.3.
#[test]
fn abor_ends_a_transfer_with_its_connection_and_between_transfers_closes_it() {
    let server = serving();
    server.write("large", noise(30_000_000));
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("RETR large", 125);
    data.read_exact(&mut [0; 100_000]).unwrap();
    client.raw(b"ABOR\r\nRETR kept\r\n");
    assert_eq!(codes(&mut client, 3), [426, 226, 425]);
    // The end of the file has not come with it.
    let mut rest = Vec::new();
    let _ = data.read_to_end(&mut rest);
    assert!(rest.len() < 29_000_000);
    goes_on(&mut client);

    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("STOR x", 125);
    data.write_all(&block(0, b"abc")).unwrap();
    eventually("it has come", || {
        std::fs::read(server.path(".x.fairwind-part")).is_ok_and(|found| found == b"abc")
    });
    client.raw(b"ABOR\r\nSTOR x\r\n");
    assert_eq!(codes(&mut client, 3), [426, 226, 425]);
    assert!(is_closed(&mut data));
    assert!(!server.path("x").exists());
    goes_on(&mut client);

    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("ABOR", 226);
    assert!(is_closed(&mut data));
    client.expect("RETR kept", 425);
    goes_on(&mut client);
}

#[test]
fn status_and_noop_are_answered_during_a_transfer() {
    let server = serving();
    let content = noise(30_000_000);
    server.write("large", &content);
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("RETR large", 125);
    let status = client.expect("STAT", 211).text();
    assert!(status.contains("bytes moved"), "{status}");
    client.expect("NOOP", 200);
    assert!(read_file(&mut data).unwrap() == content);
    assert_eq!(client.reply().code, 250);
    assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
}

#[test]
fn the_operator_ends_sessions_with_their_connections() {
    let outside = tempfile::tempdir().unwrap();
    let control = outside.path().join("control");
    let server = serving_with(|config| config.control = Some(control.clone()));
    server.write("large", noise(30_000_000));
    let kill = || {
        let mut rows = Vec::new();
        eventually("there is no other session", || {
            rows = console::sessions(&control).unwrap();
            rows.len() == 1
        });
        assert!(console::kill(&control, rows[0].session).unwrap());
    };
    let (mut client, mut data) = with_kept_connection(&server);
    kill();
    assert_eq!(client.reply().code, 421);
    assert!(client.is_closed() && is_closed(&mut data));

    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("RETR large", 125);
    data.read_exact(&mut [0; 100_000]).unwrap();
    kill();
    assert_eq!(client.reply().code, 426);
    assert!(client.is_closed());
    let mut rest = Vec::new();
    let _ = data.read_to_end(&mut rest);
    assert!(rest.len() < 29_000_000);

    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("STOR x", 125);
    data.write_all(&block(0, b"abc")).unwrap();
    eventually("it has come", || {
        std::fs::read(server.path(".x.fairwind-part")).is_ok_and(|found| found == b"abc")
    });
    kill();
    assert_eq!(client.reply().code, 426);
    assert!(client.is_closed() && is_closed(&mut data));
    assert!(!server.path("x").exists());
}

#[test]
fn a_server_that_stops_waits_for_no_kept_connection() {
    let mut server = serving();
    let (mut client, mut data) = with_kept_connection(&server);
    let begin = Instant::now();
    server.stop();
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(client.reply().code, 421);
    assert!(is_closed(&mut data));
}

#[test]
fn a_connection_without_a_transfer_is_closed_after_a_while() {
    let server = serving_with(|config| config.limits.connect_s = 1);
    let (mut client, mut data) = with_kept_connection(&server);
    // Each transfer is a new beginning.
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(500));
        assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
    }
    let begin = Instant::now();
    assert!(is_closed(&mut data));
    assert!(begin.elapsed() > Duration::from_millis(700), "{begin:?}");
    let reply = client.expect("RETR kept", 425);
    assert!(reply.text().contains("after 1 s"), "{reply}");
    client.expect("RETR kept", 425);
    goes_on(&mut client);
}

/// As long as the file does, a transfer may take.
#[test]
fn a_transfer_may_take_longer_than_a_connection_may_be_idle() {
    let server = serving_with(|config| config.limits.connect_s = 1);
    server.write("large", noise(30_000_000));
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("RETR large", 125);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(read_file(&mut data).unwrap().len(), 30_000_000);
    assert_eq!(client.reply().code, 250);
    assert_eq!(get(&mut client, &mut data, "RETR kept", 125), b"kept");
}

#[test]
fn a_client_that_has_closed_the_connection_is_told_so() {
    let server = serving();
    server.write("large", noise(30_000_000));
    for command in ["RETR kept", "RETR large", "STOR y", "LIST"] {
        // In order, and by a reset.
        for is_reset in [false, true] {
            let (mut client, data) = with_kept_connection(&server);
            if is_reset {
                socket2::SockRef::from(&data)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
            }
            drop(data);
            client.expect(command, 425);
            goes_on(&mut client);
        }
    }
    assert!(!server.path("y").exists());
    // In the midst of a file.
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("RETR large", 125);
    data.read_exact(&mut [0; 1_000]).unwrap();
    drop(data);
    assert_eq!(client.reply().code, 426);
    client.expect("RETR kept", 425);
    goes_on(&mut client);
}

#[test]
fn an_upload_that_was_sent_before_its_command_and_its_end_is_taken() {
    let server = serving();
    let (mut client, mut data) = with_kept_connection(&server);
    data.write_all(&in_blocks(b"abc", 2)).unwrap();
    drop(data);
    client.expect("STOR x", 125);
    assert_eq!(client.reply().code, 250);
    assert_eq!(server.read("x"), b"abc");
    client.expect("RETR kept", 425);
    goes_on(&mut client);
}

/// What came behind the end of an upload is with the server already.
#[test]
fn uploads_that_were_sent_ahead_are_taken_though_the_connection_is_closed() {
    let server = serving();
    let mut client = alice(&server);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    data.write_all(&[in_blocks(b"for x", 9), in_blocks(b"for y", 9)].concat())
        .unwrap();
    drop(data);
    assert_eq!(client.reply().code, 250);
    client.expect("STOR y", 125);
    assert_eq!(client.reply().code, 250);
    assert_eq!(server.read("y"), b"for y");
    client.expect("STOR z", 425);
}

/// A server for anybody who uploads, from 127.0.0.1 as often as they like.
fn for_anybody(dir: &Path) -> Process {
    Process::with_settings(
        dir,
        "[limits]\nconnect_s = 600\nsessions_per_address = 1000\n\
         [[access]]\npath = \"/\"\nusers = [\"anonymous\"]\nrights = [\"list\", \"read\", \"create\", \"write\"]\n",
    )
}

#[test]
fn sessions_that_keep_a_connection_open_cost_little_more_than_others() {
    const SESSIONS: usize = 200;
    /// More than this a session has not taken for its connection, KiB.
    const EACH: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    let content = noise(1 << 20);
    std::fs::write(dir.path().join("x"), &content).unwrap();
    let server = for_anybody(dir.path());
    let own = server.own_descriptors();
    let mut sessions: Vec<Client> = (0..SESSIONS)
        .map(|_| Client::connect(server.address))
        .collect();
    for client in &mut sessions {
        client.login("anonymous", "me@example.org");
        assert!(client.fetch("RETR x") == content);
    }
    let mut kept = share(&server, &mut sessions, &content, EACH, Client::passive);
    // They are as good as they were.
    for (client, data) in sessions.iter_mut().zip(&mut kept) {
        assert!(get(client, data, "RETR x", 125) == content);
    }
    drop(sessions);
    eventually("all is closed", || server.descriptors() == own);
    for data in &mut kept {
        assert!(is_closed(data));
    }
}

#[test]
fn of_a_file_that_becomes_shorter_no_end_comes() {
    let server = serving();
    server.write("x", noise(30_000_000));
    let (mut client, mut data) = with_kept_connection(&server);
    client.expect("RETR x", 125);
    // The first block.
    data.read_exact(&mut [0; 3 + LARGEST]).unwrap();
    let file = File::options().write(true).open(server.path("x")).unwrap();
    file.set_len(50_000).unwrap();
    let got = read_file(&mut data).map(|bytes| bytes.len());
    assert_eq!(got.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let reply = client.reply();
    assert_eq!(reply.code, 451, "{reply}");
    client.expect("RETR kept", 425);
    goes_on(&mut client);
}

#[test]
fn blocks_keep_to_the_rate_of_their_user_both_ways() {
    let server = serving_with(|config| config.limits.rate_per_user = 400_000);
    let content = noise(200_000);
    let mut client = alice(&server);
    let mut data = client.passive();
    let begin = Instant::now();
    let sent = in_blocks(&content, LARGEST);
    assert_eq!(put(&mut client, &mut data, "STOR x", 150, &sent), 250);
    assert!(get(&mut client, &mut data, "RETR x", 125) == content);
    // The last piece of 20,000 bytes is not waited for.
    assert!(begin.elapsed() > Duration::from_millis(900), "{begin:?}");
    // Nor do many files get more than one.
    server.write("small", noise(20_000));
    let begin = Instant::now();
    for _ in 0..20 {
        get(&mut client, &mut data, "RETR small", 125);
    }
    assert!(begin.elapsed() > Duration::from_millis(900), "{begin:?}");
}

#[test]
fn a_slow_sender_waits_for_no_whole_block() {
    let server = serving_with(|config| config.limits.rate_per_user = 5_000);
    // A block of it takes 13 s.
    server.write("x", noise(200_000));
    let mut client = alice(&server);
    let mut data = client.passive();
    client.expect("RETR x", 150);
    let begin = Instant::now();
    let mut headers = 0;
    for _ in 0..2 {
        let mut header = [0; 3];
        data.read_exact(&mut header).unwrap();
        assert_eq!(header[0], 0);
        let count = usize::from(header[1]) << 8 | usize::from(header[2]);
        assert!(count > 0);
        data.read_exact(&mut vec![0; count]).unwrap();
        headers += 1;
    }
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{headers} {begin:?}"
    );
    client.raw(b"ABOR\r\n");
    assert_eq!(codes(&mut client, 2), [426, 226]);
}

#[test]
fn logs_and_metrics_count_the_bytes_of_files() {
    let outside = tempfile::tempdir().unwrap();
    let (xferlog, journal) = (outside.path().join("xferlog"), outside.path().join("log"));
    let metrics = fairwind_testing::free_address();
    let mut server = serving_with(|config| {
        config.xferlog = Some(xferlog.clone());
        config.command_log = Some(LogTarget::File(journal.clone()));
        config.metrics = Some(metrics);
    });
    server.write("x", noise(70_000));
    let mut client = alice(&server);
    let mut data = client.passive();
    get(&mut client, &mut data, "RETR x", 150);
    let sent = in_blocks(&noise(1_000), 10);
    put(&mut client, &mut data, "STOR y", 125, &sent);
    get(&mut client, &mut data, "NLST", 125);
    client.expect("STOR z", 125);
    data.write_all(&block(0, b"abc")).unwrap();
    drop(data);
    assert_eq!(client.reply().code, 426);
    client.expect("RETR x", 425);

    let mut stream = TcpStream::connect(metrics).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    for line in [
        "fairwind_ftp_transfers 0",
        "fairwind_ftp_transfers_total{direction=\"sent\",complete=\"true\"} 1",
        "fairwind_ftp_transfers_total{direction=\"received\",complete=\"true\"} 1",
        "fairwind_ftp_transfers_total{direction=\"received\",complete=\"false\"} 1",
        "fairwind_ftp_bytes_total{direction=\"sent\"} 70000",
        "fairwind_ftp_bytes_total{direction=\"received\"} 1003",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    server.stop();

    let text = std::fs::read_to_string(xferlog).unwrap();
    let entries: Vec<_> = text
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            (
                words[7].to_owned(),
                words[8].to_owned(),
                words[words.len() - 1].to_owned(),
            )
        })
        .collect();
    let entry = |bytes: &str, path: &str, end: &str| (bytes.into(), path.into(), end.into());
    assert_eq!(
        entries,
        [
            entry("70000", "/x", "c"),
            entry("1000", "/y", "c"),
            entry("3", "/z", "i")
        ]
    );
    let text = std::fs::read_to_string(journal).unwrap();
    let moved: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|record| record["bytes"].is_number())
        .map(|record| {
            (
                record["command"].as_str().unwrap().to_owned(),
                record["reply"].as_u64().unwrap(),
                record["bytes"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        moved,
        [
            ("RETR x".into(), 250, 70_000),
            ("STOR y".into(), 250, 1_000),
            ("STOR z".into(), 426, 3)
        ]
    );
}

#[test]
fn a_server_that_follows_an_advisor_has_a_connection_for_each_file() {
    let advisor = TestAdvisor::answering(vec![Answer::Failure]);
    let server = serving_with(|config: &mut Config| config.advisor = Some(advisor.url()));
    let mut client = Client::alice(&server);
    assert!(!client.expect("FEAT", 211).text().contains("MODE B"));
    client.expect("MODE B", 504);
    let status = client.expect("STAT", 211).text();
    assert!(status.contains("MODE: Stream"), "{status}");
    assert_eq!(client.give("STOR x", b"abc").code, 226);
    assert_eq!(client.fetch("RETR x"), b"abc");
}

#[test]
fn a_new_connection_begins_with_its_own_file() {
    let server = serving();
    server.write("large", vec![b'l'; 5_000_000]);
    let (mut client, mut data) = with_kept_connection(&server);
    for _ in 0..5 {
        client.expect("RETR large", 125);
        data.read_exact(&mut [0; 10]).unwrap();
        client.raw(b"ABOR\r\n");
        assert_eq!(codes(&mut client, 2), [426, 226]);
        data = client.passive();
        assert_eq!(get(&mut client, &mut data, "RETR kept", 150), b"kept");
    }
}

#[test]
fn two_servers_move_files_over_one_connection() {
    let (from, to) = (serving(), serving());
    let files = with_files(&from);
    let (mut source, mut target) = (alice(&from), alice(&to));
    let SocketAddr::V4(at) = target.passive_address() else {
        panic!("IPv4 only");
    };
    source.expect(&format!("PORT {}", format_port(at)), 200);
    for (number, (name, content)) in files.iter().enumerate() {
        let opening = if number == 0 { 150 } else { 125 };
        target.raw(format!("STOR {name}\r\n").as_bytes());
        source.raw(format!("RETR {name}\r\n").as_bytes());
        assert_eq!(codes(&mut source, 2), [opening, 250]);
        assert_eq!(codes(&mut target, 2), [opening, 250]);
        assert!(to.read(name) == *content);
    }
    // And back, over the same.
    source.raw(b"STOR back\r\n");
    target.raw(b"RETR f4\r\n");
    assert_eq!(codes(&mut source, 2), [125, 250]);
    assert_eq!(codes(&mut target, 2), [125, 250]);
    assert!(from.read("back") == files[4].1);
}
