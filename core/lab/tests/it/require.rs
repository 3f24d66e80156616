//! What a test needs of the machine. A need that `NETLAB_TEST_REQUIRE` names is a failure when it is not met;
//! otherwise the test is skipped, and says so.

/// True when namespaces can be made and furnished here.
pub(crate) fn netns() -> bool {
    met("netns", netlab_node::Netns::create().map(|_| ()).map_err(|error| error.to_string()))
}

/// True when `outcome` is fine. `need` is what the test cannot do without.
pub(crate) fn met(need: &str, outcome: Result<(), String>) -> bool {
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
