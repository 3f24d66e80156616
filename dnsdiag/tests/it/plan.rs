//! Plans against what the real libraries did.

use netlab_dnsdiag::resolver::Libc;

use crate::vector::{Vector, agrees};

fn vectors(text: &str) -> Vec<Vector> {
    serde_json::from_str(text).expect("vectors")
}

#[test]
fn every_measured_lookup_is_planned() {
    let mut wrong = Vec::new();
    let mut compared = 0;
    for vector in vectors(include_str!("../data/vectors.json")) {
        for (libc, observed) in &vector.observed {
            let libc: Libc = libc.parse().expect("a libc");
            compared += 1;
            if let Err(why) = agrees(&vector.plan(libc), observed) {
                wrong.push(format!("{} {libc}\n  {why}", vector.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(compared, 93);
}
