//! `NL03xx`: policies that are valid and probably do not mean what they say.

use super::{Page, code};

/// A manifest: a few pods, then a policy.
macro_rules! manifest {
    ($($text:expr),+) => {
        concat!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop, labels: {team: shop}}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, labels: {app: web}}\n",
            "spec: {containers: [{name: web, ports: [{name: http, containerPort: 8080}]}]}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: api, namespace: shop, labels: {app: api}}\n",
            "spec: {containers: [{name: api, ports: [{name: http, containerPort: 8080}]}]}\n---\n",
            "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}\n",
            "spec: {containers: [{name: db, ports: [{containerPort: 5432}]}]}\n---\n",
            $($text),+
        )
    };
}

/// The same with a NetworkPolicy `api` about the pod `api`; the text is the rest of its `spec`.
macro_rules! about_api {
    ($($text:expr),+) => {
        manifest!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: api, namespace: shop}\nspec:\n",
            "  podSelector: {matchLabels: {app: api}}\n",
            $($text),+
        )
    };
}

mod addresses;
mod dead_rules;
mod dns;
mod fields;
mod portability;
mod ports;
mod selectors;
mod tiers;

/// All of them, by code.
pub(super) fn pages() -> impl Iterator<Item = &'static Page> {
    let lints = selectors::PAGES.iter().chain(&addresses::PAGES).chain(&fields::PAGES).chain(&ports::PAGES);
    let more = dead_rules::PAGES.iter().chain(&dns::PAGES).chain(&addresses::EMPTY).chain(&tiers::PAGES);
    lints.chain(more).chain(&addresses::NOTES).chain(&portability::PAGES)
}
