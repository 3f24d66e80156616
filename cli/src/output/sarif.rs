//! Findings as SARIF 2.1.0, for code scanning.
//!
//! Source: the OASIS standard "Static Analysis Results Interchange Format", and what forges take of it. Invariant: every
//! result's `ruleId` has a rule, in the order of codes; a file below the current directory is a relative URI; lines and
//! columns are ours, columns counted in characters.

use std::collections::BTreeSet;
use std::path::Path;

use netlab_core::diagnostic::{Diagnostic, Severity, catalog};
use netlab_core::policy::lint::Finding;
use serde_json::{Value, json};

use crate::failure::Failure;

/// The log of one run.
pub(crate) fn sarif(findings: &[Finding], not_examined: &[String]) -> Result<String, Failure> {
    let here = std::env::current_dir().ok();
    let codes: BTreeSet<&str> = findings.iter().map(|finding| finding.diagnostic.code).collect();
    let codes: Vec<&str> = codes.into_iter().collect();
    let rules: Vec<Value> = codes.iter().map(|code| rule(code, findings)).collect();
    let results: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let index = codes.binary_search(&finding.diagnostic.code).ok();
            result(finding, index, here.as_deref())
        })
        .collect();
    let notifications: Vec<Value> = not_examined
        .iter()
        .map(|text| json!({"level": "warning", "message": {"text": format!("not examined: {text}")}}))
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "netlab",
                "version": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{"executionSuccessful": true, "toolExecutionNotifications": notifications}],
            "results": results,
        }],
    });
    let text = serde_json::to_string_pretty(&log).map_err(|error| {
        Failure::unreadable("cannot write the answer as SARIF: this is a bug in netlab").because(&error)
    })?;
    Ok(text + "\n")
}

fn rule(code: &str, findings: &[Finding]) -> Value {
    let of_code = findings.iter().filter(|finding| finding.diagnostic.code == code);
    let worst = of_code.map(|finding| finding.diagnostic.severity).min().unwrap_or(Severity::Note);
    let mut rule = json!({
        "id": code,
        "defaultConfiguration": {"level": level(worst)},
        "properties": {"tags": ["kubernetes", subject(code)], "problem.severity": problem(worst)},
    });
    if let (Some(page), Some(fields)) = (catalog::page(code), rule.as_object_mut()) {
        let mut help = format!("{}\n", page.explanation);
        for (word, example) in [("Wrong", page.bad), ("Right", page.good)] {
            if !example.is_empty() {
                help += &format!("\n{word}:\n\n```yaml\n{}\n```\n", example.trim_end());
            }
        }
        fields.insert("shortDescription".to_owned(), json!({"text": page.title}));
        fields.insert("fullDescription".to_owned(), json!({"text": page.explanation}));
        fields.insert("help".to_owned(), json!({"text": page.explanation, "markdown": help}));
    }
    rule
}

/// What a code is about, by its range.
fn subject(code: &str) -> &'static str {
    if code.starts_with("NL07") { "dns" } else { "networkpolicy" }
}

fn result(finding: &Finding, index: Option<usize>, here: Option<&Path>) -> Value {
    let Diagnostic { file, position, code, severity, object, path, message, hint } = &finding.diagnostic;
    let object = object.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut text = if object.is_empty() { message.clone() } else { format!("{object}: {message}") };
    if let Some(hint) = hint {
        text += &format!(" ({hint})");
    }
    let mut location = json!({});
    if let Some(file) = file {
        let artifact = json!({"uri": uri(file, here)});
        location["physicalLocation"] = match position {
            Some(position) => json!({
                "artifactLocation": artifact,
                "region": {"startLine": position.line, "startColumn": position.column},
            }),
            None => json!({"artifactLocation": artifact}),
        };
    }
    let name = [object.as_str(), path].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    if !name.is_empty() {
        location["logicalLocations"] = json!([{"fullyQualifiedName": name.join(" ")}]);
    }
    let mut result = json!({
        "ruleId": code,
        "level": level(*severity),
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"netlabFinding/v1": format!("{code} {}", name.join(" "))},
    });
    if let Some(index) = index {
        result["ruleIndex"] = json!(index);
    }
    if let Some(count) = finding.count {
        result["properties"] = json!({"count": count.number, "counted": count.of});
    }
    result
}

const fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

const fn problem(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "recommendation",
    }
}

/// A file's name as a URI reference: relative where it lies below the current directory. Standard input has no name that
/// a reader could follow.
fn uri(file: &str, here: Option<&Path>) -> String {
    if file == "-" {
        return "stdin".to_owned();
    }
    let path = Path::new(file);
    let below = here.and_then(|here| path.strip_prefix(here).ok()).unwrap_or(path);
    let parts: Vec<String> = below
        .components()
        .filter(|part| !matches!(part, std::path::Component::CurDir | std::path::Component::RootDir))
        .map(|part| encoded(&part.as_os_str().to_string_lossy()))
        .collect();
    let joined = parts.join("/");
    if below.is_absolute() { format!("file:///{joined}") } else { joined }
}

/// Everything but unreserved characters as `%XX` (RFC 3986, section 2.1).
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded += &format!("%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_uri_references() {
        let here = Some(Path::new("/src/app"));
        assert_eq!(uri("examples/shop/a b.yaml", here), "examples/shop/a%20b.yaml");
        assert_eq!(uri("./a.yaml", here), "a.yaml");
        assert_eq!(uri("/src/app/k8s/ü.yaml", here), "k8s/%C3%BC.yaml");
        assert_eq!(uri("/etc/a.yaml", here), "file:///etc/a.yaml");
        assert_eq!(uri("../a.yaml", here), "../a.yaml");
        assert_eq!(uri("-", here), "stdin");
    }
}
