//! A case: a folder of `cluster.yaml`, `policies.yaml`, `queries.yaml` and `expected.json`.
//!
//! Invariant: the expectation is an array with one element for each query, in order, that repeats the query.

use serde_json::{Value, json};

use super::query::{Query, answer_json, describe, question};
use super::{UnreadableCase, manifest};
use crate::input::WireObjects;
use crate::policy::oracle::{Oracle, Question};

/// The input of a case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Cluster and policies.
    pub objects: WireObjects,
    /// What is asked.
    pub questions: Vec<(Query, Question)>,
}

impl Case {
    /// A case from the texts of its files.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn read(cluster: &str, policies: &str, queries: &str) -> Result<Self, UnreadableCase> {
        let mut objects = manifest::read(cluster)?;
        let policies = manifest::read(policies)?;
        objects.network_policies.extend(policies.network_policies);
        objects.admin_network_policies.extend(policies.admin_network_policies);
        objects.baseline_admin_network_policies.extend(policies.baseline_admin_network_policies);
        objects.cluster_network_policies.extend(policies.cluster_network_policies);
        let queries: Vec<Query> =
            serde_saphyr::from_str(queries).map_err(|error| UnreadableCase::new("queries", error))?;
        let mut questions = Vec::new();
        for query in queries {
            let question = question(&query, &objects)?;
            questions.push((query, question));
        }
        Ok(Self { objects, questions })
    }

    /// What the oracle says, as `expected.json` has it.
    pub fn answers(&self) -> Value {
        let oracle = Oracle::new(&self.objects);
        let answers = self.questions.iter().map(|(query, question)| {
            let mut fields = answer_json(&oracle.judge(question));
            fields["query"] = json!(query.to_string());
            fields
        });
        answers.collect()
    }
}

/// A case of these objects and one question, as text to be saved: each file's name and what it holds.
pub fn write(objects: &WireObjects, question: &Question) -> Vec<(&'static str, String)> {
    let query = describe(question);
    let case = Case { objects: objects.clone(), questions: vec![(query.clone(), question.clone())] };
    let Query { from, to, port } = query;
    vec![
        ("cluster.yaml", manifest::write_cluster(objects)),
        ("policies.yaml", manifest::write_policies(objects)),
        ("queries.yaml", format!("- {{from: {from:?}, to: {to:?}, port: {port:?}}}\n")),
        ("expected.json", format!("{:#}\n", case.answers())),
    ]
}
