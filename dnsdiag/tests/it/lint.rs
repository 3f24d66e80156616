//! The DNS lint on whole configurations.

use netlab_core::input::{Budget, Document, load};
use netlab_dnsdiag::lint::{Inputs, Report, lint};

/// The files of one case.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) corefile: Option<String>,
    pub(crate) kubelet: Option<String>,
    pub(crate) node_file: Option<String>,
    pub(crate) manifests: Option<String>,
}

impl Files {
    /// Files below lines `== NAME ==`.
    pub(crate) fn split(text: &str) -> Self {
        let mut files = Self::default();
        let mut current: Option<&mut String> = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("== ").and_then(|rest| rest.strip_suffix(" ==")) {
                let file = match name {
                    "Corefile" => &mut files.corefile,
                    "kubelet" => &mut files.kubelet,
                    "resolv.conf" => &mut files.node_file,
                    "manifests" => &mut files.manifests,
                    other => panic!("no file is called {other}"),
                };
                current = Some(file.get_or_insert_default());
            } else if let Some(file) = current.as_mut() {
                file.push_str(line);
                file.push('\n');
            }
        }
        files
    }
}

/// What the lint says of files.
pub(crate) fn report(files: &Files) -> Report {
    let document = |name: &str, text: &Option<String>| {
        text.as_ref().map(|text| Document { name: name.into(), text: text.as_str().into() })
    };
    let corefile = document("Corefile", &files.corefile);
    let kubelet = document("kubelet.yaml", &files.kubelet);
    let node_file = document("resolv.conf", &files.node_file);
    let loaded =
        document("manifests.yaml", &files.manifests).map(|document| load([document], &Budget::default()));
    if let Some(loaded) = &loaded {
        assert!(loaded.is_complete(), "{:?}", loaded.diagnostics);
    }
    lint(Inputs {
        corefile: corefile.as_ref(),
        kubelet: kubelet.as_ref(),
        node_file: node_file.as_ref(),
        manifests: loaded.as_ref(),
    })
}
