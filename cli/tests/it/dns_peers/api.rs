//! A tiny API server: what CoreDNS lists and watches, from manifests that do not change.
//!
//! Invariant: objects have what a real API server fills in (defaults of Services' and slices' ports, both forms of a
//! cluster IP). It binds in the namespace of the thread that starts it; a watch stays open, and nothing comes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use netlab_core::input::{Budget, Document, typed};
use serde_json::{Value, json};

/// Kinds that are served, with their collection.
const KINDS: [(&str, &str, &str); 4] = [
    ("Namespace", "v1", "/api/v1/namespaces"),
    ("Service", "v1", "/api/v1/services"),
    ("Pod", "v1", "/api/v1/pods"),
    ("EndpointSlice", "discovery.k8s.io/v1", "/apis/discovery.k8s.io/v1/endpointslices"),
];

/// Collections by path: kind, version, objects.
type Collections = BTreeMap<&'static str, (&'static str, &'static str, Vec<Value>)>;

/// Serves; the thread goes with the process.
pub(super) fn serve(manifests: &str) -> std::io::Result<SocketAddr> {
    let collections = Arc::new(collections(manifests));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let collections = Arc::clone(&collections);
            std::thread::spawn(move || converse(&collections, stream));
        }
    });
    Ok(address)
}

fn collections(manifests: &str) -> Collections {
    let mut collections = Collections::new();
    for (kind, version, path) in KINDS {
        let document = Document { name: "manifests".into(), text: manifests.into() };
        let objects = typed::read::<Value>(&document, Some(kind), &Budget::default());
        let objects = objects.into_iter().zip(1..).map(|(object, number)| {
            filled(object.unwrap_or_else(|problem| panic!("{}", problem.message)).object, kind, number)
        });
        collections.insert(path, (kind, version, objects.collect()));
    }
    collections
}

fn filled(mut object: Value, kind: &str, number: u32) -> Value {
    let metadata = &mut object["metadata"];
    metadata["resourceVersion"] = json!(number.to_string());
    metadata["uid"] = json!(format!("00000000-0000-0000-0000-{number:012}"));
    if kind != "Namespace" && metadata["namespace"].is_null() {
        metadata["namespace"] = json!("default");
    }
    let ports = match kind {
        "EndpointSlice" => Some(&mut object["ports"]),
        "Service" => {
            let spec = &mut object["spec"];
            if spec["type"].is_null() {
                spec["type"] = json!("ClusterIP");
            }
            if spec["clusterIPs"].is_null() && !spec["clusterIP"].is_null() {
                spec["clusterIPs"] = json!([spec["clusterIP"]]);
            }
            Some(&mut spec["ports"])
        }
        _ => None,
    };
    for port in ports.and_then(Value::as_array_mut).into_iter().flatten() {
        if port["protocol"].is_null() {
            port["protocol"] = json!("TCP");
        }
        if port["name"].is_null() && kind == "EndpointSlice" {
            port["name"] = json!("");
        }
    }
    object
}

fn converse(collections: &Collections, stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let target = head.split(' ').nth(1).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let asks = |what: &str| query.split('&').any(|part| part == what || part == format!("{what}=true"));
        let stream = reader.get_mut();
        let said = match collections.get(path) {
            Some((kind, version, objects)) if asks("watch") || asks("watch=1") => {
                let text =
                    if asks("sendInitialEvents") { events(kind, version, objects) } else { String::new() };
                let _ = stream.write_all(chunked(&text).as_bytes());
                // Nothing changes until the watcher goes.
                let _ = reader.read(&mut [0; 1]);
                return;
            }
            Some((kind, version, objects)) => {
                let list = json!({
                    "kind": format!("{kind}List"), "apiVersion": version,
                    "metadata": {"resourceVersion": "1000"}, "items": objects,
                });
                stream.write_all(whole("200 OK", &list).as_bytes())
            }
            None if path == "/version" => {
                let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3"});
                stream.write_all(whole("200 OK", &version).as_bytes())
            }
            None => {
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404});
                stream.write_all(whole("404 Not Found", &status).as_bytes())
            }
        };
        if said.is_err() {
            return;
        }
    }
}

fn whole(status: &str, body: &Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// All objects as they would come to a watcher, and the mark after them.
fn events(kind: &str, version: &str, objects: &[Value]) -> String {
    let mut text = String::new();
    for object in objects {
        let mut object = object.clone();
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(version);
        let _ = writeln!(text, "{}", json!({"type": "ADDED", "object": object}));
    }
    let mark = json!({"type": "BOOKMARK", "object": {
        "kind": kind, "apiVersion": version,
        "metadata": {"resourceVersion": "1000", "annotations": {"k8s.io/initial-events-end": "true"}},
    }});
    let _ = writeln!(text, "{mark}");
    text
}

fn chunked(text: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    if text.is_empty() { head.to_owned() } else { format!("{head}{:x}\r\n{text}\r\n", text.len()) }
}
