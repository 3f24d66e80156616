//! Writing many elements of a map with few calls.
//!
//! Invariant: every element is written, or the error is returned; a map type that the kernel cannot fill in
//! batches is filled one by one.

use std::io;
use std::os::fd::BorrowedFd;

use super::pod::{Pod, bytes_of, slice_bytes};
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

/// The kernel's own `ENOTSUPP`, which user space has no name for.
const NOTSUPP: i32 = 524;
