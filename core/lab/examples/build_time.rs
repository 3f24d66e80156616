//! How long a lab takes to stand and to go: `cargo run -p netlab-lab --example build_time -- PODS ROUNDS`.

use std::time::Instant;

use netlab_core::model::cluster::{Cluster, Node, ObjectKey, Pod};
use netlab_lab::{Lab, Plan, Selection};

#[expect(clippy::print_stdout, reason = "an example prints")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pods: u8 = arguments.next().as_deref().unwrap_or("2").parse()?;
    let rounds: usize = arguments.next().as_deref().unwrap_or("15").parse()?;
    let mut cluster = Cluster::default();
    let addresses = vec!["172.18.0.2".parse()?, "fc00::2".parse()?];
    cluster.nodes.insert("node-1".to_owned(), Node { addresses, ..Node::default() });
    for number in 0..pods {
        let addresses = vec![format!("10.244.1.{number}").parse()?, format!("fd00::{number:x}").parse()?];
        let pod = Pod { addresses, node: Some("node-1".to_owned()), ..Pod::default() };
        cluster.pods.insert(ObjectKey::new("default", format!("pod-{number}")), pod);
    }
    let plan = Plan::new(&cluster, &Selection::everything())?;
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let start = Instant::now();
        let lab = Lab::build(&plan)?;
        up.push(start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        drop(lab);
        down.push(start.elapsed().as_secs_f64() * 1e3);
    }
    for (what, mut times) in [("build", up), ("drop", down)] {
        times.sort_by(f64::total_cmp);
        let at = |share: usize| times.get((times.len() - 1) * share / 100).copied().unwrap_or_default();
        println!("{what}: median {:.2} ms, min {:.2}, max {:.2}", at(50), at(0), at(100));
    }
    Ok(())
}
