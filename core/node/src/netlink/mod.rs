//! A small synchronous rtnetlink client.
//!
//! Invariant: a [`Netlink`] speaks to the namespace in which it was opened, from whatever thread it is used
//! later. Requests go out in batches of one `send` each; every request is acknowledged, and the first refusal is
//! reported in the words of the request. Knows links, addresses, routes, neighbours and namespace ids; no rules,
//! no traffic control.

mod dump;
mod request;

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

pub use dump::{Address, Link, Neighbour, Route};
pub use request::{AddressSpec, Batch, Mac, RouteSpec, Scope, VethEnd};

use crate::{Netns, NodeError};

/// Requests in one `send`: their acknowledgements have to fit the socket's receive buffer (212,992 bytes by
/// default, about 768 charged per acknowledgement).
const CHUNK: usize = 100;
/// A dump answer is at most this long (`NLMSG_GOODSIZE` is a page, but dumps use up to 32 KiB).
const BUFFER: usize = 64 * 1024;
/// `NLMSGERR_ATTR_MSG`: the text of an extended acknowledgement.
const ATTRIBUTE_MESSAGE: u16 = 1;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;

/// A connection to one namespace's rtnetlink.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens a connection to the namespace of the calling thread.
    pub fn open() -> Result<Self, NodeError> {
        let attempt = || -> io::Result<Socket> {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Answers to a batch come after it was processed, so there is no time to read in between.
            socket.set_rx_buf_sz(1_u32 << 20)?;
            socket.set_cap_ack(true)?;
            socket.set_ext_ack(true)?;
            Ok(socket)
        };
        let socket =
            attempt().map_err(|source| NodeError::NetlinkSocket { action: "open a socket", source })?;
        Ok(Self { socket, sequence: 0, buffer: vec![0; BUFFER] })
    }

    /// Opens a connection to another namespace.
    pub fn open_in(netns: &Netns) -> Result<Self, NodeError> {
        netns.run(Self::open)?
    }

    /// Sends every request and waits for all acknowledgements. Requests after a refused one may have been
    /// carried out: the kernel does not undo.
    pub fn apply(&mut self, batch: &Batch) -> Result<(), NodeError> {
        for chunk in batch.requests.chunks(CHUNK) {
            let first = self.sequence.wrapping_add(1);
            let mut bytes = Vec::new();
            for request in chunk {
                self.encode(request.message.clone(), NLM_F_REQUEST | NLM_F_ACK | request.flags, &mut bytes);
            }
            self.send(&bytes)?;
            let mut outstanding = chunk.len();
            let mut refusal = None;
            while outstanding > 0 {
                self.receive(|header, payload| {
                    let Some(answer) = Acknowledgement::read(header, payload) else { return Ok(()) };
                    let index = header.sequence_number.wrapping_sub(first) as usize;
                    // Anything else answers an earlier conversation that ended in an error.
                    let Some(request) = chunk.get(index) else { return Ok(()) };
                    outstanding = outstanding.saturating_sub(1);
                    if let Some(source) = answer.error
                        && !(request.may_exist && source.raw_os_error() == Some(libc::EEXIST))
                        && refusal.is_none()
                    {
                        refusal = Some(NodeError::Refused {
                            action: request.action.clone(),
                            message: answer.message,
                            source,
                        });
                    }
                    Ok(())
                })?;
            }
            if let Some(refusal) = refusal {
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// The id by which this namespace knows another one (`bpf_sk_lookup*` and `bpf_skc_lookup_tcp` take it),
    /// assigned now if it had none. `RTM_GETNSID`, then `RTM_NEWNSID`.
    pub fn netns_id(&mut self, netns: &impl AsFd) -> Result<i32, NodeError> {
        if let Some(id) = self.known_netns_id(netns)? {
            return Ok(id);
        }
        let mut batch = Batch::new();
        batch.assign_netns_id(netns);
        self.apply(&batch)?;
        self.known_netns_id(netns)?.ok_or_else(|| NodeError::Malformed {
            action: "ip netns set".to_owned(),
            reason: "the kernel acknowledged the id but does not know it".to_owned(),
        })
    }

    /// The id by which this namespace knows another one, if it has one.
    pub fn known_netns_id(&mut self, netns: &impl AsFd) -> Result<Option<i32>, NodeError> {
        let mut message = NsidMessage::default();
        message.attributes.push(NsidAttribute::Fd(request::raw(netns)));
        let answers = self.ask(RouteNetlinkMessage::GetNsId(message), 0, "ip netns list-id")?;
        Ok(answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewNsId(message) => {
                message.attributes.iter().find_map(|attribute| match attribute {
                    NsidAttribute::Id(id) if *id >= 0 => Some(*id),
                    _ => None,
                })
            }
            _ => None,
        }))
    }

    /// Sends one question and collects its answers; `flags` may hold `NLM_F_DUMP`.
    fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        action: &str,
    ) -> Result<Vec<RouteNetlinkMessage>, NodeError> {
        let dump = flags & NLM_F_DUMP == NLM_F_DUMP;
        let mut bytes = Vec::new();
        let acknowledge = if dump { 0 } else { NLM_F_ACK };
        self.encode(message, NLM_F_REQUEST | flags | acknowledge, &mut bytes);
        let sequence = self.sequence;
        self.send(&bytes)?;
        let mut answers = Vec::new();
        let mut done = false;
        let mut refusal = None;
        while !done {
            self.receive(|header, payload| {
                if header.sequence_number != sequence {
                    return Ok(());
                }
                if let Some(answer) = Acknowledgement::read(header, payload) {
                    done = true;
                    refusal = answer.error.map(|source| NodeError::Refused {
                        action: action.to_owned(),
                        message: answer.message,
                        source,
                    });
                    return Ok(());
                }
                if i32::from(header.message_type) == libc::NLMSG_DONE {
                    done = true;
                    return Ok(());
                }
                answers.push(read_message(header, payload, action)?);
                Ok(())
            })?;
        }
        match refusal {
            Some(refusal) => Err(refusal),
            None => Ok(answers),
        }
    }

    fn encode(&mut self, message: RouteNetlinkMessage, flags: u16, bytes: &mut Vec<u8>) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        message.finalize();
        let start = bytes.len();
        bytes.resize(start + message.buffer_len().next_multiple_of(4), 0);
        if let Some(space) = bytes.get_mut(start..start + message.buffer_len()) {
            message.serialize(space);
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), NodeError> {
        loop {
            match self.socket.send(bytes, 0) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(NodeError::NetlinkSocket { action: "send", source }),
            }
        }
    }

    /// Receives one datagram and hands out its messages.
    fn receive(
        &mut self,
        mut each: impl FnMut(&NetlinkHeader, &[u8]) -> Result<(), NodeError>,
    ) -> Result<(), NodeError> {
        let length = loop {
            match nix::sys::socket::recv(
                self.socket.as_raw_fd(),
                &mut self.buffer,
                nix::sys::socket::MsgFlags::empty(),
            ) {
                Ok(length) => break length,
                Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => {
                    return Err(NodeError::NetlinkSocket { action: "receive", source: errno.into() });
                }
            }
        };
        let mut rest = self.buffer.get(..length).unwrap_or_default();
        while !rest.is_empty() {
            let buffer = NetlinkBuffer::new_checked(rest).map_err(|error| NodeError::Malformed {
                action: "receive".to_owned(),
                reason: error.to_string(),
            })?;
            let mut header = NetlinkHeader::default();
            header.length = buffer.length();
            header.message_type = buffer.message_type();
            header.flags = buffer.flags();
            header.sequence_number = buffer.sequence_number();
            each(&header, buffer.payload())?;
            let step = (buffer.length() as usize).next_multiple_of(4);
            rest = rest.get(step..).unwrap_or_default();
        }
        Ok(())
    }
}

fn read_message(
    header: &NetlinkHeader,
    payload: &[u8],
    action: &str,
) -> Result<RouteNetlinkMessage, NodeError> {
    use netlink_packet_core::NetlinkDeserializable;
    RouteNetlinkMessage::deserialize(header, payload)
        .map_err(|error| NodeError::Malformed { action: action.to_owned(), reason: error.to_string() })
}

/// `NLMSG_ERROR`: success or refusal (`struct nlmsgerr`, with the attributes of an extended acknowledgement).
struct Acknowledgement {
    error: Option<io::Error>,
    message: Option<String>,
}

impl Acknowledgement {
    fn read(header: &NetlinkHeader, payload: &[u8]) -> Option<Self> {
        if i32::from(header.message_type) != libc::NLMSG_ERROR {
            return None;
        }
        let code = i32::from_ne_bytes(payload.get(..4)?.try_into().ok()?);
        let error = (code != 0).then(|| io::Error::from_raw_os_error(code.saturating_neg()));
        let mut message = None;
        if header.flags & NLM_F_ACK_TLVS != 0 {
            // The echoed request: only its header when capped, else all of it.
            let echoed = if header.flags & NLM_F_CAPPED != 0 {
                16
            } else {
                u32::from_ne_bytes(payload.get(4..8)?.try_into().ok()?) as usize
            };
            message = extended_message(payload.get(4 + echoed.next_multiple_of(4)..).unwrap_or_default());
        }
        Some(Self { error, message })
    }
}

fn extended_message(mut attributes: &[u8]) -> Option<String> {
    while let [a, b, c, d, rest @ ..] = attributes {
        let length = usize::from(u16::from_ne_bytes([*a, *b]));
        let kind = u16::from_ne_bytes([*c, *d]) & 0x3fff;
        let value = rest.get(..length.checked_sub(4)?)?;
        if kind == ATTRIBUTE_MESSAGE {
            let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}
