//! Which types may be written to and read from maps as their bytes.
//!
//! The only place that says so, and one of the few with `unsafe`: everything else reads and writes typed values.

use netlab_ebpf::abi::{
    CidrKey, Device, Event, Flow, Flow4Key, FlowKey, FragmentKey, FragmentValue, LastDrop, PeerValue,
    PolicyKey, PolicyValue, RulesetPorts, ServiceKey, ServiceValue,
};

/// A type whose values are their bytes.
///
/// # Safety
/// The type has no padding, no pointer and no invalid bit pattern.
pub unsafe trait Pod: Copy + 'static {}

macro_rules! pod {
    ($($type:ty),+ $(,)?) => {
        $(
            // SAFETY: integers, or a `repr(C)` structure of integers and arrays of them whose size is asserted in
            // `netlab_ebpf::abi` to be the sum of its fields': no padding, every bit pattern valid.
            unsafe impl Pod for $type {}
        )+
    };
}

pod!(
    u8,
    u32,
    u64,
    [u8; 16],
    [u8; 256],
    CidrKey,
    Device,
    Event,
    Flow,
    Flow4Key,
    FlowKey,
    FragmentKey,
    FragmentValue,
    LastDrop,
    PeerValue,
    PolicyKey,
    PolicyValue,
    RulesetPorts,
    ServiceKey,
    ServiceValue,
);

/// A value's bytes.
pub fn bytes_of<T: Pod>(value: &T) -> &[u8] {
    slice_bytes(std::slice::from_ref(value))
}

/// The bytes of values one after the other.
pub fn slice_bytes<T: Pod>(values: &[T]) -> &[u8] {
    // SAFETY: `Pod` has no padding, so every byte is initialised; the length is that of the slice.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The value with these bytes; `None` when there are too few. More are ignored.
pub fn from_bytes<T: Pod>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: there are enough bytes, and `Pod` makes any of them a valid value.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
