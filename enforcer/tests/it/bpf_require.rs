//! What the kernel tests of the datapath need of the machine. A need that `NETLAB_TEST_REQUIRE` names is a failure
//! when it is not met; otherwise the test says what is missing and does not run.

use netlab_enforcer::instance::LoadError;
use netlab_enforcer::{Datapath, LoadOptions};

/// An instance, or `None` after saying why there cannot be one.
pub(crate) fn datapath(test: &str, options: &LoadOptions) -> Option<Datapath> {
    match Datapath::load(options) {
        Ok(datapath) => Some(datapath),
        Err(LoadError::NotAllowed) => {
            let required = std::env::var("NETLAB_TEST_REQUIRE").unwrap_or_default();
            for need in ["root", "bpf"] {
                assert!(
                    !required.split(',').any(|word| word.trim() == need),
                    "{test} needs {need}, and NETLAB_TEST_REQUIRE says that it is there"
                );
            }
            eprintln!("{test}: skipped, loading BPF is not allowed here");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}
