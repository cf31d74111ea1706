//! Explicit congestion notification of a connection (RFC 3168, section 6.1), as hosts have it with
//! `net.ipv4.tcp_ecn = 1`.
//!
//! | RFC 3168 | Linux and here |
//! |---|---|
//! | 6.1.1.1: a SYN that got no answer may be repeated without ECN | it is, and the connection has ECN only if the first one had arrived |
//! | 6.1.5: retransmissions and pure acknowledgements are not ECN-capable | the same |
//! | 6.1.3: the receiver echoes a mark in each acknowledgement until it sees CWR | the same, and it acknowledges two segments at once after the first mark, and the segment with CWR |
//! | — | a segment that is not ECN-capable, after others that were, must be a retransmission: two segments are acknowledged at once |

use fairwind_path::ecn::Ecn;

use crate::packet::Packet;

/// Segments that are acknowledged at once after a mark or a retransmission.
pub(super) const QUICK_ACKS: u32 = 2;

/// How far a sender has come to use ECN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    /// Not asked for, or refused.
    None,
    /// The SYN asks for it.
    Asked,
    /// Both ends have it.
    Made,
}

/// The sender's part.
#[derive(Debug)]
pub(super) struct SenderEcn {
    agreement: Agreement,
    /// The next new segment tells that the window has been reduced (`TCP_ECN_QUEUE_CWR`).
    owes_cwr: bool,
}

impl SenderEcn {
    /// Before the handshake, in which it will ask for ECN if that is `wanted`.
    pub(super) fn new(wanted: bool) -> Self {
        SenderEcn {
            agreement: if wanted {
                Agreement::Asked
            } else {
                Agreement::None
            },
            owes_cwr: false,
        }
    }

    /// Asks for ECN in the first SYN (`tcp_ecn_send_syn`).
    pub(super) fn ask(&self, syn: &mut Packet) {
        if self.agreement == Agreement::Asked {
            syn.ece = true;
            syn.cwr = true;
        }
    }

    /// The receiver agrees or not (`tcp_ecn_rcv_synack`).
    pub(super) fn on_syn_ack(&mut self, syn_ack: &Packet) {
        let agreed = self.agreement == Agreement::Asked && syn_ack.ece && !syn_ack.cwr;
        self.agreement = if agreed {
            Agreement::Made
        } else {
            Agreement::None
        };
    }

    /// Marks a segment of new data as ECN-capable, and tells of a reduction (`tcp_ecn_send`).
    #[inline]
    pub(super) fn on_new_segment(&mut self, segment: &mut Packet) {
        if self.agreement == Agreement::Made {
            segment.ecn = Ecn::Ect0;
            segment.cwr = std::mem::take(&mut self.owes_cwr);
        }
    }

    /// Whether an acknowledgement echoes a mark (`tcp_ecn_rcv_ecn_echo`).
    #[inline]
    pub(super) fn is_echo(&self, ack: &Packet) -> bool {
        ack.ece && self.agreement == Agreement::Made
    }

    /// The window is being reduced (`tcp_ecn_queue_cwr`).
    pub(super) fn owe_cwr(&mut self) {
        self.owes_cwr = self.agreement == Agreement::Made;
    }

    /// The reduction has been undone (`tcp_ecn_withdraw_cwr`).
    pub(super) fn withdraw_cwr(&mut self) {
        self.owes_cwr = false;
    }
}

/// The receiver's part.
#[derive(Debug, Default)]
pub(super) struct ReceiverEcn {
    /// Whether the first SYN asked for ECN; `None` before it.
    agreed: Option<bool>,
    /// Acknowledgements echo a mark (`TCP_ECN_DEMAND_CWR`).
    echoes: bool,
    /// An ECN-capable segment has arrived (`TCP_ECN_SEEN`).
    seen: bool,
}

impl ReceiverEcn {
    /// Takes the answer to a SYN; the answer to the first counts (`tcp_ecn_create_request`).
    pub(super) fn agrees(&mut self, syn: &Packet) -> bool {
        *self.agreed.get_or_insert(syn.ece && syn.cwr)
    }

    /// Whether a segment tells that the window has been reduced, so that echoes end
    /// (`tcp_ecn_accept_cwr`).
    #[inline]
    pub(super) fn accepts_cwr(&mut self, segment: &Packet) -> bool {
        if segment.cwr {
            self.echoes = false;
        }
        segment.cwr
    }

    /// Takes note of the codepoint of new data. Returns whether the next segments are to be
    /// acknowledged at once (`tcp_data_ecn_check`).
    #[inline]
    pub(super) fn on_data(&mut self, codepoint: Ecn) -> bool {
        if self.agreed != Some(true) {
            return false;
        }
        match codepoint {
            Ecn::NotEct => self.seen,
            Ecn::Ect0 | Ecn::Ect1 => {
                self.seen = true;
                false
            }
            Ecn::Ce => {
                self.seen = true;
                !std::mem::replace(&mut self.echoes, true)
            }
        }
    }

    /// Whether acknowledgements echo a mark.
    #[inline]
    pub(super) fn echoes(&self) -> bool {
        self.echoes
    }
}
