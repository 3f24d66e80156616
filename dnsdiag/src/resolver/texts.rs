//! What programs are told, by libc.
//!
//! Sources: glibc `gai_strerror`, musl `src/network/gai_strerror.c`, Go `net/net.go`.

use super::Libc;
use crate::version::Version;

/// `EAI_NONAME`.
pub(super) const NONAME: i32 = -2;
/// `EAI_AGAIN`.
pub(super) const AGAIN: i32 = -3;
/// `EAI_FAIL`.
pub(super) const FAIL: i32 = -4;
/// `EAI_NODATA`.
pub(super) const NODATA: i32 = -5;

/// The text of a number.
pub(super) fn of(libc: Libc, rc: i32) -> String {
    let text = match (libc, rc) {
        (_, 0) => "ok",
        (Libc::Glibc(_), NONAME) => "Name or service not known",
        (Libc::Glibc(_), AGAIN) => "Temporary failure in name resolution",
        (Libc::Glibc(_), FAIL) => "Non-recoverable failure in name resolution",
        (Libc::Glibc(_), NODATA) => "No address associated with hostname",
        (Libc::Glibc(_), -9) => "Address family for hostname not supported",
        (Libc::Musl(_), NONAME) => "Name does not resolve",
        (Libc::Musl(_), AGAIN) => "Try again",
        (Libc::Musl(_), FAIL) => "Non-recoverable error",
        (Libc::Musl(_), NODATA) => "Name has no usable address",
        (Libc::Go(_), NONAME) => "no such host",
        (Libc::Go(_), AGAIN) => "server misbehaving",
        _ => "unknown error",
    };
    text.to_owned()
}

/// musl learned `EAI_NODATA` in 1.2.4.
pub(super) const MUSL_NODATA: Version = Version::new(1, 2, 4);
