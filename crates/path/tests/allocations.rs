//! A pipe allocates no more memory once it has seen its longest queue.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use fairwind_path::codel::CoDelConfig;
use fairwind_path::dualpi2::DualPi2Config;
use fairwind_path::fq_codel::FqCoDelConfig;
use fairwind_path::loss::LossConfig;
use fairwind_path::pie::PieConfig;
use fairwind_path::pipe::{Aqm, Offer, Pipe, PipeConfig};
use fairwind_path::queue::Capacity;
use fairwind_path::rate::Rate;
use fairwind_path::red::RedConfig;
use fairwind_path::scheduler::SchedulerConfig;
use fairwind_path::units::{Bandwidth, Duration, Time};

struct Counting;

thread_local! {
    /// Counted per thread, because the test harness allocates in its own.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: each call is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from the system's allocator with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bursts of 100 packets at nine tenths of the bandwidth.
fn run(pipe: &mut Pipe<u64>, bursts: std::ops::Range<u64>) {
    for burst in bursts {
        let now = Time::ZERO + Duration::from_micros(24_000 * 10 / 9) * burst;
        for packet in 0..100 {
            while pipe.depart(now).is_some() {}
            let offer = Offer {
                class: (packet % 3) as u16,
                flow: (packet % 3) as u32,
                ..Offer::of(1500)
            };
            pipe.arrive(now, offer, packet);
        }
    }
}

#[test]
fn packets_cost_no_allocation_in_the_long_run() {
    let plain = PipeConfig {
        bandwidth: Rate::Constant(Bandwidth::from_mbps(50)),
        capacity: Capacity::Packets(1000),
        ..PipeConfig::default()
    };
    let configs = [
        plain.clone(),
        PipeConfig {
            loss: LossConfig::Bernoulli(0.1),
            aqm: Aqm::Red(RedConfig::default()),
            ..plain.clone()
        },
        PipeConfig {
            aqm: Aqm::CoDel(CoDelConfig::default()),
            ..plain.clone()
        },
        PipeConfig {
            aqm: Aqm::FqCoDel(FqCoDelConfig::default()),
            ..plain.clone()
        },
        PipeConfig {
            aqm: Aqm::DualPi2(DualPi2Config::default()),
            ..plain.clone()
        },
        PipeConfig {
            aqm: Aqm::Pie(PieConfig::default()),
            ..plain.clone()
        },
        PipeConfig {
            scheduler: SchedulerConfig::Wf2q {
                weights: vec![40, 20, 1],
            },
            ..plain
        },
    ];
    for config in configs {
        let mut pipe = Pipe::new(&config, 1);
        run(&mut pipe, 0..100);
        let before = ALLOCATIONS.get();
        run(&mut pipe, 100..1_000);
        let allocations = ALLOCATIONS.get() - before;
        assert_eq!(allocations, 0, "{config:?}");
    }
}
