//! The values printed in the thesis: Tables 1, 3, 4, 6, 7, 9, 10, 13, 14, 17, 18, 20, 21, 23, 24, 26 and 27.

/// Local times of day of the tests: hour and minute.
pub const TIMES: [(i8, i8); 5] = [(0, 15), (3, 25), (7, 25), (14, 25), (21, 10)];

/// The constant that the thesis settles on, for a packet of 1500 bytes and losses in percent.
pub const CONSTANT: f64 = 9.76;

/// Mbit/s observed with a delay of 25 ms and 50 ms, at losses of 1 to 4 %.
pub const OBSERVED: [[Option<f64>; 4]; 2] = [
    [Some(4.1), Some(2.9), Some(2.3), Some(2.1)],
    // The first cell of the second half is missing from the available text.
    [None, Some(1.6), Some(1.3), Some(1.1)],
];

/// The transfers over a path of one level of congestion.
pub struct Level {
    /// The tables of throughput and inputs.
    pub tables: &'static str,
    /// The tables of the history sets.
    pub history_tables: &'static str,
    /// Available bandwidth below which the path is congested, Mbit/s.
    pub threshold_mbps: f64,
    /// Least use of the 100 Mbit/s, percent.
    pub used_percent: u32,
    /// Reduction of the recorded available bandwidth, Mbit/s.
    pub less_mbps: f64,
    /// Standard FTP, Mbit/s, at each time of day.
    pub standard: [f64; 5],
    /// Without congestion control.
    pub nocc: [f64; 5],
    /// How long standard, without congestion control and advised took at each time of day, h:mm:ss.
    pub took: [[&'static str; 3]; 5],
    /// Gain of advised over standard in percent.
    pub gain: [f64; 5],
    /// Their mean.
    pub mean_gain: f64,
    /// Advised with all history, that of the same weekday, that of the last week.
    pub advised: [[f64; 3]; 5],
    /// The inputs received.
    pub inputs: [[&'static str; 3]; 5],
}

/// Slightly, moderately and highly congested.
pub const LEVELS: [Level; 3] = [
    Level {
        tables: "tables 3 and 4",
        history_tables: "tables 20 and 21",
        threshold_mbps: 42.0,
        used_percent: 45,
        less_mbps: 0.0,
        standard: [45.68, 45.68, 45.60, 45.92, 45.84],
        nocc: [70.08, 70.00, 70.08, 70.08, 70.08],
        took: [
            ["0:47:48", "0:31:09", "0:48:03"],
            ["0:47:48", "0:31:12", "0:37:54"],
            ["0:47:54", "0:31:09", "0:31:11"],
            ["0:47:34", "0:31:10", "0:40:36"],
            ["0:47:39", "0:31:10", "0:32:05"],
        ],
        gain: [0.0, 26.09, 53.68, 17.07, 48.52],
        mean_gain: 29.07,
        advised: [
            [45.44, 45.52, 45.36],
            [57.60, 52.96, 51.36],
            [70.08, 70.00, 70.08],
            [53.76, 57.84, 70.08],
            [68.08, 70.08, 70.08],
        ],
        inputs: [
            ["1(4)", "1(4)", "1(3)"],
            ["1,0(3)", "1,0", "1,0"],
            ["0(2)", "0(2)", "0"],
            ["0,1(2),0", "0,1", "0"],
            ["0(3),1", "0(2)", "0(2)"],
        ],
    },
    Level {
        tables: "tables 6 and 7",
        history_tables: "tables 23 and 24",
        threshold_mbps: 27.0,
        used_percent: 60,
        less_mbps: 15.0,
        standard: [25.68, 31.84, 44.40, 28.80, 27.92],
        nocc: [69.68, 69.84, 70.08, 69.76, 69.76],
        took: [
            ["1:24:59", "0:31:21", "1:25:15"],
            ["1:08:41", "0:31:15", "0:37:53"],
            ["0:49:11", "0:31:10", "0:31:10"],
            ["1:15:54", "0:31:18", "0:54:18"],
            ["1:18:07", "0:31:17", "0:49:48"],
        ],
        gain: [0.0, 81.16, 57.66, 39.72, 57.02],
        mean_gain: 47.11,
        advised: [
            [25.60, 25.68, 25.68],
            [57.68, 53.60, 51.76],
            [70.00, 69.92, 70.00],
            [40.24, 42.00, 43.92],
            [43.84, 45.84, 55.28],
        ],
        inputs: [
            ["1(12)", "1(8)", "1(5)"],
            ["1,0(9)", "1,0(5)", "1,0(4)"],
            ["0(5)", "0(4)", "0(2)"],
            ["0(2),1(4),0(3)", "0,1(2),0(2)", "0,1,0"],
            ["0(5),1(4)", "0(3),1(2)", "0(3),1"],
        ],
    },
    Level {
        tables: "tables 9 and 10",
        history_tables: "tables 26 and 27",
        threshold_mbps: 12.0,
        used_percent: 75,
        less_mbps: 30.0,
        standard: [11.68, 15.68, 22.24, 14.24, 13.04],
        nocc: [64.96, 68.32, 69.20, 69.12, 68.56],
        took: [
            ["3:07:13", "0:35:15", "2:00:35"],
            ["2:19:18", "0:31:54", "0:37:23"],
            ["1:38:04", "0:31:35", "0:31:50"],
            ["2:33:03", "0:31:36", "1:02:51"],
            ["2:47:32", "0:31:52", "1:14:31"],
        ],
        gain: [44.52, 272.45, 208.27, 143.82, 124.54],
        mean_gain: 158.72,
        advised: [
            [16.88, 17.68, 17.52],
            [58.40, 57.04, 56.88],
            [68.56, 69.44, 69.52],
            [34.72, 30.72, 28.08],
            [29.28, 34.16, 38.08],
        ],
        inputs: [
            ["1(46),0(23)", "1(27),0(10)", "1(22),0(15)"],
            ["1,0(48)", "1,0(26)", "1,0(24)"],
            ["0(18)", "0(10)", "0(6)"],
            [
                "0(7),1(9),0(21),1(3)",
                "0(3),1(6),0(7),1,0(3)",
                "0(2),1(3),0(5),1(2),0(3)",
            ],
            [
                "0(24),1(6),0(4),1(9)",
                "0(14),1(5),0(4),1(4)",
                "0(12),1(3),0(2),1(2)",
            ],
        ],
    },
];

/// The throughput of the background connection alone, Mbit/s.
pub const BACKGROUND_ALONE: f64 = 83.4;

/// FTP and one background connection, Mbit/s, at each time of day: standard, advised, without
/// congestion control.
pub const ONE_BACKGROUND: [[(f64, f64); 3]; 5] = [
    [(39.76, 52.10), (39.20, 52.82), (69.52, 20.61)],
    [(39.60, 52.22), (53.52, 37.97), (69.60, 20.63)],
    [(39.60, 52.21), (69.68, 20.60), (69.68, 20.58)],
    [(39.68, 52.17), (48.56, 42.49), (69.76, 20.58)],
    [(39.68, 52.12), (67.20, 22.73), (69.76, 20.59)],
];

/// FTP and two background connections, in the same order.
pub const TWO_BACKGROUND: [[(f64, f64, f64); 3]; 5] = [
    [
        (38.80, 25.79, 27.53),
        (38.64, 25.83, 27.60),
        (69.28, 10.28, 10.61),
    ],
    [
        (39.04, 25.78, 27.25),
        (52.24, 23.04, 24.17),
        (69.36, 10.24, 10.64),
    ],
    [
        (38.96, 25.85, 27.31),
        (69.20, 10.74, 10.28),
        (69.28, 10.32, 10.60),
    ],
    [
        (38.48, 26.02, 27.64),
        (47.68, 21.24, 22.96),
        (69.28, 10.45, 10.42),
    ],
    [
        (39.04, 25.86, 27.25),
        (66.48, 12.03, 11.29),
        (69.28, 10.26, 10.60),
    ],
];
