//! Routes through a device, which set the congestion control of the connections that take them.
//!
//! A namespace's default congestion control can only be one that every user may choose; a route can
//! name any. Programs can still choose their own with `TCP_CONGESTION`.
//!
//! Source: rtnetlink(7), netlink(7), linux/rtnetlink.h.

use std::net::Ipv4Addr;

use crate::error::{During, LabError};
use fairwind_kernel::netlink::{self, attribute};

/// A route through an interface of the calling thread's network namespace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Route<'a> {
    /// Index of the interface.
    pub interface: u32,
    /// Its only destination address; `None`: the default route.
    pub to: Option<Ipv4Addr>,
    /// Source address of connections that take the route, unless they choose one; `None`: the
    /// kernel chooses.
    pub source: Option<Ipv4Addr>,
    /// Congestion control of the connections that take it; `None`: the namespace's default.
    pub congestion_control: Option<&'a str>,
    /// Their initial congestion window, packets; `None`: the kernel's 10.
    pub initial_window: Option<u32>,
}

/// Adds the route.
pub(super) fn add(route: &Route<'_>) -> Result<(), LabError> {
    netlink::transact(&request(route)).during("setting the route of a host")
}

/// `ip route add default|TO dev INDEX [src SOURCE] [congctl NAME] [initcwnd PACKETS]`
fn request(route: &Route<'_>) -> Vec<u8> {
    const METRIC_INITCWND: u16 = 11;
    const METRIC_CC_ALGO: u16 = 16;
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let (length, any_length, no_service) = (route.to.map_or(0, |_| 32), 0, 0);
    let mut body = vec![libc::AF_INET as u8, length, any_length, no_service];
    body.extend([
        libc::RT_TABLE_MAIN,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_LINK,
        libc::RTN_UNICAST,
    ]);
    body.extend([0; 4]);
    if let Some(to) = route.to {
        body.extend(attribute(libc::RTA_DST, &to.octets()));
    }
    body.extend(attribute(libc::RTA_OIF, &route.interface.to_ne_bytes()));
    if let Some(source) = route.source {
        body.extend(attribute(libc::RTA_PREFSRC, &source.octets()));
    }
    let mut metrics = Vec::new();
    if let Some(packets) = route.initial_window {
        metrics.extend(attribute(METRIC_INITCWND, &packets.to_ne_bytes()));
    }
    if let Some(name) = route.congestion_control {
        let name: Vec<u8> = name.bytes().chain([0]).collect();
        metrics.extend(attribute(METRIC_CC_ALGO, &name));
    }
    if !metrics.is_empty() {
        body.extend(attribute(libc::RTA_METRICS, &metrics));
    }
    netlink::request(libc::RTM_NEWROUTE, flags, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_a_string_among_the_metrics() {
        let plain = Route {
            interface: 2,
            ..Route::default()
        };
        let with = request(&Route {
            congestion_control: Some("cubic"),
            ..plain
        });
        let without = request(&plain);
        // Metrics (4 bytes) with one metric (4), "cubic" and NUL, padded to 8.
        assert_eq!(with.len(), without.len() + 16);
        assert_eq!(with[0], with.len() as u8);
        assert_eq!(with[with.len() - 8..], *b"cubic\0\0\0");
    }

    #[test]
    fn the_initial_window_is_a_number_among_the_metrics() {
        let request = request(&Route {
            interface: 2,
            initial_window: Some(3),
            ..Route::default()
        });
        // Metrics (8 bytes after their header of 4): attribute 11, 8 bytes long.
        let metrics = [
            &12u16.to_ne_bytes()[..],
            &libc::RTA_METRICS.to_ne_bytes(),
            &8u16.to_ne_bytes(),
            &11u16.to_ne_bytes(),
            &3u32.to_ne_bytes(),
        ];
        assert!(request.ends_with(&metrics.concat()));
    }

    #[test]
    fn a_route_to_one_address_has_32_bits_of_it() {
        let request = request(&Route {
            to: Some(Ipv4Addr::new(10, 77, 0, 1)),
            ..Route::default()
        });
        // After the header of 16 bytes: family and prefix length; after 12 bytes of route: the
        // address.
        assert_eq!(request[16..18], [libc::AF_INET as u8, 32]);
        assert_eq!(request[32..36], [10, 77, 0, 1]);
    }

    #[test]
    fn the_own_address_stands_behind_the_interface() {
        let request = request(&Route {
            source: Some(Ipv4Addr::new(10, 77, 0, 9)),
            ..Route::default()
        });
        // The last attribute of the request, 8 bytes.
        assert_eq!(request[request.len() - 4..], [10, 77, 0, 9]);
        let kind = &request[request.len() - 6..request.len() - 4];
        assert_eq!(kind, libc::RTA_PREFSRC.to_ne_bytes());
    }
}
