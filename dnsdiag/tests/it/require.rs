//! What a test needs of the machine. A need that `NETLAB_TEST_REQUIRE` names is a failure when it is not met;
//! otherwise the test is skipped, and says so.

/// True when namespaces can be made here.
pub(crate) fn netns() -> bool {
    met("netns", netlab_node::Netns::create().map(|_| ()))
}

pub(crate) fn met<E: std::fmt::Display>(need: &str, outcome: Result<(), E>) -> bool {
    let Err(error) = outcome else { return true };
    let required = std::env::var("NETLAB_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|required| required.trim() == need),
        "NETLAB_TEST_REQUIRE names {need}, but: {error}"
    );
    #[expect(clippy::print_stderr, reason = "a skipped test has to say so")]
    {
        eprintln!("skipped: needs {need}: {error}");
    }
    false
}
