//! The report tells the truth about this machine.

use netlab_node::Netns;
use netlab_node::capability::{Report, Status, find_tool, missing_capabilities, try_user_namespace};

#[test]
fn every_row_has_a_text_and_every_trouble_a_hint() {
    let report = Report::gather();
    let ids: Vec<&str> = report.items.iter().map(|item| item.id.as_str()).collect();
    assert_eq!(
        ids,
        ["kernel", "privilege", "namespaces", "rootless", "ipv6", "bpffs", "tracefs", "nft", "bpftool", "ip"]
    );
    for item in &report.items {
        assert!(!item.text.is_empty() && !item.text.contains('\n'), "{item:?}");
        assert!(item.status == Status::Ok || item.hint.is_some(), "{item:?}");
    }
}

#[test]
fn the_report_agrees_with_what_works() {
    let report = Report::gather();
    assert_eq!(report.is_ok("namespaces"), Netns::create().is_ok());
    assert_eq!(report.is_ok("privilege"), missing_capabilities().is_empty());
    assert_eq!(report.is_ok("rootless"), try_user_namespace().is_ok());
    assert_eq!(report.is_ok("ip"), find_tool("ip", &["-V"]).is_some());
}

#[test]
fn looking_leaves_the_process_where_it_was() {
    let before = Netns::current().expect("own").identity();
    Report::gather();
    assert_eq!(Netns::current().expect("own").identity(), before);
}
