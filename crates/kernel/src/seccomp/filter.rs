//! The filter: a program of classic BPF that stops system calls by which TCP connections begin.
//!
//! Source: seccomp(2), syscalls(2), socketcall(2); include/uapi/linux/{audit,filter,net}.h and the tables of system calls
//! of Linux. By hand, as seccompiler has no filters that ask, and libseccomp is a library that hosts may lack.

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_RET_ALLOW,
    SECCOMP_RET_USER_NOTIF, sock_filter,
};

/// A system call that is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `connect`.
    Connect,
    /// `sendto`, `sendmsg` or `sendmmsg` with `MSG_FASTOPEN`, which connect as well.
    FastOpen,
    /// `listen`.
    Listen,
    /// `setsockopt(TCP_CONGESTION)`.
    ChooseControl,
    /// `io_uring_setup`: what is asked for by that is not seen.
    IoUring,
    /// `socketcall` of 32-bit programs, which is one of the others.
    Multiplexed,
}

/// The numbers of one ABI.
struct Abi {
    /// `AUDIT_ARCH_…`
    arch: u32,
    calls: &'static [(u32, Stopped)],
}

/// When a call is stopped.
#[derive(Clone, Copy)]
enum Stopped {
    Always(Call),
    /// If this argument has `MSG_FASTOPEN`.
    FastOpen(u32),
    /// If it chooses a congestion control.
    Option,
    /// If it is one of those, by the number in its first argument. Fast Open is not seen there.
    Multiplexed,
}

use Call::{Connect, IoUring, Listen};
use Stopped::{Always, FastOpen, Multiplexed};

/// Those of 64-bit and 32-bit programs on the machines that fairwind is for. Calls of others pass.
const ABIS: [Abi; 4] = [
    // x86-64, and x32 (bit 30).
    Abi {
        arch: 0xc000_003e,
        calls: &[
            (42, Always(Connect)),
            (50, Always(Listen)),
            (44, FastOpen(3)),
            (46, FastOpen(2)),
            (307, FastOpen(3)),
            (54, Stopped::Option),
            (425, Always(IoUring)),
            (0x4000_002a, Always(Connect)),
            (0x4000_0032, Always(Listen)),
            (0x4000_002c, FastOpen(3)),
            (0x4000_0206, FastOpen(2)),
            (0x4000_021a, FastOpen(3)),
            (0x4000_021d, Stopped::Option),
            (0x4000_01a9, Always(IoUring)),
        ],
    },
    // i386.
    Abi {
        arch: 0x4000_0003,
        calls: &[
            (102, Multiplexed),
            (362, Always(Connect)),
            (363, Always(Listen)),
            (369, FastOpen(3)),
            (370, FastOpen(2)),
            (345, FastOpen(3)),
            (366, Stopped::Option),
            (425, Always(IoUring)),
        ],
    },
    // aarch64.
    Abi {
        arch: 0xc000_00b7,
        calls: &[
            (203, Always(Connect)),
            (201, Always(Listen)),
            (206, FastOpen(3)),
            (211, FastOpen(2)),
            (269, FastOpen(3)),
            (208, Stopped::Option),
            (425, Always(IoUring)),
        ],
    },
    // arm.
    Abi {
        arch: 0x4000_0028,
        calls: &[
            (283, Always(Connect)),
            (284, Always(Listen)),
            (290, FastOpen(3)),
            (296, FastOpen(2)),
            (374, FastOpen(3)),
            (294, Stopped::Option),
            (425, Always(IoUring)),
        ],
    },
];

/// Numbers of `socketcall`.
const SYS_CONNECT: u32 = 3;
const SYS_LISTEN: u32 = 4;
const SYS_SETSOCKOPT: u32 = 14;

const MSG_FASTOPEN: u32 = libc::MSG_FASTOPEN as u32;
const IPPROTO_TCP: u32 = libc::IPPROTO_TCP as u32;
const TCP_CONGESTION: u32 = libc::TCP_CONGESTION as u32;

/// Offsets in `struct seccomp_data`.
const NR: u32 = 0;
const ARCH: u32 = 4;

/// That of the lower half of an argument.
const fn argument(at: u32) -> u32 {
    16 + 8 * at + if cfg!(target_endian = "big") { 4 } else { 0 }
}

impl Call {
    /// Which call an ABI's number and first argument are; `None` if the filter does not stop it.
    pub(super) fn of(arch: u32, number: u32) -> Option<Call> {
        let abi = ABIS.iter().find(|abi| abi.arch == arch)?;
        let (_, stopped) = abi.calls.iter().find(|(one, _)| *one == number)?;
        Some(match stopped {
            Always(call) => *call,
            FastOpen(_) => Call::FastOpen,
            Stopped::Option => Call::ChooseControl,
            Multiplexed => Call::Multiplexed,
        })
    }

    /// Which one a `socketcall` is, by its first argument.
    pub(super) fn of_multiplexed(number: u32) -> Option<Call> {
        match number {
            SYS_CONNECT => Some(Connect),
            SYS_LISTEN => Some(Listen),
            SYS_SETSOCKOPT => Some(Call::ChooseControl),
            _ => None,
        }
    }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

fn load(offset: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, offset)
}

/// Goes on if the loaded word is `k`, and otherwise behind so many instructions.
fn unless_equal(k: u32, skip: usize) -> sock_filter {
    sock_filter {
        jf: u8::try_from(skip).expect("blocks are short"),
        ..statement(BPF_JMP | BPF_JEQ | BPF_K, k)
    }
}

/// Passes over the next instruction unless the loaded word has a bit of `k`.
fn unless_set(k: u32) -> sock_filter {
    sock_filter {
        jf: 1,
        ..statement(BPF_JMP | BPF_JSET | BPF_K, k)
    }
}

fn stop() -> sock_filter {
    statement(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
}

fn allow() -> sock_filter {
    statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
}

/// What follows when a number is that of the call.
fn condition(stopped: Stopped) -> Vec<sock_filter> {
    match stopped {
        Always(_) => vec![stop()],
        FastOpen(at) => vec![
            load(argument(at)),
            unless_set(MSG_FASTOPEN),
            stop(),
            allow(),
        ],
        Stopped::Option => vec![
            load(argument(1)),
            unless_equal(IPPROTO_TCP, 3),
            load(argument(2)),
            unless_equal(TCP_CONGESTION, 1),
            stop(),
            allow(),
        ],
        Multiplexed => vec![
            load(argument(0)),
            unless_equal(SYS_CONNECT, 1),
            stop(),
            unless_equal(SYS_LISTEN, 1),
            stop(),
            unless_equal(SYS_SETSOCKOPT, 1),
            stop(),
            allow(),
        ],
    }
}

/// The whole filter.
pub(super) fn program() -> Vec<sock_filter> {
    let mut program = vec![load(ARCH)];
    for abi in &ABIS {
        let mut block = vec![load(NR)];
        for (number, stopped) in abi.calls {
            let condition = condition(*stopped);
            block.push(unless_equal(*number, condition.len()));
            block.extend(condition);
        }
        block.push(allow());
        program.push(unless_equal(abi.arch, block.len()));
        program.extend(block);
    }
    program.push(allow());
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86_64: u32 = 0xc000_003e;
    const I386: u32 = 0x4000_0003;

    /// What the filter returns, by the kernel's rules for the instructions that it has.
    fn returned(arch: u32, number: u32, arguments: [u64; 4]) -> u32 {
        let mut data = Vec::from(number.to_ne_bytes());
        data.extend(arch.to_ne_bytes());
        data.extend([0; 8]);
        for argument in arguments {
            data.extend(argument.to_ne_bytes());
        }
        let program = program();
        let (mut at, mut word) = (0, 0);
        loop {
            let one = program[at];
            at += 1;
            let jump = |is_met: bool| usize::from(if is_met { one.jt } else { one.jf });
            match u32::from(one.code) {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    let bytes = &data[one.k as usize..][..4];
                    word = u32::from_ne_bytes(bytes.try_into().unwrap());
                }
                code if code == BPF_JMP | BPF_JEQ | BPF_K => at += jump(word == one.k),
                code if code == BPF_JMP | BPF_JSET | BPF_K => at += jump(word & one.k != 0),
                code if code == BPF_RET | BPF_K => return one.k,
                code => panic!("instruction {code}"),
            }
        }
    }

    fn is_stopped(arch: u32, number: u32, arguments: [u64; 4]) -> bool {
        returned(arch, number, arguments) == SECCOMP_RET_USER_NOTIF
    }

    #[test]
    fn connecting_and_listening_are_stopped_and_others_pass() {
        assert!(is_stopped(X86_64, 42, [3, 0, 16, 0]));
        assert!(is_stopped(X86_64, 50, [3, 128, 0, 0]));
        assert!(is_stopped(X86_64, 0x4000_002a, [3, 0, 16, 0]));
        assert!(!is_stopped(X86_64, 0, [3, 0, 16, 0]));
        assert!(!is_stopped(X86_64, 288, [3, 0, 0, 0]));
        assert!(is_stopped(I386, 362, [3, 0, 16, 0]));
        // Number 42 is `pipe` there.
        assert!(!is_stopped(I386, 42, [3, 0, 16, 0]));
        assert!(is_stopped(0xc000_00b7, 203, [3, 0, 16, 0]));
        // s390x.
        assert!(!is_stopped(0x8000_0016, 362, [3, 0, 16, 0]));
    }

    #[test]
    fn data_goes_freely_unless_it_connects() {
        assert!(!is_stopped(X86_64, 44, [3, 0, 100, 0x4000]));
        assert!(is_stopped(X86_64, 44, [3, 0, 100, 0x2000_4000]));
        assert!(is_stopped(X86_64, 46, [3, 0, 0x2000_0000, 0]));
        assert!(!is_stopped(X86_64, 46, [3, 0, 0, 0x2000_0000]));
    }

    #[test]
    fn of_options_the_congestion_control_alone_is_stopped() {
        // Only the lower half counts.
        assert!(is_stopped(X86_64, 54, [3, 6, 1 << 32 | 13, 0]));
        assert!(!is_stopped(X86_64, 54, [3, 6, 1, 0]));
        assert!(!is_stopped(X86_64, 54, [3, 1, 13, 0]));
    }

    #[test]
    fn calls_in_a_call_are_told_apart() {
        for (number, stopped) in [(1, false), (3, true), (4, true), (11, false), (14, true)] {
            assert_eq!(
                is_stopped(I386, 102, [number, 0, 0, 0]),
                stopped,
                "{number}"
            );
        }
        assert_eq!(Call::of(I386, 102), Some(Call::Multiplexed));
        assert_eq!(Call::of_multiplexed(4), Some(Call::Listen));
    }

    #[test]
    fn what_is_stopped_has_a_name() {
        assert_eq!(Call::of(X86_64, 42), Some(Call::Connect));
        assert_eq!(Call::of(X86_64, 54), Some(Call::ChooseControl));
        assert_eq!(Call::of(X86_64, 46), Some(Call::FastOpen));
        assert_eq!(Call::of(X86_64, 425), Some(Call::IoUring));
        assert_eq!(Call::of(X86_64, 1), None);
    }
}
