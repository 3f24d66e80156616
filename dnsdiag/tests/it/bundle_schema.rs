//! `docs/schema/dns-bundle.json` and the reader say the same: of every bundle's files, and of files with one thing changed.
//!
//! The validator here knows the words that the schema uses, and fails for others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use netlab_dnsdiag::bundle::{layout, parse};
use serde_json::{Map, Value, json};

struct Schema(Value);

impl Schema {
    fn read() -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/schema/dns-bundle.json");
        let text = std::fs::read_to_string(path).expect("the schema is there");
        Self(serde_json::from_str(&text).expect("the schema is JSON"))
    }

    fn of(&self, file: &str) -> Option<&Value> {
        self.0.get("$defs")?.get(file)
    }

    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let words = schema.as_object().expect("a schema is an object");
        words.iter().all(|(word, wanted)| self.word(words, word, wanted, value))
    }

    fn word(&self, words: &Map<String, Value>, word: &str, wanted: &Value, value: &Value) -> bool {
        let object = value.as_object();
        let list = value.as_array();
        match word {
            "description" => true,
            "$ref" => {
                let name = wanted
                    .as_str()
                    .and_then(|text| text.strip_prefix("#/$defs/"))
                    .expect("a local reference");
                self.fits(self.of(name).expect("it is defined"), value)
            }
            "const" => value == wanted,
            "enum" => wanted.as_array().expect("a list").contains(value),
            "anyOf" => wanted.as_array().expect("a list").iter().any(|one| self.fits(one, value)),
            "type" => match wanted {
                Value::Array(types) => types.iter().any(|one| is(one.as_str().expect("a name"), value)),
                one => is(one.as_str().expect("a name"), value),
            },
            "properties" => object.is_none_or(|object| {
                let known = wanted.as_object().expect("an object");
                known
                    .iter()
                    .all(|(name, schema)| object.get(name).is_none_or(|value| self.fits(schema, value)))
            }),
            "required" => object.is_none_or(|object| {
                let names = wanted.as_array().expect("a list");
                names.iter().all(|name| object.contains_key(name.as_str().expect("a name")))
            }),
            "additionalProperties" => object.is_none_or(|object| {
                let known = words.get("properties").and_then(Value::as_object);
                let others =
                    object.iter().filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
                match wanted {
                    Value::Bool(allowed) => *allowed || others.count() == 0,
                    schema => others.into_iter().all(|(_, value)| self.fits(schema, value)),
                }
            }),
            "items" => list.is_none_or(|list| list.iter().all(|one| self.fits(wanted, one))),
            "minItems" => list.is_none_or(|list| list.len() as u64 >= wanted.as_u64().expect("a number")),
            "maxItems" => list.is_none_or(|list| list.len() as u64 <= wanted.as_u64().expect("a number")),
            "minLength" => {
                value.as_str().is_none_or(|text| text.len() as u64 >= wanted.as_u64().expect("a number"))
            }
            "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().expect("a number")),
            "maximum" => value.as_f64().is_none_or(|number| number <= wanted.as_f64().expect("a number")),
            "format" => value.as_str().is_none_or(|text| text.parse::<IpAddr>().is_ok()),
            "pattern" => value.as_str().is_none_or(|text| match wanted.as_str() {
                Some(pattern) if pattern.contains("dns-pod") => position(text),
                Some(pattern) if pattern.starts_with(r"^\.\./") => base(text),
                other => panic!("a pattern that is not known here: {other:?}"),
            }),
            other => panic!("`{other}` is not known here"),
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    }
}

fn position(text: &str) -> bool {
    let parts: Vec<&str> = text.split('/').collect();
    matches!(parts.as_slice(), ["pod" | "node" | "dns-pod"] | ["node", _] | ["pod", _, _])
}

fn base(text: &str) -> bool {
    text.strip_prefix("../")
        .is_some_and(|name| !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']))
}

/// Every JSON file of the bundles, with the bundle's name.
fn files() -> Vec<(String, &'static str, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bundles");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the bundles are there") {
        let path = entry.expect("an entry").path();
        for file in [layout::MANIFEST, layout::SYMPTOM, layout::PROBES, layout::COUNTERS] {
            if let Ok(text) = std::fs::read_to_string(path.join(file)) {
                let value =
                    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                found.push((path.display().to_string(), file, value));
            }
        }
    }
    found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    found
}

fn manifest() -> Value {
    json!({"apiVersion": "netlab.dev/v1", "kind": "DnsBundle", "subject": {"namespace": "shop", "pod": "web"}})
}

fn reader_takes(file: &str, value: &Value) -> bool {
    let mut files = BTreeMap::from([(layout::MANIFEST.to_owned(), manifest().to_string())]);
    files.insert(file.to_owned(), value.to_string());
    match parse(&files) {
        Ok(_) => true,
        // Two fields that contradict each other are more than the schema can tell.
        Err(error) => error.problems.iter().all(|one| one.message.starts_with("the counts contradict")),
    }
}

/// The value with one thing changed, in every place.
fn changed(value: &Value, out: &mut Vec<Value>, rebuild: &dyn Fn(Value) -> Value) {
    let others =
        [json!(null), json!(-1), json!(70000), json!("x"), json!([]), json!({}), json!(true), json!(1.5)];
    out.extend(others.into_iter().filter(|other| other != value).map(rebuild));
    match value {
        Value::Object(object) => {
            let mut more = object.clone();
            more.insert("unheard".to_owned(), json!({}));
            out.push(rebuild(Value::Object(more)));
            for (name, field) in object {
                let mut less = object.clone();
                less.remove(name);
                out.push(rebuild(Value::Object(less)));
                let with = |value: Value| {
                    let mut object = object.clone();
                    object.insert(name.clone(), value);
                    rebuild(Value::Object(object))
                };
                changed(field, out, &with);
            }
        }
        Value::Array(list) => {
            // The elements are of one kind: the first stands for all.
            if let Some(first) = list.first() {
                let with = |value: Value| {
                    let mut list = list.clone();
                    list[0] = value;
                    rebuild(Value::Array(list))
                };
                changed(first, out, &with);
            }
        }
        _ => {}
    }
}

/// The names of all fields, those of rows included.
fn fields(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    match value {
        Value::Object(object) => {
            for (name, field) in object {
                found.insert(name.clone());
                found.extend(fields(field));
            }
        }
        // Only the first row is changed.
        Value::Array(list) => found.extend(list.first().map(fields).unwrap_or_default()),
        _ => {}
    }
    found
}

#[test]
fn every_bundle_fits_the_schema() {
    let schema = Schema::read();
    let files = files();
    assert!(files.len() > 100, "only {} files", files.len());
    for (bundle, file, value) in files {
        let of_file = schema.of(file).unwrap_or_else(|| panic!("the schema has no {file}"));
        assert!(schema.fits(of_file, &value), "{bundle}/{file} does not fit the schema");
    }
}

#[test]
fn the_schema_and_the_reader_refuse_the_same() {
    let schema = Schema::read();
    let mut tried = 0;
    let (mut seen, mut shapes) = (BTreeSet::new(), BTreeSet::new());
    for (bundle, file, value) in files() {
        // A base is resolved by whoever reads directories, and names of files are the reader's own to know.
        let mut value = value;
        if let Some(object) = value.as_object_mut() {
            for field in ["base", "without", "absent"] {
                object.remove(field);
            }
        }
        // A file that has no field which an earlier one has not tells nothing new.
        let before = shapes.len();
        shapes.extend(fields(&value).into_iter().map(|field| (file, field)));
        if shapes.len() == before {
            continue;
        }
        let mut variants = Vec::new();
        changed(&value, &mut variants, &|value| value);
        for variant in variants {
            if !seen.insert((file, variant.to_string())) {
                continue;
            }
            let of_file = schema.of(file).expect("it is defined");
            let (fits, takes) = (schema.fits(of_file, &variant), reader_takes(file, &variant));
            assert_eq!(fits, takes, "{bundle}/{file}: schema {fits}, reader {takes}: {variant}");
            tried += 1;
        }
    }
    assert!(tried > 300, "only {tried} variants");
}
