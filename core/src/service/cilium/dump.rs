//! What `bpftool -j map dump` prints about Cilium's service maps, as rows.
//!
//! Invariant: only the raw bytes are read, which bpftool prints with and without BTF; a map is known by the sizes of its
//! keys and values, or, when it is empty, by the name that it is given under. A row that has other sizes than the first
//! one's is an error and not left out. Numbers of the host are little-endian.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::Value;
use thiserror::Error;

use super::names;
use crate::model::port::Protocol;
use crate::model::service::AddressType;

/// A text that is no dump of these maps.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DumpError {
    /// No JSON.
    #[error("line {line}, column {column}: {what}")]
    Json {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What the parser says.
        what: String,
    },
    /// JSON of something else.
    #[error(
        "{what}; expected [{{\"key\": [\"0x0a\", …], \"value\": […]}}, …] as `bpftool -j map dump` prints it"
    )]
    Shape {
        /// What is there.
        what: String,
    },
    /// Bytes of another map.
    #[error("row {row}: a key of {key} and a value of {value} bytes: {what}")]
    Size {
        /// Counted from 1.
        row: usize,
        /// Bytes of the key.
        key: usize,
        /// Bytes of the value.
        value: usize,
        /// What is wrong with that.
        what: String,
    },
    /// Backends without the services that use them.
    #[error("there is no dump of {} or {} among them", names(AddressType::Ipv4).services, names(AddressType::Ipv6).services)]
    NoServices,
}

/// One family's maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The family.
    pub family: AddressType,
    /// Frontends and their slots.
    pub services: BTreeMap<ServiceKey, ServiceRow>,
    /// Endpoints by number; `None` when the map was not given.
    pub backends: Option<BTreeMap<u32, Backend>>,
    /// What replies are written back to, by number; `None` when the map was not given.
    pub reverse: Option<BTreeMap<u16, SocketAddr>>,
    /// Addresses that have rows of node ports: the node's own, as Cilium knows them.
    pub node_addresses: BTreeSet<IpAddr>,
}

/// `struct lb4_key` and `lb6_key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceKey {
    /// `address`: unspecified for node ports of any address.
    pub address: IpAddr,
    /// `dport`.
    pub port: u16,
    /// `proto`: 0 in older versions, whatever the protocol.
    pub protocol: u8,
    /// `scope`: 0 for clients outside, 1 inside, where a Service has both.
    pub scope: u8,
    /// `backend_slot`: 0 is the frontend itself.
    pub slot: u16,
}

/// As the field's own tool prints frontends, with the slot.
impl std::fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = Protocol::ALL.into_iter().find(|known| known.number() == self.protocol);
        let protocol = known.map_or("ANY", Protocol::as_str);
        write!(f, "{}/{protocol}", SocketAddr::new(self.address, self.port))?;
        if self.scope == INSIDE {
            f.write_str("/i")?;
        }
        write!(f, " slot {}", self.slot)
    }
}

/// The scope of clients inside the cluster.
pub const INSIDE: u8 = 1;

/// `struct lb4_service` and `lb6_service`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceRow {
    /// The backend's number in a slot; in a frontend the seconds of affinity (24 bits) and the algorithm (8 bits).
    pub word: u32,
    /// How many slots are used.
    pub count: u16,
    /// How many slots behind them are kept and not used (`qcount`): ending, or in quarantine.
    pub unused: u16,
    /// The number under which replies are written back.
    pub reverse: u16,
    /// `flags`.
    pub flags: u8,
    /// `flags2`.
    pub flags2: u8,
}

impl ServiceRow {
    /// An external address.
    pub const EXTERNAL_IP: u8 = 1;
    /// A node port.
    pub const NODE_PORT: u8 = 2;
    /// `externalTrafficPolicy: Local`.
    pub const EXTERNAL_LOCAL: u8 = 4;
    /// A container's `hostPort`.
    pub const HOST_PORT: u8 = 8;
    /// `sessionAffinity: ClientIP`.
    pub const AFFINITY: u8 = 16;
    /// A balancer's address.
    pub const LOAD_BALANCER: u8 = 32;
    /// Clients outside may ask.
    pub const ROUTABLE: u8 = 64;
    /// Source ranges are looked up.
    pub const SOURCE_RANGE: u8 = 128;
    /// In `flags2`: a `CiliumLocalRedirectPolicy` has it.
    pub const REDIRECTED: u8 = 1;
    /// In `flags2`: translated to the other family.
    pub const OTHER_FAMILY: u8 = 2;
    /// In `flags2`: a proxy of the node takes its packets.
    pub const PROXIED: u8 = 4;
    /// In `flags2`: only by the loopback.
    pub const LOOPBACK: u8 = 8;
    /// In `flags2`: `internalTrafficPolicy: Local`.
    pub const INTERNAL_LOCAL: u8 = 16;
    /// In `flags2`: there is a row for clients inside, too.
    pub const TWO_SCOPES: u8 = 32;
    /// In `flags2` of a frontend: the source ranges are those that may not come. In a slot: in quarantine.
    pub const RANGES_DENY: u8 = 64;

    /// Seconds for which a client stays, when it does.
    #[must_use]
    pub const fn affinity(&self) -> Option<u32> {
        if self.flags & Self::AFFINITY == 0 { None } else { Some(self.word & 0x00ff_ffff) }
    }
}

/// `struct lb4_backend` and `lb6_backend`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backend {
    /// `address` and `port`.
    pub address: SocketAddr,
    /// `proto`: 0 in older versions, whatever the protocol.
    pub protocol: u8,
    /// `flags`: 0 active, 1 ending, 2 in quarantine, 3 under maintenance.
    pub state: u8,
    /// `cluster_id`: 0 for this one.
    pub cluster: u16,
}

impl Backend {
    /// New connections may go there.
    pub const ACTIVE: u8 = 0;
    /// Its pod is ending.
    pub const ENDING: u8 = 1;

    /// Its state in words.
    #[must_use]
    pub fn state_words(&self) -> String {
        match self.state {
            Self::ACTIVE => "active".to_owned(),
            Self::ENDING => "ending".to_owned(),
            2 => "in quarantine".to_owned(),
            3 => "under maintenance".to_owned(),
            other => format!("in state {other}, which is none"),
        }
    }
}

/// Bytes of keys and values, in the order of the families' maps.
const SIZES: [(AddressType, Map, usize, usize); 6] = [
    (AddressType::Ipv4, Map::Services, 12, 12),
    (AddressType::Ipv6, Map::Services, 24, 12),
    (AddressType::Ipv4, Map::Backends, 4, 12),
    (AddressType::Ipv6, Map::Backends, 4, 24),
    (AddressType::Ipv4, Map::Reverse, 2, 6),
    (AddressType::Ipv6, Map::Reverse, 2, 18),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Map {
    Services,
    Backends,
    Reverse,
}

/// Raw rows of one map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawMap {
    family: AddressType,
    map: Map,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads one map; `name` is that of its file, and counts where the map is empty.
///
/// # Errors
/// [`DumpError`] when it is no dump, or of another map.
pub fn read_map(name: &str, text: &str) -> Result<Vec<RawMap>, DumpError> {
    let value: Value = serde_json::from_str(text).map_err(|error| DumpError::Json {
        line: error.line(),
        column: error.column(),
        what: error.to_string(),
    })?;
    match value {
        Value::Array(rows) => Ok(raw_map(name, &rows)?.into_iter().collect()),
        // Several maps by name, as `jq -n` makes of several dumps.
        Value::Object(maps) => {
            let mut read = Vec::new();
            for (name, rows) in &maps {
                let rows = rows.as_array().ok_or_else(|| shape(format!("`{name}` is no list")))?;
                read.extend(raw_map(name, rows)?);
            }
            Ok(read)
        }
        _ => Err(shape("this is other JSON".to_owned())),
    }
}

fn shape(what: String) -> DumpError {
    DumpError::Shape { what }
}

fn raw_map(name: &str, rows: &[Value]) -> Result<Option<RawMap>, DumpError> {
    let mut read = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let part = |field: &str| {
            let bytes = row.get(field).and_then(Value::as_array);
            let bytes = bytes.and_then(|bytes| bytes.iter().map(byte).collect::<Option<Vec<u8>>>());
            bytes.ok_or_else(|| shape(format!("row {} has no list of bytes as `{field}`", index + 1)))
        };
        read.push((part("key")?, part("value")?));
    }
    let Some((key, value)) = read.first().map(|(key, value)| (key.len(), value.len())) else {
        let of = [AddressType::Ipv4, AddressType::Ipv6].into_iter().find_map(|family| {
            let names = names(family);
            let maps = [
                (names.services, Map::Services),
                (names.backends, Map::Backends),
                (names.reverse, Map::Reverse),
            ];
            maps.into_iter().find(|(known, _)| name.contains(known)).map(|(_, map)| (family, map))
        });
        return Ok(of.map(|(family, map)| RawMap { family, map, rows: read }));
    };
    let odd = read.iter().position(|(k, v)| (k.len(), v.len()) != (key, value));
    if let Some((index, (k, v))) = odd.and_then(|index| read.get(index).map(|row| (index, row))) {
        let what = format!("the first row has {key} and {value}");
        return Err(DumpError::Size { row: index + 1, key: k.len(), value: v.len(), what });
    }
    let known = SIZES.into_iter().find(|(_, _, k, v)| (*k, *v) == (key, value));
    let Some((family, map, ..)) = known else {
        let what = "no map of Services has such, that is services_v2, backends_v3 or reverse_nat".to_owned();
        return Err(DumpError::Size { row: 1, key, value, what });
    };
    Ok(Some(RawMap { family, map, rows: read }))
}

/// bpftool writes bytes as `"0x0a"`.
fn byte(value: &Value) -> Option<u8> {
    let digits = value.as_str()?.strip_prefix("0x")?;
    u8::from_str_radix(digits, 16).ok()
}

/// Puts maps together, by family; a family of which no services were given is left out.
///
/// # Errors
/// [`DumpError::NoServices`] when neither family has any.
pub fn assemble(maps: &[RawMap]) -> Result<Vec<Dump>, DumpError> {
    let mut dumps = Vec::new();
    for family in [AddressType::Ipv4, AddressType::Ipv6] {
        let mut dump = Dump { family, ..Dump::default() };
        let mut any = false;
        for map in maps.iter().filter(|map| map.family == family) {
            let rows = map.rows.iter().map(|(key, value)| (Bytes(key), Bytes(value)));
            match map.map {
                Map::Services => {
                    any = true;
                    dump.services.extend(rows.filter_map(|(key, value)| service(family, key, value)));
                }
                Map::Backends => {
                    let read =
                        rows.filter_map(|(key, value)| Some((key.host32(0)?, backend(family, value)?)));
                    dump.backends.get_or_insert_default().extend(read);
                }
                Map::Reverse => {
                    let read = rows.filter_map(|(key, value)| Some((key.net16(0)?, address(family, value)?)));
                    dump.reverse.get_or_insert_default().extend(read);
                }
            }
        }
        if any {
            let of_node = |(key, row): (&ServiceKey, &ServiceRow)| {
                let is = key.slot == 0 && row.flags & ServiceRow::NODE_PORT != 0;
                Some(key.address).filter(|address| is && !address.is_unspecified())
            };
            dump.node_addresses = dump.services.iter().filter_map(of_node).collect();
            dumps.push(dump);
        }
    }
    if dumps.is_empty() { Err(DumpError::NoServices) } else { Ok(dumps) }
}

/// Bytes of a row, whose length was compared with [`SIZES`] before.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn at<const N: usize>(self, offset: usize) -> Option<[u8; N]> {
        self.0.get(offset..offset.checked_add(N)?)?.try_into().ok()
    }

    fn host16(self, offset: usize) -> Option<u16> {
        self.at(offset).map(u16::from_le_bytes)
    }

    fn host32(self, offset: usize) -> Option<u32> {
        self.at(offset).map(u32::from_le_bytes)
    }

    fn net16(self, offset: usize) -> Option<u16> {
        self.at(offset).map(u16::from_be_bytes)
    }

    fn ip(self, family: AddressType) -> Option<(IpAddr, usize)> {
        match family {
            AddressType::Ipv6 => Some((Ipv6Addr::from(self.at::<16>(0)?).into(), 16)),
            AddressType::Ipv4 | AddressType::Fqdn => Some((Ipv4Addr::from(self.at::<4>(0)?).into(), 4)),
        }
    }
}

fn service(family: AddressType, key: Bytes<'_>, value: Bytes<'_>) -> Option<(ServiceKey, ServiceRow)> {
    let (address, end) = key.ip(family)?;
    let [protocol, scope] = key.at(end + 4)?;
    let [flags, flags2] = value.at(8)?;
    let key = ServiceKey { address, port: key.net16(end)?, slot: key.host16(end + 2)?, protocol, scope };
    let row = ServiceRow {
        word: value.host32(0)?,
        count: value.host16(4)?,
        reverse: value.net16(6)?,
        unused: value.host16(10)?,
        flags,
        flags2,
    };
    Some((key, row))
}

fn address(family: AddressType, value: Bytes<'_>) -> Option<SocketAddr> {
    let (address, end) = value.ip(family)?;
    Some(SocketAddr::new(address, value.net16(end)?))
}

fn backend(family: AddressType, value: Bytes<'_>) -> Option<Backend> {
    let (_, end) = value.ip(family)?;
    let [protocol, state] = value.at(end + 2)?;
    Some(Backend { address: address(family, value)?, protocol, state, cluster: value.host16(end + 4)? })
}
