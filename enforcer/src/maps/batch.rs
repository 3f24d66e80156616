//! Writing and reading many elements of a map with few calls.
//!
//! Invariant: every element is written or read, or the error is returned; a map type that the kernel cannot fill in
//! batches is filled one by one. What changes while it is read may be among it or not.

use std::io;
use std::os::fd::BorrowedFd;

use super::pod::{Pod, bytes_of, from_bytes, slice_bytes};
use crate::bpf;

/// Elements in one call: large enough that calls do not count, small enough that the buffers do not either.
const AT_ONCE: usize = 4096;

pub(super) fn update<K: Pod, V: Pod>(
    map: BorrowedFd<'_>,
    elements: impl IntoIterator<Item = (K, V)>,
) -> io::Result<()> {
    let mut elements = elements.into_iter();
    loop {
        let (keys, values): (Vec<K>, Vec<V>) = elements.by_ref().take(AT_ONCE).unzip();
        if keys.is_empty() {
            return Ok(());
        }
        let count = u32::try_from(keys.len()).unwrap_or(u32::MAX);
        match bpf::update_batch(map, slice_bytes(&keys), slice_bytes(&values), count) {
            Ok(()) => {}
            Err((_, error))
                if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP | NOTSUPP)) =>
            {
                for (key, value) in keys.iter().zip(&values) {
                    bpf::update(map, bytes_of(key), bytes_of(value))?;
                }
            }
            Err((_, error)) => return Err(error),
        }
    }
}

/// Every element of an array, in order.
pub(super) fn read_array<V: Pod>(map: BorrowedFd<'_>, length: u32) -> io::Result<Vec<(u32, V)>> {
    let size = size_of::<V>();
    let mut elements = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    let (mut position, mut next) = ([0; 4], [0; 4]);
    let (mut keys, mut values) = (vec![0; AT_ONCE * 4], vec![0; AT_ONCE * size]);
    let mut first = true;
    loop {
        let from = (!first).then_some(position.as_slice());
        let at_once = u32::try_from(AT_ONCE).unwrap_or(u32::MAX);
        let (count, more) = bpf::lookup_batch(map, from, &mut next, &mut keys, &mut values, at_once)?;
        let count = usize::try_from(count).unwrap_or(0);
        let read = keys.chunks_exact(4).zip(values.chunks_exact(size)).take(count);
        elements.extend(read.filter_map(|(key, value)| Some((from_bytes(key)?, from_bytes(value)?))));
        if !more {
            return Ok(elements);
        }
        (position, first) = (next, false);
    }
}

/// The kernel's own `ENOTSUPP`, which user space has no name for.
const NOTSUPP: i32 = 524;
