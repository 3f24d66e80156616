//! The server's own verdicts on Corefiles, recorded, against the lint's.

use netlab_core::diagnostic::{Severity, code};

use crate::lint::{Files, report};

/// Codes of what keeps the server from starting.
const STOPS: [&str; 4] =
    [code::COREFILE_SYNTAX, code::PLUGIN_UNKNOWN, code::PLUGIN_ARGUMENTS, code::ZONE_TAKEN];

#[test]
fn what_the_server_refuses_is_an_error_and_nothing_else_is() {
    let text = include_str!("../data/corefiles.txt");
    let (mut wrong, mut starts, mut refuses) = (Vec::new(), 0, 0);
    for case in text.split("\n== ").skip(1) {
        let (head, corefile) = case.split_once('\n').expect("a case has a text");
        let (verdict, title) =
            head.trim_end_matches(" ==").split_once(": ").expect("a case has a verdict and a title");
        let refused = match verdict {
            "refuses" => true,
            "starts" => false,
            other => panic!("no verdict: {other}"),
        };
        *(if refused { &mut refuses } else { &mut starts }) += 1;
        let files = Files { corefile: Some(format!("{corefile}\n")), ..Files::default() };
        let found: Vec<String> = report(&files)
            .findings
            .into_iter()
            .map(|finding| finding.diagnostic)
            .filter(|found| found.severity == Severity::Error && STOPS.contains(&found.code))
            .map(|found| {
                format!("{} {}: {}", found.code, found.position.map_or(0, |place| place.line), found.message)
            })
            .collect();
        if found.is_empty() == refused {
            wrong.push(format!("{verdict}: {title}: {found:#?}"));
        }
    }
    assert!(starts >= 30 && refuses >= 40, "{starts} {refuses}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
