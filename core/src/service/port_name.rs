//! What a proxy's work is keyed on: one port of one Service.
//!
//! Invariant: the protocol is part of the key, though its text leaves it out (`pkg/proxy/types.go`,
//! `ServicePortName`): each port of a Service is an entry of its own that can be missing alone.

use std::fmt;

use crate::model::cluster::ObjectKey;
use crate::model::port::Protocol;
use crate::model::service::ServicePort;

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePortName {
    /// The Service.
    pub service: ObjectKey,
    /// The port's name; empty when it has none.
    pub port: String,
    /// Its protocol.
    pub protocol: Protocol,
}

impl ServicePortName {
    /// The key of a port.
    #[must_use]
    pub fn new(service: &ObjectKey, port: &ServicePort) -> Self {
        Self {
            service: service.clone(),
            port: port.name.clone().unwrap_or_default(),
            protocol: port.protocol,
        }
    }
}

/// As kube-proxy writes it: `namespace/name:port`, or `namespace/name` for an unnamed port.
impl fmt::Display for ServicePortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if self.port.is_empty() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}
