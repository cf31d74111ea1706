//! Every congestion control, loaded into the running kernel, carries data over loopback.
//!
//! Needs the privileges to load eBPF and to create a network namespace. Without them, the tests are
//! skipped, or fail if the variable FAIRWIND_NO_SKIPS is set.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

use fairwind_cc::kernel::{self, Holder, LoadError, Loaded};
use fairwind_cc::native::{self, Control};
use fairwind_kernel::TcpInfo;
use fairwind_testing::{in_new_network_namespace, permitted};
use libbpf_rs::ProgramType;
use libbpf_rs::query::ProgInfoIter;

const BYTES: usize = 8 << 20;

#[test]
fn every_control_carries_data_over_loopback_and_leaves() {
    with_each_loaded(|control, loaded| {
        assert_eq!(loaded.name(), format!("fw_{}", control.name()));
        assert!(is_available(loaded.name()));
        let name = loaded.name().to_owned();
        in_new_network_namespace(move || transfer(&name)).unwrap();
        let name = loaded.name().to_owned();
        drop(loaded);
        assert!(!is_available(&name));
    });
}

/// What the verifier looks at must stay well below its limit of a million instructions, which kernels count differently.
#[test]
fn the_verifier_has_room_to_spare() {
    with_each_loaded(|control, _loaded| {
        let of_control = ProgInfoIter::default()
            .filter(|program| program.ty == ProgramType::StructOps)
            .filter(|program| {
                let name = program.name.to_string_lossy();
                name.starts_with(&format!("{}_", control.name()))
            });
        let verified: Vec<u32> = of_control.map(|program| program.verified_insns).collect();
        let most = *verified.iter().max().expect("programs of the control");
        assert!(most < 500_000, "{}: {most} instructions", control.name());
    });
}

#[test]
fn nocc_gives_the_window_back_that_it_found_if_nothing_was_sent() {
    if !permitted(kernel::check_requirements()) {
        return;
    }
    let nocc = native::find("nocc").unwrap().default_parameters();
    let nocc = kernel::load_as(&nocc, "fw_nocc_t_left").unwrap();
    in_new_network_namespace(move || -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        set_congestion_control(&stream, "reno")?;
        assert_eq!(window(&stream)?, 10);
        set_congestion_control(&stream, nocc.name())?;
        assert_eq!(window(&stream)?, 100_000);
        set_congestion_control(&stream, "reno")?;
        assert_eq!(window(&stream)?, 10);
        assert_eq!(threshold(&stream)?, 0x7fff_ffff);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_name_is_loaded_once() {
    if !permitted(kernel::check_requirements()) {
        return;
    }
    let _one_at_a_time = lock();
    let reno = native::find("reno").unwrap();
    let _first = load(reno).unwrap();
    assert!(matches!(
        load(reno),
        Err(LoadError::AlreadyLoaded { name, holder: Holder::Process { .. } }) if name == "fw_reno"
    ));
    // The kernel's own `reno` is not taken for ours, whose name ends in the same letters.
    assert!(matches!(
        kernel::load_as(&reno.default_parameters(), "reno"),
        Err(LoadError::AlreadyLoaded { name, holder: Holder::Kernel }) if name == "reno"
    ));
}

#[test]
fn copies_have_names_and_parameters_of_their_own() {
    if !permitted(kernel::check_requirements()) {
        return;
    }
    let mut parameters = native::find("nocc").unwrap().default_parameters();
    parameters.set("window", 300).unwrap();
    let small = kernel::load_as(&parameters, "fw_nocc_t_300").unwrap();
    parameters.set("window", 400).unwrap();
    let large = kernel::load_as(&parameters, "fw_nocc_t_40000").unwrap();
    in_new_network_namespace(move || -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        set_congestion_control(&stream, small.name())?;
        assert_eq!(window(&stream)?, 300);
        set_congestion_control(&stream, large.name())?;
        assert_eq!(window(&stream)?, 400);
        Ok(())
    })
    .unwrap();
    assert!(!is_available("fw_nocc_t_300"));
}

#[test]
fn a_name_that_the_kernel_would_not_take_is_refused() {
    if !permitted(kernel::check_requirements()) {
        return;
    }
    let parameters = native::find("reno").unwrap().default_parameters();
    for name in ["", "fw_sixteen_chars", "fw reno"] {
        assert!(matches!(
            kernel::load_as(&parameters, name),
            Err(LoadError::BadName { .. })
        ));
    }
}

/// Loads one control after the other under its default name.
fn with_each_loaded(check: impl Fn(&'static Control, Loaded)) {
    if !permitted(kernel::check_requirements()) {
        return;
    }
    let _one_at_a_time = lock();
    for control in native::all() {
        let loaded = load(control).unwrap_or_else(|error| panic!("{error}"));
        check(control, loaded);
    }
}

/// Loads a control under its default name.
fn load(control: &'static Control) -> Result<Loaded, LoadError> {
    let name = kernel::kernel_name(control.name());
    kernel::load_as(&control.default_parameters(), &name)
}

/// Serializes tests that load a control under its default name, which can exist only once in the
/// kernel.
fn lock() -> File {
    let file = File::create(std::env::temp_dir().join("fairwind-cc-test.lock")).unwrap();
    // SAFETY: the descriptor is open.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0);
    file
}

fn is_available(name: &str) -> bool {
    kernel::available()
        .unwrap()
        .iter()
        .any(|other| other == name)
}

/// Sends bytes over a connection that uses the control and compares what arrives.
fn transfer(control: &str) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let receiver = thread::spawn(move || -> io::Result<Vec<u8>> {
        let mut received = Vec::with_capacity(BYTES);
        listener.accept()?.0.read_to_end(&mut received)?;
        Ok(received)
    });
    let sent: Vec<u8> = (0..BYTES as u64)
        .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8)
        .collect();
    let mut stream = TcpStream::connect(address)?;
    set_congestion_control(&stream, control)?;
    assert_eq!(congestion_control(&stream)?, control);
    stream.write_all(&sent)?;
    assert_eq!(congestion_control(&stream)?, control);
    stream.shutdown(Shutdown::Write)?;
    let received = receiver.join().expect("the receiver does not panic")?;
    assert!(received == sent, "what arrived is not what was sent");
    Ok(())
}

fn set_congestion_control(stream: &TcpStream, name: &str) -> io::Result<()> {
    // SAFETY: the option is a string with its length.
    let failed = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn congestion_control(stream: &TcpStream) -> io::Result<String> {
    let mut name = [0u8; 16];
    let mut len = name.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes.
    let failed = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &mut len,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    let text = name.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// The congestion window, packets.
fn window(stream: &TcpStream) -> io::Result<u32> {
    Ok(TcpInfo::of(stream)?.tcpi_snd_cwnd)
}

fn threshold(stream: &TcpStream) -> io::Result<u32> {
    Ok(TcpInfo::of(stream)?.tcpi_snd_ssthresh)
}
