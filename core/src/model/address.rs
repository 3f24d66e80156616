//! Address blocks: a CIDR less its exceptions.
//!
//! Invariant: CIDRs are canonical (host bits cleared) before they are stored; exceptions lie strictly inside the
//! block and have its family. An IPv4 block never holds an IPv6 address, v4-mapped ones included.

use std::net::IpAddr;

use ipnet::IpNet;

/// `NetworkPolicyPeer.ipBlock`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressBlock {
    /// `cidr`.
    pub cidr: IpNet,
    /// `except`, in the order written.
    pub except: Vec<IpNet>,
}

impl AddressBlock {
    /// True when the address lies in the block and in none of its exceptions.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidr.contains(&address) && !self.except.iter().any(|except| except.contains(&address))
    }
}

impl std::fmt::Display for AddressBlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.cidr)?;
        for (index, except) in self.except.iter().enumerate() {
            write!(f, "{}{except}", if index == 0 { " except " } else { ", " })?;
        }
        Ok(())
    }
}
