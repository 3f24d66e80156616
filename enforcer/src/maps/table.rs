//! One map, typed by its key and value.
//!
//! Invariant: a table is made only over a map whose key and value sizes are those of its types, so no read or
//! write passes their end. Knows nothing of what the values mean, nor in which order they should be written.
#![expect(clippy::missing_errors_doc, reason = "each error type says when it occurs")]

use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::pod::{Pod, bytes_of, from_bytes};
use super::{MapError, batch};
use crate::bpf;

/// A map of the kernel. Cloning gives another handle of the same map.
#[derive(Debug)]
pub struct Table<K, V> {
    name: &'static str,
    fd: Arc<OwnedFd>,
    id: u32,
    max_entries: u32,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        let Self { name, fd, id, max_entries, types } = self;
        Self { name, fd: Arc::clone(fd), id: *id, max_entries: *max_entries, types: *types }
    }
}

impl<K: Pod, V: Pod> Table<K, V> {
    /// Types a map. Fails when its sizes are not those of `K` and `V`.
    pub(crate) fn new(name: &'static str, fd: Arc<OwnedFd>) -> Result<Self, MapError> {
        let info = bpf::map_info(fd.as_fd()).map_err(|error| MapError::call("describe", name, error))?;
        let (key_size, value_size) = (size_of::<K>(), size_of::<V>());
        if usize::try_from(info.key_size) != Ok(key_size)
            || usize::try_from(info.value_size) != Ok(value_size)
        {
            return Err(MapError::Layout {
                map: name,
                key_size: info.key_size,
                value_size: info.value_size,
                expected_key_size: key_size,
                expected_value_size: value_size,
            });
        }
        Ok(Self { name, fd, id: info.id, max_entries: info.max_entries, types: PhantomData })
    }

    /// The map's name in the object.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The kernel's id of the map, as `bpftool map show id` takes it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// How many elements it can hold.
    pub fn max_entries(&self) -> u32 {
        self.max_entries
    }

    /// The descriptor, for pinning and for a second instance.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn shared_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Result<Option<V>, MapError> {
        Ok(self.get_bytes(key)?.and_then(|bytes| from_bytes(&bytes)))
    }

    /// The bytes of a key's value, as the kernel holds them: what a citation shows.
    pub fn get_bytes(&self, key: &K) -> Result<Option<Vec<u8>>, MapError> {
        let mut value = vec![0; size_of::<V>()];
        let found = bpf::lookup(self.fd(), bytes_of(key), &mut value)
            .map_err(|error| MapError::call("read", self.name, error))?;
        Ok(found.then_some(value))
    }

    /// Writes an element.
    pub fn set(&self, key: &K, value: &V) -> Result<(), MapError> {
        bpf::update(self.fd(), bytes_of(key), bytes_of(value))
            .map_err(|error| MapError::write(self.name, self.max_entries, error))
    }

    /// Writes many elements with few calls.
    pub fn set_all(&self, elements: impl IntoIterator<Item = (K, V)>) -> Result<(), MapError> {
        batch::update(self.fd(), elements)
            .map_err(|error| MapError::write(self.name, self.max_entries, error))
    }

    /// Removes an element; false when there was none. Not for arrays, whose elements always are.
    pub fn remove(&self, key: &K) -> Result<bool, MapError> {
        bpf::delete(self.fd(), bytes_of(key)).map_err(|error| MapError::call("delete from", self.name, error))
    }

    /// Every key that is there. Elements that come or go meanwhile may or may not be among them.
    pub fn keys(&self) -> Result<Vec<K>, MapError> {
        let mut keys: Vec<K> = Vec::new();
        let mut next = vec![0; size_of::<K>()];
        // A deleted key makes the kernel begin again: without a bound a busy map could be walked for ever.
        let bound = usize::try_from(self.max_entries).unwrap_or(usize::MAX).saturating_mul(2);
        while keys.len() <= bound {
            let last = keys.last().map(bytes_of);
            let more = bpf::next_key(self.fd(), last, &mut next)
                .map_err(|error| MapError::call("walk", self.name, error))?;
            let Some(key) = from_bytes(&next).filter(|_| more) else { break };
            keys.push(key);
        }
        Ok(keys)
    }

    /// Every element that is there, like [`Table::keys`].
    pub fn entries(&self) -> Result<Vec<(K, V)>, MapError> {
        let mut entries = Vec::new();
        for key in self.keys()? {
            if let Some(value) = self.get(&key)? {
                entries.push((key, value));
            }
        }
        Ok(entries)
    }

    /// Every element of an array, with few calls: key and value.
    pub fn elements(&self) -> Result<Vec<(u32, V)>, MapError> {
        batch::read_array(self.fd(), self.max_entries)
            .map_err(|error| MapError::call("read", self.name, error))
    }

    /// Removes every element.
    pub fn clear(&self) -> Result<(), MapError> {
        for key in self.keys()? {
            self.remove(&key)?;
        }
        Ok(())
    }
}
