//! The checks that builds for tests have in the C of the controls.

use std::process::Command;

unsafe extern "C" {
    safe fn fairwind_faulty_quotient(dividend: i32, divisor: i32) -> i32;
    safe fn fairwind_faulty_shift(by: i32) -> i32;
    safe fn fairwind_faulty_sum(one: i32, other: i32) -> i32;
}

/// Names the fault that a process of its own is to have.
const FAULT: &str = "FAIRWIND_FAULT_OF_A_TEST";

/// What this test program writes to standard error when it runs the test of this name with the fault, and whether it
/// ends well.
fn with_fault(fault: &str) -> (String, bool) {
    let run = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "checks::a_fault_ends_the_program_and_is_located",
            "--nocapture",
        ])
        .env(FAULT, fault)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    (said, run.status.success())
}

#[test]
fn a_fault_ends_the_program_and_is_located() {
    match std::env::var(FAULT).as_deref() {
        Ok("quotient") => drop(std::hint::black_box(fairwind_faulty_quotient(1, 0))),
        Ok("shift") => drop(std::hint::black_box(fairwind_faulty_shift(32))),
        Ok("sum") => drop(std::hint::black_box(fairwind_faulty_sum(i32::MAX, 1))),
        Ok(_) => drop(std::hint::black_box(fairwind_faulty_sum(i32::MAX, -1))),
        Err(_) => {
            for (fault, what) in [
                (
                    "quotient",
                    "faulty.c:10:18: undefined behaviour: a division by zero, or one that overflows\n",
                ),
                (
                    "shift",
                    "faulty.c:15:11: undefined behaviour: a shift by too much, or of a negative integer\n",
                ),
                (
                    "sum",
                    "faulty.c:20:13: undefined behaviour: a sum of signed integers overflows\n",
                ),
            ] {
                let (said, ends_well) = with_fault(fault);
                assert!(said.contains(what), "{fault}: {said}");
                assert!(!ends_well, "{fault}");
            }
            assert!(with_fault("none").1);
        }
    }
}
