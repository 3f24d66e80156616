//! The generator: its worlds are valid, survive the way through text, and meet what they are made to meet.

use fastrand::Rng;
use netlab_core::policy::oracle::Oracle;
use netlab_core::testing::generate::coverage::Coverage;
use netlab_core::testing::generate::questions::questions;
use netlab_core::testing::generate::world;
use netlab_core::testing::{manifest, query};

#[test]
#[expect(clippy::print_stdout, reason = "the table is what a reader of the run wants")]
fn a_run_meets_every_feature_often_enough() {
    let mut rng = Rng::with_seed(1);
    let mut coverage = Coverage::default();
    for _ in 0..700 {
        let objects = world(&mut rng);
        let oracle = Oracle::new(&objects);
        for question in questions(&objects, 4, &mut rng) {
            coverage.count(&objects, &question, &oracle.judge(&question));
        }
    }
    println!("{coverage}");
    assert_eq!(coverage.missing(), Vec::<String>::new());
    assert!(coverage.questions() > 2500);
}

#[test]
fn worlds_and_questions_survive_the_way_through_text() {
    let mut rng = Rng::with_seed(2);
    for _ in 0..150 {
        let objects = world(&mut rng);
        let again = manifest::read(&manifest::write(&objects)).expect("what was written can be read");
        assert_eq!(objects.pods, again.pods);
        assert_eq!(objects.nodes, again.nodes);
        assert_eq!(objects.namespaces, again.namespaces);
        assert_eq!(objects.network_policies, again.network_policies);
        assert_eq!(objects.admin_network_policies, again.admin_network_policies);
        assert_eq!(objects.baseline_admin_network_policies, again.baseline_admin_network_policies);
        assert_eq!(objects.cluster_network_policies, again.cluster_network_policies);
        for question in questions(&objects, 4, &mut rng) {
            let query = query::describe(&question);
            assert_eq!(query::question(&query, &objects).expect("what was described can be read"), question);
        }
    }
}
