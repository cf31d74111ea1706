//! ProFTPD with the module mod_fairwind, scripted advisors, and clients of this and other projects.

mod answers;
mod clients;
mod directives;
mod hostile;
mod hosts;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use fairwind_testing::advisor::{Reply, TestAdvisor, advice};
use fairwind_testing::{Proftpd, ProftpdFolder, or_skip, wait_until};
use serde_json::{Value, json};

use crate::common::{Client, TIMEOUT, noise};

/// More than the buffers of a connection hold: a download lasts until its client reads.
pub(crate) const LARGE: usize = 48_000_000;
/// Advice that is not asked for again in a test.
pub(crate) const NEVER: f64 = 3600.0;

/// A server that asks the advisor at this URL, with these lines besides. Unless they say otherwise, the module is on and
/// patient: the machine may be busy.
pub(crate) fn asking(folder: &ProftpdFolder, url: &str, lines: &str) -> Proftpd {
    let otherwise = |directive: &str| lines.contains(directive);
    let mut text = format!("FairwindAdvisor {url}\n");
    for (directive, value) in [("FairwindEngine", "on"), ("FairwindTimeout", "5000")] {
        if !otherwise(directive) {
            text += &format!("{directive} {value}\n");
        }
    }
    folder.start(&(text + lines))
}

fn alice(address: SocketAddr) -> Client {
    let mut client = Client::connect(address);
    client.login("alice", "secret");
    client
}

/// The other end of this connection, as the kernel has it.
pub(crate) fn server_end(data: &TcpStream) -> String {
    let (ours, its) = (data.local_addr().unwrap(), data.peer_addr().unwrap());
    // Clients of other servers may have the same port.
    let filter = format!("src {its} and dst {ours}");
    let output = Command::new("ss")
        .args(["-tinmH", &filter])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The congestion control of the server's end.
pub(crate) fn control(data: &TcpStream) -> String {
    let text = server_end(data);
    let known = allowed();
    let name = text
        .split_whitespace()
        .find(|word| known.iter().any(|name| name == word));
    name.unwrap_or_default().to_owned()
}

/// The congestion controls that anybody may take; the default comes first.
pub(crate) fn allowed() -> Vec<String> {
    let words = |name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let mut names = words("tcp_congestion_control");
    let others = words("tcp_allowed_congestion_control");
    let default = names[0].clone();
    names.extend(others.into_iter().filter(|name| *name != default));
    names
}

/// A control besides the default.
fn other_control() -> String {
    allowed().swap_remove(1)
}

fn by(control: &Value, again: f64) -> Reply {
    Reply::Advice(advice(again, json!({ "congestion_control": control })))
}

/// Closes the data connection when it has ended, for which ProFTPD waits before it replies.
fn fetch(client: &mut Client, command: &str) -> Vec<u8> {
    let data = client.passive();
    client.expect(command, 150);
    let bytes = read_all(data);
    assert_eq!(client.reply().code, 226);
    bytes
}

fn read_all(mut data: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.read_to_end(&mut bytes).unwrap();
    bytes
}

/// A download's control changes three times while it runs, and its bytes stay right.
fn changes_three_times(lines: &str, open: fn(&mut Client) -> TcpStream) {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let advisor = changing_its_mind();
    let server = asking(&folder, &advisor.url(), lines);
    let bytes = noise(LARGE);
    folder.serve("x", &bytes);
    let mut client = alice(server.address);
    let data = open(&mut client);
    follows_three_changes(&folder, &advisor, data, |data| data, &bytes);
    assert_eq!(client.reply().code, 226);
}

/// Advises another control, the default, and the other one again.
pub(crate) fn changing_its_mind() -> TestAdvisor {
    let (first, other) = (json!(null), json!(other_control()));
    TestAdvisor::answering(vec![by(&other, 1.0), by(&first, 1.0), by(&other, NEVER)])
}

/// Reads these bytes from a server that asks an advisor of this mind, so slowly that the transfer lasts for all its changes.
pub(crate) fn follows_three_changes<T: Read>(
    folder: &ProftpdFolder,
    advisor: &TestAdvisor,
    mut data: T,
    socket: fn(&T) -> &TcpStream,
    bytes: &[u8],
) {
    // Too little to let the transfer end, enough to let it go on.
    let mut part = vec![0; 100_000];
    let mut read = 0;
    let end = Instant::now() + TIMEOUT;
    // The reply that opens the transfer comes before the advice.
    wait_until("advised", || control(socket(&data)) == other_control());
    let mut seen = vec![other_control()];
    while advisor.asked().len() < 3 || control(socket(&data)) != other_control() {
        let log = folder.text("fairwind.log");
        assert!(Instant::now() < end, "{seen:?} {log}");
        seen.push(control(socket(&data)));
        data.read_exact(&mut part).unwrap();
        assert!(part == bytes[read..read + part.len()]);
        read += part.len();
        std::thread::sleep(Duration::from_millis(20));
    }
    seen.push(other_control());
    seen.dedup();
    assert!(read_all(data) == bytes[read..]);
    let log = folder.text("fairwind.log");
    assert_eq!(
        seen,
        [other_control(), allowed()[0].clone(), other_control()],
        "{log}"
    );
    let told = changes(&log, "congestion control");
    assert_eq!(told, three(&allowed()[0], &other_control()), "{log}");
}

/// What the module's log says of changes of this.
pub(crate) fn changes<'a>(log: &'a str, what: &str) -> Vec<&'a str> {
    let before = format!(": {what} ");
    let changes = log.lines().filter_map(|line| line.split_once(&before));
    changes.map(|(_, change)| change).collect()
}

/// Three changes, from `a` to `b` and back, and to `b` again, as they are told.
pub(crate) fn three(a: &str, b: &str) -> [String; 3] {
    let told = |from: &str, to: &str| format!("{from} -> {to}: because the test says so");
    [told(a, b), told(b, a), told(a, b)]
}

fn passive(client: &mut Client) -> TcpStream {
    let data = client.passive();
    client.expect("RETR x", 150);
    data
}

fn active(client: &mut Client) -> TcpStream {
    let (listener, port) = crate::common::listening("127.0.0.1");
    client.expect(&format!("PORT {port}"), 200);
    client.expect("RETR x", 150);
    listener.accept().unwrap().0
}

#[test]
fn a_download_by_sendfile_follows_the_advisor_while_it_runs() {
    changes_three_times("UseSendfile on", passive);
}

#[test]
fn an_active_download_follows_the_advisor_while_it_runs() {
    changes_three_times("UseSendfile on", active);
}

#[test]
fn a_download_without_sendfile_follows_the_advisor_while_it_runs() {
    changes_three_times("UseSendfile off", passive);
}

#[test]
fn a_download_in_a_chroot_follows_the_advisor_while_it_runs() {
    changes_three_times("DefaultRoot ~", passive);
}

#[test]
fn advice_is_pacing_too_and_is_lifted_when_it_ends() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let paced = json!({ "pacing_mbps": 80.0, "full_mode": "rate" });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(1.0, paced)), Reply::Failure]);
    let server = asking(&folder, &advisor.url(), "");
    let bytes = noise(LARGE);
    folder.serve("x", &bytes);
    let mut client = alice(server.address);
    let data = passive(&mut client);
    wait_until("paced", || server_end(&data).contains("/80000000bps"));
    wait_until("asked again", || advisor.asked().len() == 2);
    wait_until("lifted", || !server_end(&data).contains("/80000000bps"));
    assert!(read_all(data) == bytes);
    assert_eq!(client.reply().code, 226);
    let log = folder.text("fairwind.log");
    assert!(
        log.contains("pacing unlimited -> 80 Mbit/s: because the test says so\n"),
        "{log}"
    );
    assert!(
        log.contains("pacing 80 Mbit/s -> unlimited: there is no advice any more\n"),
        "{log}"
    );
    let lost = log
        .matches("transfers continue with the kernel's defaults")
        .count();
    assert_eq!(lost, 1, "{log}");
}

#[test]
fn the_question_names_peer_and_remaining_bytes() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!(null), NEVER)]);
    let server = asking(&folder, &advisor.url(), "FairwindMinimumBytes 0");
    folder.serve("x", &noise(3_000_000));
    let mut client = alice(server.address);
    client.expect("REST 1000000", 350);
    assert_eq!(fetch(&mut client, "RETR x").len(), 2_000_000);
    assert_eq!(advisor.asked(), ["/v1/advice?host=127.0.0.1&bytes=2000000"]);
    // Nobody knows how much will come.
    assert_eq!(client.give("STOR y", &noise(1000)).code, 226);
    assert_eq!(advisor.asked()[1..], ["/v1/advice?host=127.0.0.1"]);
}

#[test]
fn small_files_are_not_worth_a_question() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!(null), NEVER)]);
    let server = asking(&folder, &advisor.url(), "FairwindMinimumBytes 100 KB");
    folder.serve("small", &noise(102_399));
    folder.serve("large", &noise(102_400));
    let mut client = alice(server.address);
    assert_eq!(fetch(&mut client, "RETR small").len(), 102_399);
    assert_eq!(client.give("STOR new", &noise(102_400)).code, 226);
    assert_eq!(advisor.asked(), [""; 0]);
    assert_eq!(fetch(&mut client, "RETR large").len(), 102_400);
    assert_eq!(advisor.asked().len(), 1);
}

#[test]
fn advice_serves_the_next_transfers_with_the_same_peer() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let other = other_control();
    let advisor = TestAdvisor::answering(vec![by(&json!(other), NEVER)]);
    let server = asking(&folder, &advisor.url(), "FairwindMinimumBytes 0");
    folder.serve("x", &noise(200_000));
    folder.serve("larger", &noise(300_000));
    // In two sessions, which are two processes.
    for _ in 0..2 {
        let mut client = alice(server.address);
        for _ in 0..3 {
            assert_eq!(fetch(&mut client, "RETR x").len(), 200_000);
        }
    }
    assert_eq!(advisor.asked().len(), 1);
    let log = folder.text("fairwind.log");
    let changed = log.matches(&format!("-> {other}: because")).count();
    assert_eq!(changed, 6, "{log}");
    // Its buffers might be too small for more bytes.
    fetch(&mut alice(server.address), "RETR larger");
    assert_eq!(advisor.asked().len(), 2);
}

#[test]
fn an_upload_is_asked_about_when_it_is_large_and_its_receiver_sets_only_its_buffer() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let all = json!({
        "congestion_control": other_control(), "pacing_mbps": 1.0, "receive_buffer_bytes": 1 << 30,
    });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(NEVER, all))]);
    let server = asking(&folder, &advisor.url(), "FairwindMinimumBytes 1 MB");
    let mut client = alice(server.address);
    let mut data = client.passive();
    client.expect("STOR x", 150);
    let bytes = noise(3_000_000);
    std::io::Write::write_all(&mut data, &bytes).unwrap();
    wait_until("asked", || advisor.asked().len() == 1);
    wait_until("told", || folder.text("fairwind.log").contains(" buffer "));
    assert_eq!(control(&data), allowed()[0]);
    drop(data);
    assert_eq!(client.reply().code, 226);
    assert!(std::fs::read(folder.path("there/x")).unwrap() == bytes);
    let log = folder.text("fairwind.log");
    assert!(
        !log.contains("congestion control") && !log.contains("pacing"),
        "{log}"
    );
    assert!(
        log.contains("a buffer of 1073741824 bytes is advised and bounded to "),
        "{log}"
    );
}

#[test]
fn what_only_observes_changes_nothing() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let other = other_control();
    let advisor = TestAdvisor::answering(vec![by(&json!(other), NEVER)]);
    let server = asking(&folder, &advisor.url(), "FairwindMode observe");
    let bytes = noise(LARGE);
    folder.serve("x", &bytes);
    let mut client = alice(server.address);
    let data = passive(&mut client);
    let line = format!(
        "observed only: congestion control {} -> {other}: because",
        allowed()[0]
    );
    wait_until("told", || folder.text("fairwind.log").contains(&line));
    assert_eq!(control(&data), allowed()[0]);
    assert!(read_all(data) == bytes);
    assert_eq!(client.reply().code, 226);
}

#[test]
fn congestion_control_stays_on_unless_the_path_is_own() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let off = json!({
        "mode": "no-congestion-control", "congestion_control": other_control(), "pacing_mbps": 80.0,
    });
    let advisor = TestAdvisor::answering(vec![Reply::Advice(advice(NEVER, off))]);
    let bytes = noise(LARGE);
    folder.serve("x", &bytes);
    let mut refusals = 0;
    for (lines, is_own) in [
        ("", false),
        ("FairwindOwnNetworks 192.0.2.0/24", false),
        ("FairwindOwnNetworks 192.0.2.0/24 127.0.0.0/8", true),
        (
            "FairwindOwnNetworks 192.0.2.0/24\nFairwindOwnNetworks 127.0.0.0/8",
            true,
        ),
    ] {
        let server = asking(&folder, &advisor.url(), lines);
        let mut client = alice(server.address);
        let data = passive(&mut client);
        if is_own {
            wait_until("taken", || control(&data) == other_control());
            wait_until("paced", || server_end(&data).contains("/80000000bps"));
            continue;
        }
        let told = || folder.text("fairwind.log").lines().count();
        refusals += 1;
        wait_until("refused", || told() == refusals);
        assert_eq!(control(&data), allowed()[0], "{lines}");
        assert!(!server_end(&data).contains("/80000000bps"), "{lines}");
    }
    let log = folder.text("fairwind.log");
    let refused = log
        .matches("the path to this host is not own here (FairwindOwnNetworks)")
        .count();
    assert_eq!(refused, 2, "{log}");
}

#[test]
fn nothing_is_asked_about_excepted_networks_and_in_the_mode_standard() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!(other_control()), NEVER)]);
    folder.serve("x", &noise(2_000_000));
    for lines in [
        "FairwindExceptNetworks 127.0.0.1",
        "FairwindMode standard",
        "FairwindEngine off",
    ] {
        let server = asking(&folder, &advisor.url(), lines);
        fetch(&mut alice(server.address), "RETR x");
    }
    assert_eq!(advisor.asked(), [""; 0]);
    assert_eq!(folder.text("fairwind.log"), "");
}

#[test]
fn a_control_that_may_not_or_cannot_be_taken_is_told_and_the_transfer_goes_on() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!("no_such"), NEVER)]);
    let server = asking(&folder, &advisor.url(), "");
    let bytes = noise(2_000_000);
    folder.serve("x", &bytes);
    assert!(fetch(&mut alice(server.address), "RETR x") == bytes);
    let log = folder.text("fairwind.log");
    assert!(
        log.contains(
            "congestion control no_such is advised and refused: the kernel has none of this name"
        ),
        "{log}"
    );
}

#[test]
fn nothing_is_asked_while_the_server_waits_for_the_client_to_close() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let advisor = TestAdvisor::answering(vec![by(&json!(null), 1.0)]);
    let server = asking(&folder, &advisor.url(), "TimeoutLinger 4");
    let bytes = noise(1_500_000);
    folder.serve("x", &bytes);
    let mut client = alice(server.address);
    let mut data = passive(&mut client);
    let mut got = Vec::new();
    data.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
    let asked = advisor.asked().len();
    assert_eq!(client.reply().code, 226);
    assert_eq!(advisor.asked().len(), asked);
}

/// As ProFTPD logs anything: by LogFormat.
#[test]
fn what_became_of_a_connection_is_a_note_for_log_formats() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let other = other_control();
    let advisor = TestAdvisor::answering(vec![by(&json!(other), NEVER)]);
    let log = folder.path("transfers.log");
    let lines = format!(
        "LogFormat fairwind \"%m %f %{{note:fairwind.control}} %{{note:fairwind.changes}}\"\n\
         ExtendedLog {} READ,WRITE fairwind",
        log.display()
    );
    let server = asking(&folder, &advisor.url(), &lines);
    folder.serve("x", &noise(2_000_000));
    fetch(&mut alice(server.address), "RETR x");
    wait_until("logged", || folder.text("transfers.log").ends_with('\n'));
    let text = folder.text("transfers.log");
    assert!(
        text.starts_with("RETR ") && text.ends_with(&format!("/x {other} 1\n")),
        "{text}"
    );
}

#[test]
fn after_a_restart_that_reads_the_configuration_again_transfers_are_advised() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    let other = other_control();
    let advisor = TestAdvisor::answering(vec![by(&json!(other), NEVER)]);
    let server = asking(&folder, &advisor.url(), "FairwindMinimumBytes 0");
    let bytes = noise(200_000);
    folder.serve("x", &bytes);
    let line = format!(" -> {other}: because");
    for round in 1..=3 {
        assert!(fetch(&mut alice(server.address), "RETR x") == bytes);
        assert_eq!(folder.text("fairwind.log").matches(&line).count(), round);
        server.restart();
        let begun = format!("{round}");
        wait_until(&begun, || {
            let log = folder.text("system.log");
            log.matches("received SIGHUP -- master server reparsing")
                .count()
                == round
        });
    }
    assert!(fetch(&mut alice(server.address), "RETR x") == bytes);
    assert_eq!(folder.text("fairwind.log").matches(&line).count(), 4);
}

/// The process that wrote the last line of the module's log.
fn session(folder: &ProftpdFolder) -> String {
    let log = folder.text("fairwind.log");
    let line = log.lines().last().unwrap();
    let (_, rest) = line.split_once("mod_fairwind/").unwrap();
    let (_, rest) = rest.split_once('[').unwrap();
    rest.split_once(']').unwrap().0.to_owned()
}

/// Resident memory of a process, KiB, and its number of open descriptors.
fn held(id: &str) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
    (kib, descriptors.count())
}

#[test]
fn a_session_of_many_transfers_grows_in_nothing() {
    let Some(folder) = or_skip(ProftpdFolder::new()) else {
        return;
    };
    // Each question that the memory of the last ten seconds does not answer meets another answer.
    let advisor = TestAdvisor::answering(vec![by(&json!(other_control()), 0.1), Reply::Failure]);
    let server = asking(&folder, &advisor.url(), "FairwindMinimumBytes 0");
    folder.serve("x", &noise(2_000));
    let mut client = alice(server.address);
    let mut transfer = |count| {
        for _ in 0..count {
            assert_eq!(fetch(&mut client, "RETR x").len(), 2_000);
        }
    };
    transfer(100);
    let before = held(&session(&folder));
    transfer(500);
    let after = held(&session(&folder));
    assert_eq!(after.1, before.1, "descriptors");
    assert!(after.0 <= before.0 + 256, "{before:?} {after:?}");
}
