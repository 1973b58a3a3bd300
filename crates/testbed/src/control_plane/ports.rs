//! Ports on 127.0.0.1 that are ours until we give them back.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use super::ControlPlaneError;

/// Below the range that Linux takes ports for outgoing connections from (32768 and up by default): a port from
/// that range could be gone between our look and the program's start, or while the program restarts.
const FIRST: u16 = 20_000;
const LAST: u16 = 31_999;

/// A port that no other control plane on this machine is given as long as this value lives.
///
/// The program that gets the number binds it later, so the bound port itself cannot be the claim. The claim is a
/// socket in Linux' abstract namespace: exclusive between processes, on no disk, and gone with its owner however
/// that ends.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// Claims a free port.
    pub(crate) fn claim() -> Result<Self, ControlPlaneError> {
        (FIRST..=LAST).find_map(Self::claim_number).ok_or(ControlPlaneError::NoPort { first: FIRST, last: LAST })
    }

    fn claim_number(number: u16) -> Option<Self> {
        let name = format!("gpu-scheduler-testbed-port-{number}");
        let claim = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
        // Other programs make no claims: they are seen by their listening.
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        Some(Self { number, _claim: claim })
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_out_once_and_again_when_it_was_given_back() {
        let first = Port::claim().unwrap();
        let second = Port::claim().unwrap();
        assert_ne!(first.number(), second.number());
        let number = second.number();
        assert!(Port::claim_number(number).is_none());
        drop(second);
        // Not asked for by number: another test of this machine may have been given it meanwhile.
        assert_ne!(Port::claim().unwrap().number(), first.number());
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_not_given_out() {
        let port = Port::claim().unwrap();
        let number = port.number();
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, number)).unwrap();
        drop(port);
        assert!(Port::claim_number(number).is_none());
    }
}
