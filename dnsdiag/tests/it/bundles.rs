//! Every bundle of `tests/bundles` gets its verdict, no rule of another mode takes it, and nothing that is taken away
//! makes it healthy.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use netlab_core::model::service::AddressType;
use netlab_core::service::expected::expected as expected_rules;
use netlab_core::service::iptables::{ProxyOptions, emit};
use netlab_core::service::trace::{PortTrace, Status};
use netlab_dnsdiag::bundle::{self, Bundle, layout};
use netlab_dnsdiag::check::{Registry, STEPS};
use netlab_dnsdiag::diagnosis::{Diagnosis, diagnose, hits};
use netlab_dnsdiag::rules::{Class, RULES, rule};
use netlab_dnsdiag::view::View;
use netlab_plugin::check::{Check, CheckStatus};
use netlab_plugin::evidence::{Evidence, Fact, Outcome};
use netlab_plugin::loopback::Loopback;

#[derive(serde::Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Expected {
    class: Class,
    id: Option<String>,
    mode: Option<String>,
    /// Words that the first line has.
    #[serde(default)]
    says: Vec<String>,
    /// Modes that contribute.
    #[serde(default)]
    contributing: Vec<String>,
    /// True when `node/iptables-save` is what kube-proxy writes for the bundle's Services: such files are blessed.
    #[serde(default)]
    proxy_in_sync: bool,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bundles")
}

/// `F01`, `F09-service`, `base`, `healthy-musl`, …
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).expect("the bundles are there");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn read(name: &str) -> (Bundle, Expected) {
    let directory = folder().join(name);
    let bundle = bundle::read(&directory).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(bundle.ignored.is_empty(), "{name}: not part of a bundle: {:?}", bundle.ignored);
    let text = std::fs::read_to_string(directory.join(layout::EXPECTED)).expect("expected.json");
    let expected =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: expected.json: {error}"));
    (bundle, expected)
}

fn verdict(bundle: &Bundle) -> Diagnosis {
    diagnose(&bundle.target, &bundle.evidence, &Registry::default())
}

/// `F09-service` is about F09.
fn mode_of(name: &str) -> Option<&str> {
    let mode = name.split('-').next()?;
    (mode.len() == 3 && mode.starts_with('F')).then_some(mode)
}

#[test]
fn every_bundle_gets_its_verdict() {
    let mut wrong = String::new();
    for name in names() {
        let (bundle, expected) = read(&name);
        let found = verdict(&bundle);
        let mode = expected.mode.as_deref();
        assert_eq!(mode_of(&name), mode, "{name}: the folder is named after the mode");
        let got = (found.verdict.class, found.verdict.id, found.verdict.mode);
        if got != (expected.class, expected.id.as_deref(), mode) {
            let _ = writeln!(wrong, "{name}: {got:?}, {}\n    {:?}", found.verdict.summary, found.because);
        }
        for words in &expected.says {
            let said = [&found.because, &found.fixes].into_iter().flatten().any(|line| line.contains(words));
            if !found.verdict.summary.contains(words) && !said {
                let _ = writeln!(
                    wrong,
                    "{name}: does not say `{words}`: {} {:?}",
                    found.verdict.summary, found.because
                );
            }
        }
        for mode in &expected.contributing {
            if !found.contributing.iter().any(|cause| cause.mode == *mode) {
                let _ = writeln!(wrong, "{name}: {mode} does not contribute: {:?}", found.contributing);
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
#[expect(clippy::print_stdout, reason = "the matrix is there to be read: `-- --nocapture`")]
fn the_confusion_matrix_is_diagonal() {
    let mut matrix = String::new();
    let mut off_diagonal = Vec::new();
    let mut unused: BTreeSet<&str> = RULES.iter().map(|rule| rule.mode).collect();
    for name in names() {
        let (bundle, _) = read(&name);
        let view = View::new(&bundle.target, &bundle.evidence);
        let (hits, _) = hits(&view);
        let _ = write!(matrix, "{name:<24}");
        let modes: Vec<&str> = hits.iter().map(|one| one.rule.mode).collect();
        // What is only latent is no verdict where nobody complains.
        let first = verdict(&bundle).verdict.mode;
        for rule in RULES {
            let mark = match modes.contains(&rule.mode) {
                true if first == Some(rule.mode) => '#',
                true => '+',
                false => '.',
            };
            matrix.push(mark);
        }
        let others: Vec<&str> = modes.iter().copied().filter(|mode| first != Some(*mode)).collect();
        let _ = writeln!(matrix, " {} {}", first.unwrap_or("-"), others.join(" "));
        if first != mode_of(&name) {
            off_diagonal.push((name.clone(), first));
        }
        if let Some(mode) = first {
            unused.remove(mode);
        }
    }
    println!(
        "# fires first, + fires after it; one column a rule, in the order in which they are asked\n{matrix}"
    );
    assert!(off_diagonal.is_empty(), "off the diagonal: {off_diagonal:?}\n{matrix}");
    assert!(unused.is_empty(), "no bundle has {unused:?}");
}

/// Manifests that somebody keeps rarely hold what the API server makes by itself.
#[test]
fn a_canary_that_the_manifests_do_not_declare_is_no_wrong_answer() {
    let (mut bundle, _) = read("base");
    let id = "cluster/services.yaml";
    let text = bundle.evidence.text(id).expect("Services").to_owned();
    let (start, rest) = text.split_once("- apiVersion: v1\n").expect("an item");
    let (_, others) = rest.split_once("- apiVersion: v1\n").expect("another");
    assert!(!others.contains("name: kubernetes,"), "{others}");
    let text = format!("{start}- apiVersion: v1\n{others}");
    bundle.evidence.facts.insert(id.to_owned(), Fact::Text { text });
    let diagnosis = verdict(&bundle);
    assert_eq!(diagnosis.verdict.class, Class::Healthy, "{diagnosis:#?}");
}

/// Takes one file away at a time: the verdict stays, or is undetermined; it never becomes healthy or another.
#[test]
fn a_file_less_never_makes_it_healthy_or_another() {
    let names = names();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let each = |worker| {
            let names = &names;
            scope.spawn(move || {
                names.iter().skip(worker).step_by(workers).map(|name| a_file_less(name)).collect::<String>()
            })
        };
        let running: Vec<_> = (0..workers).map(each).collect();
        running.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let wrong = wrong.concat();
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// What is wrong with a bundle's verdicts when each of its files is taken away once.
fn a_file_less(name: &str) -> String {
    let mut wrong = String::new();
    let (bundle, expected) = read(name);
    let files: BTreeSet<String> =
        bundle.evidence.facts.keys().map(|id| id.split('#').next().unwrap_or_default().to_owned()).collect();
    for file in files {
        let mut less = bundle.clone();
        less.evidence.facts.retain(|id, _| id.split('#').next() != Some(&*file));
        let found = verdict(&less);
        let healthy = expected.class == Class::Healthy;
        // musl never reads nsswitch.conf.
        let musl = bundle.target.libc.as_deref().is_some_and(|libc| libc.starts_with("musl"));
        let vital =
            layout::file(&file).is_some_and(|file| file.vital) && !(musl && file == layout::POD_NSSWITCH);
        // Where only the report shows that something is wrong, nothing is without it.
        let reported = expected.mode.as_deref().and_then(rule).is_some_and(|rule| {
            file == layout::SYMPTOM && (rule.latent || rule.needs.contains(&layout::SYMPTOM))
        }) || expected.class == Class::Undetermined && file == layout::SYMPTOM;
        let right = match found.verdict.class {
            Class::Undetermined => !found.because.is_empty() || !found.not_examined.is_empty(),
            Class::Healthy => reported || (healthy && !vital),
            _ => found.verdict.mode == expected.mode.as_deref(),
        };
        // Without what was reported, what remains may be no failure.
        let symptomless =
            file == layout::SYMPTOM && found.verdict.class == Class::Healthy && !healthy && !reported;
        if !right || symptomless {
            let _ =
                writeln!(wrong, "{name} without {file}: {:?} {}", found.verdict.mode, found.verdict.summary);
        }
        let silent = !found.not_examined.iter().any(|what| what.contains(&*file));
        let another = layout::PROXY_DUMPS.contains(&&*file);
        if silent && !another {
            let _ = writeln!(wrong, "{name} without {file}: nothing says that it was not examined");
        }
    }
    wrong
}

/// A question less: what was healthy stays so only where the question was not needed for that; a danger or noise is still told or
/// the verdict is undetermined.
#[test]
fn a_row_less_never_makes_it_healthy_or_another() {
    let mut wrong = String::new();
    let mut needed = 0;
    for name in names() {
        let (bundle, expected) = read(&name);
        let latent = expected.mode.as_deref().and_then(rule).is_some_and(|rule| rule.latent);
        let healthy = expected.class == Class::Healthy;
        // Failures with their symptom are never healthy: it would not be explained.
        if !healthy && !latent && bundle.evidence.symptom().is_some() {
            continue;
        }
        // A row that alone speaks against health is cited.
        let alone = verdict(&bundle).verdict.evidence;
        let rows: Vec<String> = bundle.evidence.probes().map(|(id, _)| id.to_owned()).collect();
        for row in rows {
            let mut less = bundle.clone();
            less.evidence.facts.remove(&row);
            let found = verdict(&less);
            let right = match found.verdict.class {
                Class::Undetermined => true,
                Class::Healthy => healthy || expected.class == Class::Undetermined && alone.contains(&row),
                _ => found.verdict.mode == expected.mode.as_deref(),
            };
            needed += usize::from(healthy && found.verdict.class == Class::Undetermined);
            if !right {
                let _ = writeln!(
                    wrong,
                    "{name} without {row}: {:?} {}",
                    found.verdict.mode, found.verdict.summary
                );
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(needed > 50, "only {needed} rows of healthy bundles are needed");
}

/// What a command that failed leaves behind is not what it was to record.
#[test]
fn what_holds_no_evidence_is_never_healthy() {
    let (bundle, _) = read("base");
    let left = [
        "",
        "\n",
        "---\n",
        "Error from server (Forbidden): pods \"web\" is forbidden\n",
        "cat: /etc/hosts: No such file or directory\n",
    ];
    for (file, text) in layout::FILES.iter().flat_map(|file| left.map(|text| (file, text))) {
        let dump = layout::PROXY_DUMPS.contains(&file.path) && !bundle.evidence.facts.contains_key(file.path);
        let read = matches!(file.format, layout::Format::Text | layout::Format::Objects);
        if !file.vital || !read || dump {
            continue;
        }
        let mut other = bundle.clone();
        other.evidence.facts.insert(file.path.to_owned(), Fact::Text { text: text.to_owned() });
        let found = verdict(&other);
        assert_eq!(found.verdict.class, Class::Undetermined, "{} is {text:?}: {found:#?}", file.path);
        let said = found.because.iter().chain(&found.not_examined).any(|line| line.contains(file.path));
        assert!(said, "{} is {text:?}, and nothing says so: {:?}", file.path, found.because);
    }
}

/// Two things fail, and "no such name" at once comes from one of them.
#[test]
fn the_report_decides_between_two_failures() {
    let (mut bundle, _) = read("F61-stale-conntrack");
    for fact in bundle.evidence.facts.values_mut() {
        if let Fact::Probe(probe) = fact
            && probe.server.to_string() == "10.244.2.7"
        {
            probe.result = Outcome::Silent;
            probe.answers.clear();
        }
    }
    let found = verdict(&bundle);
    assert_eq!(found.verdict.mode, Some("F61"), "{}", found.verdict.summary);
    assert!(found.contributing.iter().any(|cause| cause.mode == "F20"), "{:?}", found.contributing);
    bundle.evidence.facts.remove(layout::SYMPTOM);
    assert_eq!(verdict(&bundle).verdict.mode, Some("F20"));
}

/// Whoever is told that there is no such name was not told an address of `/etc/hosts`.
#[test]
fn no_such_name_does_not_come_from_a_line_that_has_it() {
    let (mut bundle, _) = read("F87");
    assert_eq!(verdict(&bundle).verdict.mode, Some("F87"));
    let symptom = bundle.evidence.facts.get_mut(layout::SYMPTOM);
    let Some(Fact::Symptom(symptom)) = symptom else { panic!("F87 has a report") };
    symptom.error = Some("Name or service not known".to_owned());
    assert_eq!(verdict(&bundle).verdict.mode, None);
}

#[test]
fn checks_survive_their_json() {
    for name in ["base", "F01", "F28", "F30"] {
        let (bundle, _) = read(name);
        for step in STEPS {
            let direct = step.run(&bundle.target, &bundle.evidence);
            let through = Loopback::new(*step).run(&bundle.target, &bundle.evidence);
            assert_eq!(direct, through, "{name}: {} through JSON", step.id);
        }
    }
}

#[test]
fn evidence_survives_its_json() {
    for name in names() {
        let (bundle, _) = read(&name);
        let text = serde_json::to_string(&bundle.evidence).expect("evidence is JSON");
        let back: Evidence = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(bundle.evidence, back, "{name}");
    }
}

#[test]
fn steps_cite_facts_that_are_there() {
    for name in names() {
        let (bundle, _) = read(&name);
        let view = View::new(&bundle.target, &bundle.evidence);
        for step in STEPS {
            let Some(outcome) = (step.examine)(&view) else { continue };
            let said = outcome.status != CheckStatus::NotExamined || !outcome.not_examined.is_empty();
            assert!(said, "{name}: {} does not say what it missed", step.id);
            for id in &outcome.evidence {
                assert!(
                    bundle.evidence.facts.contains_key(id),
                    "{name}: {} cites `{id}`, which is no fact",
                    step.id
                );
            }
        }
    }
}

#[test]
fn verdicts_cite_facts_that_are_there() {
    for name in names() {
        let (bundle, _) = read(&name);
        let found = verdict(&bundle);
        assert!(!found.verdict.evidence.is_empty(), "{name}: cites nothing");
        for id in found.verdict.evidence.iter().chain(&found.verdict.against) {
            assert!(bundle.evidence.facts.contains_key(id), "{name}: cites `{id}`, which is no fact");
        }
        let fault = found.verdict.mode.is_some();
        assert!(!fault || !found.fixes.is_empty(), "{name}: no fix");
        assert!(!fault || !found.verify.is_empty(), "{name}: nothing verifies it");
        assert!(
            found.verdict.summary.chars().count() <= 64,
            "{name}: a long line: {}",
            found.verdict.summary
        );
    }
}

#[test]
fn a_server_outside_is_no_fault_where_the_pod_s_manifest_names_it() {
    let status = |named: &str| {
        let pods = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop}}\nspec:\n  dnsPolicy: None\n  dnsConfig: \
             {{nameservers: [{named}]}}\n  containers: [{{name: app}}]\n"
        );
        let services = "apiVersion: v1\nkind: Service\nmetadata: {name: kube-dns, namespace: kube-system}\n\
                        spec: {clusterIP: 10.96.0.10, ports: [{port: 53, protocol: UDP}]}\n";
        let manifest = r#"{"apiVersion": "netlab.dev/v1", "kind": "DnsBundle", "subject": {"namespace": "shop", "pod": "web"}}"#;
        let files = [
            (layout::MANIFEST, manifest),
            (layout::PODS, &pods),
            (layout::SERVICES, services),
            (layout::POD_RESOLV_CONF, "nameserver 192.0.2.53\n"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let bundle = bundle::parse(&files).unwrap_or_else(|error| panic!("{error}"));
        let step = STEPS.iter().find(|step| step.id == "S2").expect("a step");
        (step.examine)(&View::new(&bundle.target, &bundle.evidence)).expect("an outcome").status
    };
    assert_eq!(status("192.0.2.53"), CheckStatus::Warning);
    assert_eq!(status("192.0.2.54"), CheckStatus::Fault);
}

#[test]
fn a_bundle_is_written_as_it_was_read() {
    for name in names() {
        let (bundle, _) = read(&name);
        let files = bundle::files(&bundle);
        let again = bundle::parse(&files).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(bundle, again, "{name}");
    }
}

#[test]
fn modes_and_ids_are_unique() {
    let mut by_mode = BTreeMap::new();
    for rule in RULES {
        let former = by_mode.insert(rule.mode, rule.id);
        assert!(former.is_none(), "{} is there twice", rule.mode);
        assert!(!rule.needs.is_empty(), "{} needs nothing", rule.mode);
        for file in rule.needs {
            assert!(layout::file(file).is_some(), "{} needs `{file}`", rule.mode);
        }
    }
}

/// Text facts are what the rules read; a fact of another kind under such a name would never be looked at.
#[test]
fn facts_have_the_kind_of_their_file() {
    for name in names() {
        let (bundle, _) = read(&name);
        for (id, fact) in &bundle.evidence.facts {
            let format = layout::file(id.split('#').next().unwrap_or_default()).map(|file| file.format);
            let right = match fact {
                Fact::Absent => true,
                Fact::Text { .. } => matches!(format, Some(layout::Format::Text | layout::Format::Objects)),
                Fact::Probe(_) => format == Some(layout::Format::Probes),
                Fact::Symptom(_) => format == Some(layout::Format::Symptom),
                Fact::Counters(_) => format == Some(layout::Format::Counters),
            };
            assert!(right, "{name}: {id}");
        }
    }
}

/// So that the rules in bundles are real ones: where the proxy is in order, they are what it would write.
#[test]
fn proxy_rules_are_what_a_proxy_writes() {
    let mut stale = Vec::new();
    for name in names() {
        let (bundle, expected) = read(&name);
        if !expected.proxy_in_sync {
            continue;
        }
        let view = View::new(&bundle.target, &bundle.evidence);
        let node = view.subject().and_then(|subject| subject.node()).expect("the pod has a node");
        let address = view.vips().first().copied().expect("a DNS Service");
        let ports = expected_rules(&view.loaded.cluster, node, AddressType::of(address));
        let in_order = view.proxy(address).is_some_and(|proxy| {
            let ok = |port: &PortTrace| port.status == Status::Ok;
            proxy.trace.ports.len() == ports.len() && proxy.trace.ports.iter().all(ok)
        });
        if !in_order && std::env::var_os("NETLAB_BLESS").is_some() {
            let path = folder().join(&name).join(layout::NODE_IPTABLES);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("make the folder");
            std::fs::write(&path, emit(&ports, &ProxyOptions::default())).expect("write the rules");
        } else if !in_order {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "node/iptables-save is not in order; NETLAB_BLESS=1 writes what kube-proxy would: {stale:?}"
    );
}
