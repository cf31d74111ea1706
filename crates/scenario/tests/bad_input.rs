//! Invalid experiment files: each message has the place, the line and a correction.

use std::fs;
use std::path::Path;

use fairwind_scenario::Experiment;

/// A valid file; tests break it in one place.
const GOOD: &str = r#"title = "two hosts"
duration = "10s"

[[link]]
name = "bottleneck"
between = ["server", "client"]
bandwidth = "10Mbit/s"
delay = "10ms"

[[flow]]
name = "one"
from = "server"
to = "client"
congestion_control = "reno"
"#;

fn messages(text: &str, set: &[&str]) -> String {
    let set: Vec<String> = set.iter().map(|s| s.to_string()).collect();
    Experiment::parse(text, "x.toml", Path::new(""), &set)
        .expect_err("the file is wrong")
        .to_string()
}

/// The message for the valid file with one piece replaced.
fn broken(right: &str, wrong: &str) -> String {
    assert_eq!(GOOD.matches(right).count(), 1, "{right}");
    messages(&GOOD.replace(right, wrong), &[])
}

#[test]
fn the_good_file_is_good() {
    Experiment::parse(GOOD, "x.toml", Path::new(""), &[]).unwrap();
}

#[test]
fn an_unknown_field_is_named_with_the_one_that_was_meant() {
    assert_eq!(
        broken("bandwidth = ", "bandwith = "),
        "\
x.toml:7:1: unknown field `bandwith` in link
  7 | bandwith = \"10Mbit/s\"
    | ^^^^^^^^
  help: did you mean `bandwidth`?"
    );
}

#[test]
fn an_unknown_field_of_the_file_is_answered_with_the_known_ones() {
    assert_eq!(
        broken("title = \"two hosts\"", "colour = \"red\""),
        "\
x.toml:1:1: unknown field `colour` in file
  1 | colour = \"red\"
    | ^^^^^^
  help: known here: title, duration, warmup, seeds, stack, accounting, mss, hz, tcp_rmem, \
tcp_wmem, time_scale, record, link, flow"
    );
}

#[test]
fn a_kernel_clock_that_kernels_do_not_have_is_refused() {
    assert_eq!(
        broken("title = \"two hosts\"", "hz = 500"),
        "\
x.toml:1:6: 500 jiffies a second
  1 | hz = 500
    |      ^^^
  help: write 100, 250 or 1000, which kernels are built with"
    );
}

#[test]
fn a_wrong_unit_is_answered_with_the_right_one() {
    assert_eq!(
        broken("\"10Mbit/s\"", "\"10Mbps\""),
        "\
x.toml:7:13: `Mbps` is not a unit of a bandwidth
  7 | bandwidth = \"10Mbps\"
    |             ^^^^^^^^
  help: write \"10Mbit/s\""
    );
    assert_eq!(
        broken("\"10ms\"", "\"10kB\""),
        "\
x.toml:8:9: `kB` is not a unit of a time
  8 | delay = \"10kB\"
    |         ^^^^^^
  help: units of a time are ns, us, ms, s, min, h: \"10ms\""
    );
}

#[test]
fn a_number_without_a_unit_is_refused() {
    assert_eq!(
        broken("\"10s\"", "10"),
        "\
x.toml:2:12: 10 has no unit
  2 | duration = 10
    |            ^^
  help: write a number and a unit in quotes, such as \"10ms\""
    );
}

#[test]
fn a_quantity_without_quotes_is_shown_with_them() {
    assert_eq!(
        broken("\"10s\"", "10s"),
        "\
x.toml:2:12: not TOML: string values must be quoted, expected literal string
  2 | duration = 10s
    |            ^^^
  help: texts and quantities must be quoted: duration = \"10s\""
    );
}

#[test]
fn a_negative_delay_is_refused() {
    assert_eq!(
        broken("\"10ms\"", "\"-10ms\""),
        "\
x.toml:8:9: \"-10ms\" is negative
  8 | delay = \"-10ms\"
    |         ^^^^^^^
  help: write a time of 0 or more, such as \"10ms\""
    );
}

#[test]
fn a_control_that_does_not_exist_is_named_with_the_nearest() {
    assert_eq!(
        broken("\"reno\"", "\"remo\""),
        "\
x.toml:14:22: there is no congestion control `remo`
  14 | congestion_control = \"remo\"
     |                      ^^^^^^
  help: did you mean `reno`?"
    );
}

#[test]
fn a_host_that_no_link_names_is_refused() {
    assert_eq!(
        broken("to = \"client\"", "to = \"cleint\""),
        "\
x.toml:13:6: no link has an end `cleint`
  13 | to = \"cleint\"
     |      ^^^^^^^^
  help: did you mean `client`?"
    );
}

#[test]
fn a_host_without_a_route_is_named_with_the_one_that_cannot_reach_it() {
    let island = "[[link]]\nbetween = [\"moon\", \"mars\"]\n\n[[flow]]\n";
    let text = GOOD
        .replace("[[flow]]\n", island)
        .replace("to = \"client\"", "to = \"mars\"");
    assert_eq!(
        messages(&text, &[]),
        "\
x.toml:16:6: no route from `server` to `mars`
  16 | to = \"mars\"
     |      ^^^^^^
  help: from `server` links lead only to `client`; add a [[link]] that joins the two parts"
    );
}

#[test]
fn a_missing_field_is_shown_as_it_would_be_written() {
    assert_eq!(
        broken("between = [\"server\", \"client\"]\n", ""),
        "\
x.toml:4:1: link without `between`
  4 | [[link]]
    | ^^^^^^^^
  help: add between = [\"a\", \"b\"]"
    );
    assert_eq!(
        broken("duration = \"10s\"\n", ""),
        "\
x.toml:1:1: file without `duration`
  1 | title = \"two hosts\"
    | ^
  help: add duration = \"60s\""
    );
}

#[test]
fn several_errors_are_reported_together_in_the_order_of_the_text() {
    let text = GOOD
        .replace("\"10ms\"", "\"-10ms\"")
        .replace("bandwidth", "bandwith")
        .replace("\"reno\"", "\"remo\"");
    let places: Vec<String> = messages(&text, &[])
        .lines()
        .filter(|line| line.starts_with("x.toml"))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        places,
        [
            "x.toml:7:1: unknown field `bandwith` in link",
            "x.toml:8:9: \"-10ms\" is negative",
            "x.toml:14:22: there is no congestion control `remo`",
        ]
    );
}

#[test]
fn a_table_of_an_unknown_kind_is_answered_with_the_known_kinds() {
    assert_eq!(
        broken("delay = \"10ms\"", "aqm = { kind = \"blue\" }"),
        "\
x.toml:8:16: \"blue\" is not known here
  8 | aqm = { kind = \"blue\" }
    |                ^^^^^^
  help: known here: drop-tail, red, codel, pie, fq-codel, dualpi2"
    );
}

#[test]
fn red_thresholds_must_rise() {
    assert_eq!(
        broken(
            "delay = \"10ms\"",
            "aqm = { kind = \"red\", min_th = 15, max_th = 5 }"
        ),
        "\
x.toml:8:45: max_th 5 is not above min_th 15
  8 | aqm = { kind = \"red\", min_th = 15, max_th = 5 }
    |                                             ^
  help: write max_th = 45"
    );
}

#[test]
fn a_probability_is_at_most_one() {
    assert_eq!(
        broken("delay = \"10ms\"", "loss = 5"),
        "\
x.toml:8:8: 5 is out of range
  8 | loss = 5
    |        ^
  help: write a number from 0 to 1"
    );
}

#[test]
fn a_weight_for_nobody_is_refused() {
    assert_eq!(
        broken(
            "delay = \"10ms\"",
            "scheduler = { kind = \"wf2q+\", weights = { serber = 40 } }"
        ),
        "\
x.toml:8:43: no flow and no host is called `serber`
  8 | scheduler = { kind = \"wf2q+\", weights = { serber = 40 } }
    |                                           ^^^^^^
  help: did you mean `server`?"
    );
}

#[test]
fn weights_for_nobody_at_all_are_refused() {
    assert_eq!(
        broken(
            "delay = \"10ms\"",
            "scheduler = { kind = \"priority\", order = [\"x\"] }"
        ),
        "\
x.toml:8:43: no flow and no host is called `x`
  8 | scheduler = { kind = \"priority\", order = [\"x\"] }
    |                                           ^^^
  help: known here: one, server, client"
    );
}

#[test]
fn a_parameter_out_of_range_is_answered_with_its_range_in_its_unit() {
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "congestion_control = \"sfsack\"\nparameters = { tau = \"1us\" }"
        ),
        "\
x.toml:15:22: `tau` is out of range
  15 | parameters = { tau = \"1us\" }
     |                      ^^^^^
  help: write a time from \"1000us\" to \"10000000us\""
    );
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "congestion_control = \"cubic\"\nparameters = { hystart = \"yes\" }"
        ),
        "\
x.toml:15:26: a text is not what `hystart` takes
  15 | parameters = { hystart = \"yes\" }
     |                          ^^^^^
  help: write true or false"
    );
}

#[test]
fn a_link_may_not_take_the_name_of_another_ones_reverse() {
    let text = GOOD.replace(
        "[[flow]]",
        "[[link]]\nname = \"bottleneck.reverse\"\nbetween = [\"client\", \"x\"]\n\n[[flow]]",
    );
    assert!(
        messages(&text, &[]).contains("duplicate link name `bottleneck.reverse`"),
        "{}",
        messages(&text, &[])
    );
}

#[test]
fn a_queue_that_holds_no_packet_is_refused() {
    assert_eq!(
        broken("delay = \"10ms\"", "queue = \"1kB\""),
        "\
x.toml:5:8: the queue of link `bottleneck`, 1000 bytes, holds no packet of flow `one`, 1500 bytes
  5 | name = \"bottleneck\"
    |        ^^^^^^^^^^^^
  help: write a queue of \"1500B\" or more"
    );
}

#[test]
fn a_policer_that_passes_no_packet_is_refused() {
    let policer = "policer = { rate = \"1Mbit/s\", burst = \"1kB\" }";
    assert_eq!(
        broken("delay = \"10ms\"", policer),
        "\
x.toml:5:8: the policer of link `bottleneck` passes no packet of flow `one`, 1500 bytes, with a burst of 1000B
  5 | name = \"bottleneck\"
    |        ^^^^^^^^^^^^
  help: write a burst of \"1500B\" or more"
    );
}

#[test]
fn an_aqm_that_schedules_takes_no_scheduler() {
    let both =
        "aqm = { kind = \"fq-codel\" }\nscheduler = { kind = \"priority\", order = [\"one\"] }";
    assert_eq!(
        broken("delay = \"10ms\"", both),
        "\
x.toml:9:13: this AQM decides itself which packet goes next
  9 | scheduler = { kind = \"priority\", order = [\"one\"] }
    |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: leave the scheduler out, or take another aqm"
    );
}

#[test]
fn pie_is_not_updated_all_the_time() {
    assert_eq!(
        broken(
            "delay = \"10ms\"",
            "aqm = { kind = \"pie\", tupdate = \"1us\" }"
        ),
        "\
x.toml:8:33: 1us is too short
  8 | aqm = { kind = \"pie\", tupdate = \"1us\" }
    |                                 ^^^^^
  help: write at least tupdate = \"100us\""
    );
}

#[test]
fn two_flows_of_one_name_are_refused() {
    let twice = format!("{GOOD}\n[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n");
    assert_eq!(
        messages(&twice, &[]),
        "\
x.toml:17:8: a second flow is called `one`
  17 | name = \"one\"
     |        ^^^^^
  help: give it a name of its own: name = \"…\""
    );
}

#[test]
fn a_copy_may_not_take_the_name_of_another_flow() {
    let text = GOOD.replace("name = \"one\"", "name = \"one\"\ncount = 2")
        + "\n[[flow]]\nname = \"one-2\"\nfrom = \"client\"\nto = \"server\"\n";
    assert!(messages(&text, &[]).contains("a second flow is called `one-2`"));
}

#[test]
fn a_parameter_that_the_control_lacks_is_refused() {
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "congestion_control = \"reno\"\nparameters = { tau = \"50ms\" }"
        ),
        "\
x.toml:15:16: `reno` has no parameter `tau`
  15 | parameters = { tau = \"50ms\" }
     |                ^^^
  help: leave it out: `reno` has no parameters"
    );
}

#[test]
fn a_control_that_takes_no_advice_gets_none() {
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "congestion_control = \"nocc\"\nadvised_start = { rate = \"1Mbit/s\", rtt = \"50ms\" }"
        ),
        "\
x.toml:15:17: `advised_start` with a congestion control that takes none
  15 | advised_start = { rate = \"1Mbit/s\", rtt = \"50ms\" }
     |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: leave it out, or choose one of cubic, fairwind, reno"
    );
}

#[test]
fn advice_of_no_path_is_refused() {
    for start in [
        "{ rate = \"7bit/s\", rtt = \"50ms\" }",
        "{ rate = \"1Mbit/s\", rtt = \"11s\" }",
    ] {
        let message = broken(
            "congestion_control = \"reno\"",
            &format!("advised_start = {start}"),
        );
        let help = "write a rate from 8bit/s to 8Tbit/s and an rtt from 2us to 10s";
        assert!(message.contains(help), "{message}");
    }
}

#[test]
fn switches_stand_in_the_order_of_their_times() {
    let switch = |at: &str| format!("{{ at = \"{at}\", congestion_control = \"nocc\" }}");
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            &format!("switch = [{}, {}]", switch("5s"), switch("5s")),
        )
        .lines()
        .next(),
        Some("x.toml:14:55: a switch at 5s after one at 5s")
    );
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "switch = [{ at = \"5s\" }]"
        ),
        "\
x.toml:14:11: switch without `congestion_control`
  14 | switch = [{ at = \"5s\" }]
     |           ^^^^^^^^^^^^^
  help: add congestion_control = \"nocc\""
    );
}

#[test]
fn a_control_to_switch_to_is_checked_as_the_first_one() {
    let said = broken(
        "congestion_control = \"reno\"",
        "switch = [{ at = \"5s\", congestion_control = \"noc\", parameters = {} }]",
    );
    assert!(
        said.contains("there is no congestion control `noc`")
            && said.contains("did you mean `nocc`?"),
        "{said}"
    );
}

#[test]
fn a_single_switch_needs_its_list() {
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "switch = { at = \"5s\", congestion_control = \"nocc\" }"
        )
        .lines()
        .last(),
        Some("  help: write a list: [{ at = \"60s\", congestion_control = \"nocc\" }]")
    );
}

#[test]
fn a_name_far_from_all_is_answered_with_all_and_the_way_to_name_any() {
    let own = fairwind_cc::native::all();
    let own = Vec::from_iter(own.iter().map(|control| control.name())).join(", ");
    assert_eq!(
        broken("\"reno\"", "\"swiftest\"").lines().last(),
        Some(
            format!(
                "  help: known here: {own}; of the kernel: bic, cdg, dctcp, highspeed, htcp, hybla, \
                 illinois, nv, scalable, vegas, veno, westwood, yeah; another one of the kernel's is \
                 written \"kernel:NAME\""
            )
            .as_str()
        )
    );
}

#[test]
fn a_name_too_long_for_the_kernel_is_refused() {
    assert_eq!(
        broken("\"reno\"", "\"kernel:bbr_but_much_better\""),
        "\
x.toml:14:22: \"bbr_but_much_better\" is not a valid name of a kernel congestion control
  14 | congestion_control = \"kernel:bbr_but_much_better\"
     |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  help: write 1 to 15 characters without space after kernel:"
    );
}

#[test]
fn a_control_of_the_kernel_takes_no_parameters() {
    assert_eq!(
        broken("\"reno\"", "\"vegas\"\nparameters = { gain = 2 }"),
        "\
x.toml:15:14: `parameters` with `vegas`
  15 | parameters = { gain = 2 }
     |              ^^^^^^^^^^^^
  help: leave it out: only fairwind's own controls take parameters; `fairwind cc list` prints them"
    );
}

#[test]
fn a_command_must_be_one() {
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "application = { kind = \"command\", client = \" \" }"
        ),
        "\
x.toml:14:44: \" \" is not a command
  14 | application = { kind = \"command\", client = \" \" }
     |                                            ^^^
  help: write what a shell would run, such as \"iperf3 -c {to}\""
    );
}

#[test]
fn what_a_connection_is_given_is_refused_for_programs() {
    for field in [
        "switch = [{ at = \"5s\", congestion_control = \"nocc\" }]",
        "send_buffer = \"1MB\"",
        "receive_buffer = \"1MB\"",
        "mss = 536",
        "pacing = true",
    ] {
        let command = "application = { kind = \"command\", client = \"iperf3 -c {to}\" }";
        let said = broken(
            "congestion_control = \"reno\"",
            &format!("{field}\n{command}"),
        );
        let name = field.split(' ').next().unwrap();
        let expected = format!("`{name}` with the application `command`");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_trace_does_not_stand_still() {
    assert_eq!(
        messages(GOOD, &["time_scale=0"]),
        "\
--set:1:12: 0 is out of range
  1 | time_scale=0
    |            ^
  help: write a number from 0.001 to 1000"
    );
}

#[test]
fn a_warm_up_as_long_as_the_run_is_refused() {
    assert_eq!(
        broken("duration = \"10s\"", "duration = \"10s\"\nwarmup = \"10s\""),
        "\
x.toml:3:10: a warm-up of 10s in a run of 10s leaves nothing
  3 | warmup = \"10s\"
    |          ^^^^^
  help: write a warm-up shorter than the duration"
    );
}

#[test]
fn a_seed_stands_there_once() {
    assert_eq!(
        broken("duration = \"10s\"", "duration = \"10s\"\nseeds = [1, 1]"),
        "\
x.toml:3:13: seed 1 is listed twice
  3 | seeds = [1, 1]
    |             ^
  help: the same seed gives the same run: write each once"
    );
}

#[test]
fn an_error_in_an_override_is_shown_in_the_override() {
    assert_eq!(
        messages(GOOD, &["link.bottleneck.bandwidth=20Mbps"]),
        "\
--set:1:27: `Mbps` is not a unit of a bandwidth
  1 | link.bottleneck.bandwidth=20Mbps
    |                           ^^^^^^
  help: write \"20Mbit/s\""
    );
    assert_eq!(
        messages(GOOD, &["link.bottleneck.bandwith=20Mbit/s"]),
        "\
--set:1:17: unknown field `bandwith` in link
  1 | link.bottleneck.bandwith=20Mbit/s
    |                 ^^^^^^^^
  help: did you mean `bandwidth`?"
    );
    assert_eq!(
        messages(GOOD, &["link.botleneck.bandwidth=20Mbit/s"]),
        "\
--set:1:6: the file has no link `botleneck`
  1 | link.botleneck.bandwidth=20Mbit/s
    |      ^^^^^^^^^
  help: did you mean `bottleneck`?"
    );
    assert_eq!(
        messages(GOOD, &["duration"]),
        "\
--set:1:1: no value
  1 | duration
    | ^^^^^^^^
  help: write path=value, such as link.bottleneck.bandwidth=20Mbit/s"
    );
    assert_eq!(
        messages(GOOD, &["flow.one.congestion_control=cubik"])
            .lines()
            .next(),
        Some("--set:1:29: there is no congestion control `cubik`")
    );
    assert_eq!(
        messages(GOOD, &["link.bottleneck.delay.trace=x.csv"]),
        "\
--set:1:17: `delay` is not a table in the file
  1 | link.bottleneck.delay.trace=x.csv
    |                 ^^^^^
  help: set it whole: delay={ trace = ... }"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Experiment::load(Path::new("nowhere/none.toml"), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nowhere/none.toml: cannot be read: No such file or directory (os error 2)\n  \
         help: name an experiment file in TOML"
    );
}

#[test]
fn a_file_that_is_not_text_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.toml");
    fs::write(&file, b"title = \"\n\xff\xfe").unwrap();
    let error = Experiment::load(&file, &[]).unwrap_err().to_string();
    assert!(error.contains("x.toml: line 2 is not UTF-8\n  help: save the file as UTF-8"));
}

/// The message for a trace of this text as the bottleneck's bandwidth, without the folder.
fn trace_message(trace: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rate.csv"), trace).unwrap();
    let text = GOOD.replace("\"10Mbit/s\"", "{ trace = \"rate.csv\" }");
    let error = Experiment::parse(&text, "x.toml", folder.path(), &[]).unwrap_err();
    let prefix = format!("{}/", folder.path().display());
    error.to_string().replace(&prefix, "")
}

#[test]
fn an_empty_trace_is_refused() {
    assert_eq!(
        trace_message(""),
        "\
rate.csv:1:1: the trace is empty
  1 | 
    | ^
  help: expected lines of time,value"
    );
}

#[test]
fn a_trace_that_goes_back_in_time_is_shown_at_its_line() {
    assert_eq!(
        trace_message("time_s,rate_mbps\n0,1\n2,3\n1,4\n"),
        "\
rate.csv:4:1: the time goes back
  4 | 1,4
    | ^^^
  help: times must not decrease"
    );
}

#[test]
fn a_trace_that_never_lets_anything_pass_is_refused() {
    assert_eq!(
        trace_message("time_s,rate_mbps\n0,0\n2,0\n"),
        "\
x.toml:7:23: nothing passes at the bandwidth of trace `rate.csv`: it is always 0
  7 | bandwidth = { trace = \"rate.csv\" }
    |                       ^^^^^^^^^^
  help: name a trace with a bandwidth above 0"
    );
}

#[test]
fn a_trace_that_is_not_there_is_named_where_it_is_asked_for() {
    let text = GOOD.replace("\"10Mbit/s\"", "{ trace = \"none.csv\" }");
    assert_eq!(
        messages(&text, &[]),
        "\
x.toml:7:23: trace `none.csv` cannot be read: No such file or directory (os error 2)
  7 | bandwidth = { trace = \"none.csv\" }
    |                       ^^^^^^^^^^
  help: name a text file; a path is relative to the experiment file"
    );
}

#[test]
fn more_connections_than_memory_are_refused() {
    let text = GOOD.replace("name = \"one\"", "name = \"one\"\ncount = 100000")
        + "\n[[flow]]\nname = \"web\"\nfrom = \"server\"\nto = \"client\"\n\
           application = { kind = \"web\", sessions = 100000 }\ncount = 10\n\
           congestion_control = \"reno\"\n";
    assert_eq!(
        messages(&text, &[]),
        "\
x.toml:18:8: 1100000 connections up to this flow
  18 | name = \"web\"
     |        ^^^^^
  help: write fewer copies or sessions: at most 1000000 in all"
    );
}

#[test]
fn a_way_longer_than_a_packet_lives_is_refused() {
    let mut text = "duration = \"1s\"\n".to_owned();
    for node in 0..256 {
        text += &format!("[[link]]\nbetween = [\"n{node}\", \"n{}\"]\n", node + 1);
    }
    text += "[[flow]]\nfrom = \"n0\"\nto = \"n256\"\ncongestion_control = \"reno\"\n";
    let message = messages(&text, &[]);
    assert!(
        message.contains("the way from `n0` to `n256` has 256 links"),
        "{message}"
    );
}

#[test]
fn every_field_of_tcp_is_refused_for_datagrams() {
    for field in [
        "congestion_control = \"reno\"",
        "parameters = {}",
        "switch = [{ at = \"5s\", congestion_control = \"nocc\" }]",
        "send_buffer = \"1MB\"",
        "stack = \"2005\"",
        "mss = 536",
        "pacing = true",
    ] {
        let constant = "application = { kind = \"constant\", rate = \"1Mbit/s\" }";
        let said = broken(
            "congestion_control = \"reno\"",
            &format!("{field}\n{constant}"),
        );
        let name = field.split(' ').next().unwrap();
        let expected = format!("`{name}` with the application `constant`");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn the_fields_of_tcp_are_refused_for_datagrams() {
    assert_eq!(
        broken(
            "congestion_control = \"reno\"",
            "receive_buffer = \"1MB\"\napplication = { kind = \"constant\", rate = \"1Mbit/s\" }"
        ),
        "\
x.toml:14:18: `receive_buffer` with the application `constant`
  14 | receive_buffer = \"1MB\"
     |                  ^^^^^
  help: leave it out: datagrams have no TCP"
    );
}
