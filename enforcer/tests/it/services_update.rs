//! Endpoints and policy change together: whatever step a change has come to, a packet to a Service gets the verdict of
//! the old change or of the new one.

use std::sync::{Arc, Mutex};

use netlab_core::model::cluster::ObjectKey;
use netlab_core::model::port::Protocol;
use netlab_core::policy::change::{Change, Frontend, RulesetTable};
use netlab_core::policy::frame::{Tuple, opening};
use netlab_ebpf::abi::Direction;
use netlab_enforcer::instance::WitnessInstance;
use netlab_enforcer::update::step::{Step, Steps};
use netlab_plugin::contract::Backend;

use crate::backend_site::{CLASS_DB, CLASS_WEB, CLASS_WORLD, WEB, open, service, table};
use crate::backend_traffic::Enforced;

/// Web may open TCP 5432 to one class.
fn web(id: u32, class: u32) -> RulesetTable {
    // Even entries allow, odd ones deny.
    let (allow, deny) = (64 + 2 * id, 65 + 2 * id);
    let row = |of: u32| if of == class { [deny, deny, deny, allow] } else { [deny; 4] };
    let rows = [CLASS_WORLD, CLASS_WEB, CLASS_DB].map(row);
    RulesetTable { id, ingress: None, egress: Some(table(Protocol::Tcp, 5432, rows)) }
}

fn leading_to(class: u32) -> Vec<Frontend> {
    let mut frontend = service(80, 5432);
    frontend.targets[0].peer_class = class;
    vec![frontend]
}

#[test]
fn at_no_step_of_a_change_is_a_service_judged_by_a_mix_of_two() {
    let frame = opening(&Tuple {
        source: WEB[0].parse().expect("an address"),
        destination: "10.96.0.1".parse().expect("an address"),
        protocol: 6,
        source_port: 40_000,
        destination_port: 80,
    })
    .expect("one family");
    for (before, after, allow) in [
        // What is selected and what is behind the Service change together: it stays allowed, or it stays denied.
        ((CLASS_DB, leading_to(CLASS_DB)), (CLASS_WORLD, leading_to(CLASS_WORLD)), true),
        ((CLASS_DB, leading_to(CLASS_WORLD)), (CLASS_WORLD, leading_to(CLASS_DB)), false),
        // A Service that comes where its bare address was allowed, and one that goes.
        ((CLASS_DB, leading_to(CLASS_DB)), (CLASS_WORLD, Vec::new()), false),
        ((CLASS_WORLD, Vec::new()), (CLASS_DB, leading_to(CLASS_DB)), false),
    ] {
        let Some(mut place) = Enforced::tc() else { return };
        let change = |place: &Enforced<_>, generation, (class, services): (u32, Vec<Frontend>)| {
            let id = generation;
            let change = place.site.change(generation, vec![web(id, class), open(9)], id, 9);
            Change { services, ..change }
        };
        let first = change(&place, 1, before.clone());
        place.backend.apply(&first).expect("applied");
        let second = change(&place, 2, after.clone());
        let witness = Mutex::new(place.backend.datapath().witness(Direction::Egress).expect("loaded"));
        let node = place.site.node().try_clone().expect("a second handle");
        let interface = place.site.lab.host_interface(&ObjectKey::new("shop", "web")).expect("a link").index;
        let seen: Arc<Mutex<Vec<(Step, bool)>>> = Arc::default();
        let told = Arc::clone(&seen);
        let frame = frame.clone();
        let run = move || {
            let mut witness = witness.lock().expect("one at a time");
            let witness: &mut WitnessInstance = &mut witness;
            let run = node.run(|| witness.test_run(&frame, interface, interface)).expect("the node");
            run.expect("a valid frame").allow
        };
        let expected_before = run();
        place.backend.follow(Steps::followed(move |step| told.lock().expect("alone").push((step, run()))));
        place.backend.apply(&second).expect("applied");
        place.backend.follow(Steps::default());
        let seen = seen.lock().expect("alone");
        assert!(seen.iter().any(|(step, _)| *step == Step::Served), "{seen:?}");
        let expected_after = seen.last().expect("steps").1;
        if before.1.is_empty() || after.1.is_empty() {
            // Until web is switched it is the former's, then the next one's, and never back.
            let turns = seen.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
            assert_eq!((seen[0].1, turns), (expected_before, 1), "{before:?} {after:?}: {seen:?}");
            assert_ne!(expected_before, expected_after);
            let turn = seen.windows(2).position(|pair| pair[0].1 != pair[1].1).expect("one");
            assert_eq!(seen[turn + 1].0, Step::Switched, "{seen:?}");
        } else {
            assert!(seen.iter().all(|(_, verdict)| *verdict == allow), "{before:?} {after:?}: {seen:?}");
        }
        assert_eq!(place.backend.audit().expect("audit").lines(), Vec::<String>::new());
    }
}
