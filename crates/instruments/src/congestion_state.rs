//! The congestion state of a sender.

/// Congestion state of a sender, numbered like the kernel's `tcpi_ca_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CongestionState {
    /// No sign of loss or reordering.
    #[default]
    Open = 0,
    /// Duplicate or selective acknowledgements, but no loss detected yet.
    Disorder = 1,
    /// The window is reduced for a reason other than loss.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// After a retransmission timeout.
    Loss = 4,
}

impl CongestionState {
    /// The state with this number; open if there is none.
    pub fn numbered(number: u8) -> CongestionState {
        match number {
            1 => CongestionState::Disorder,
            2 => CongestionState::Cwr,
            3 => CongestionState::Recovery,
            4 => CongestionState::Loss,
            _ => CongestionState::Open,
        }
    }
}
