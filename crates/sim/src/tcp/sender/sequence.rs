//! The send sequence space (RFC 9293, section 3.3.1), in bytes from the first one of payload, which
//! do not wrap. The congestion control sees the kernel's numbers of 32 bits.

use fairwind_cc::native::TcpSock;

/// `write_seq` of an application that writes without end: more payload than any run moves.
const UNLIMITED: u64 = u64::MAX / 4;

/// What has been acknowledged, sent and written, and what the receiver and the buffer allow.
#[derive(Debug, Default)]
pub(super) struct SendSequence {
    una: u64,
    nxt: u64,
    /// One past the last byte that the application has written.
    write_seq: u64,
    /// Maximum of `write_seq - una`, bytes.
    send_buffer: u64,
    /// One past the last byte that the receiver's window allows (`tcp_wnd_end`).
    window_end: u64,
}

impl SendSequence {
    /// Nothing written yet, and no window.
    pub(super) fn new(send_buffer: u64) -> Self {
        SendSequence {
            send_buffer,
            ..SendSequence::default()
        }
    }

    /// First byte not acknowledged (`snd_una`).
    #[inline]
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Next byte to send (`snd_nxt`).
    #[inline]
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }

    /// The application writes `bytes`, or without limit if `None`.
    pub(super) fn write(&mut self, tp: &mut TcpSock, bytes: Option<u64>) {
        self.write_seq = match bytes {
            Some(bytes) => self.write_seq + bytes,
            None => UNLIMITED,
        };
        tp.write_seq = self.sendable_end() as u32;
    }

    /// Discards what has not been sent.
    pub(super) fn discard_unsent(&mut self, tp: &mut TcpSock) {
        self.write_seq = self.nxt;
        tp.write_seq = tp.snd_nxt;
    }

    /// One past the last byte written that the send buffer holds.
    #[inline]
    pub(super) fn sendable_end(&self) -> u64 {
        self.write_seq.min(self.una + self.send_buffer)
    }

    /// Whether there is data that has not been sent yet.
    pub(super) fn has_unsent(&self) -> bool {
        self.nxt < self.sendable_end()
    }

    /// Whether the send buffer holds all that has been written.
    pub(super) fn is_all_buffered(&self) -> bool {
        self.write_seq == self.sendable_end()
    }

    /// Whether the receiver's window allows `len` bytes more.
    #[inline]
    pub(super) fn fits_window(&self, len: u64) -> bool {
        self.nxt + len <= self.window_end
    }

    /// What the receiver's window allows beyond the bytes sent, bytes.
    #[inline]
    pub(super) fn window_left(&self) -> u64 {
        self.window_end.saturating_sub(self.nxt)
    }

    /// What the receiver's window allows beyond the bytes acknowledged, bytes.
    pub(super) fn receiver_window(&self) -> u64 {
        self.window_end.saturating_sub(self.una)
    }

    /// `len` bytes have been sent for the first time.
    #[inline]
    pub(super) fn on_sent(&mut self, tp: &mut TcpSock, len: u32) {
        self.nxt += u64::from(len);
        tp.snd_nxt = self.nxt as u32;
    }

    /// The handshake has told the receiver's window, bytes.
    pub(super) fn open_window(&mut self, tp: &mut TcpSock, window: u32) {
        self.window_end = u64::from(window);
        tp.snd_wnd = window;
    }

    /// Takes the window of an acknowledgement of the bytes before `ack`, unless it is old. Returns
    /// whether it was taken (`tcp_ack_update_window`).
    #[inline]
    pub(super) fn update_window(&mut self, tp: &mut TcpSock, ack: u64, window: u32) -> bool {
        let end = ack + u64::from(window);
        let newer = ack > self.una || end > self.window_end;
        if newer {
            self.window_end = self.window_end.max(end);
            tp.snd_wnd = window;
        }
        newer
    }

    /// The bytes before `ack` have been acknowledged (`tcp_snd_una_update`).
    #[inline]
    pub(super) fn acknowledge(&mut self, tp: &mut TcpSock, ack: u64) {
        self.una = ack;
        tp.snd_una = ack as u32;
        tp.bytes_acked = ack;
        tp.write_seq = self.sendable_end() as u32;
    }
}
