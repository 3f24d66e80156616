//! Was it DNS? The models of what should happen, and the diagnosis of what did.
//!
//! Models are pure: what kubelet writes into a pod's `resolv.conf`, which queries a libc then sends, what a name
//! should resolve to. The diagnosis compares them with evidence, which is recorded first and judged afterwards: the
//! same bundle gives the same verdict anywhere. Policy is asked of `netlab_core::policy`, the proxy's rules of
//! `netlab_core::service`; nothing of them is modelled again here.
//!
//! The way of a diagnosis: [`bundle`] reads evidence, [`view`] is what the models make of it, [`check`] tells it step by
//! step, [`rules`] has one file for each way to fail, and [`mod@diagnosis`] concludes.

pub mod answers;
pub mod assumed;
pub mod bundle;
pub mod check;
pub mod cluster_dns;
pub mod corefile;
pub mod diagnosis;
pub mod gather;
pub mod kubelet;
pub mod lint;
pub mod probe;
pub mod records;
pub mod resolv_conf;
pub mod resolver;
pub mod rules;
pub mod script;
pub mod version;
pub mod view;

pub use diagnosis::{Diagnosis, diagnose};
