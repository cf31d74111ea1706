//! What connections of the running kernel are advised of their paths.
//!
//! Needs the privileges to load eBPF. Without them, the tests are skipped, or fail if the variable
//! FAIRWIND_NO_SKIPS is set.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use fairwind_cc::AdvisedStart;
use fairwind_cc::kernel::{self, AdvisedStarts, Destination};
use fairwind_cc::native;
use fairwind_testing::permitted;

/// 1 Gbit/s and 100 ms, until nanosecond 7.
fn start() -> AdvisedStart {
    AdvisedStart::new(125_000_000, 100_000, 7).unwrap()
}

fn to(prefix: &str, bits: u32) -> Destination {
    Destination::new(4_026_531_840, prefix.parse().unwrap(), bits).unwrap()
}

/// With the advice of a copy of this control, under this name.
fn with_control(control: &str, name: &str, check: impl FnOnce(Option<AdvisedStarts>)) {
    if !permitted(kernel::check_requirements()) {
        return;
    }
    let parameters = native::find(control).unwrap().default_parameters();
    let loaded = kernel::load_as(&parameters, name).unwrap();
    check(loaded.advised_starts());
}

#[test]
fn destinations_are_advised_replaced_and_forgotten() {
    with_control("cubic", "fw_cubic_t_dest", |advised| {
        let advised = advised.unwrap();
        assert_eq!(advised.destinations().unwrap(), []);
        advised.advise(&to("192.0.2.0", 24), &start()).unwrap();
        let later = start().until(9);
        advised.advise(&to("192.0.2.99", 24), &later).unwrap();
        advised.advise(&to("2001:db8::", 32), &start()).unwrap();
        let mut all = advised.destinations().unwrap();
        all.sort_by_key(|(to, _)| to.prefix());
        assert_eq!(
            all,
            [
                (to("192.0.2.0", 24), later),
                (to("2001:db8::", 32), start())
            ]
        );
        assert!(advised.withdraw(&to("192.0.2.0", 24)).unwrap());
        assert!(!advised.withdraw(&to("192.0.2.0", 24)).unwrap());
        assert_eq!(advised.destinations().unwrap().len(), 1);
    });
}

#[test]
fn a_connection_is_advised_by_its_socket_and_nothing_else_is() {
    with_control("reno", "fw_reno_t_sock", |advised| {
        let advised = advised.unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        advised.advise_socket(&stream, &start()).unwrap();
        let (_one, other) = std::io::pipe().unwrap();
        assert!(advised.advise_socket(&other, &start()).is_err());
        // Sockets of other families are accepted by the kernel, and no control looks at them.
        let (unix, _) = UnixStream::pair().unwrap();
        advised.advise_socket(&unix, &start()).unwrap();
    });
}

#[test]
fn a_control_that_takes_no_advice_has_no_place_for_it() {
    with_control("nocc", "fw_nocc_t_adv", |advised| {
        assert!(advised.is_none())
    });
}

#[test]
fn native_and_loaded_controls_agree_who_takes_advice() {
    for control in native::all() {
        let object = kernel::object(control.name()).unwrap();
        let map = b"advised_paths\0";
        let has_map = object.windows(map.len()).any(|bytes| bytes == map);
        assert_eq!(has_map, control.takes_advised_start(), "{}", control.name());
    }
}
