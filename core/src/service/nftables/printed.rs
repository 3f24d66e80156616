//! What `nft` prints in another form from one version to the next, in the one that is read.
//!
//! Invariant: the meaning stays. Source: nftables' release notes and `src/json.c`: 1.1.4 prints one flag of `fib` as a
//! word, others print it as a list; 1.1.5 prints one flag of `masquerade` as a list, others as a word; one state or status
//! of a connection may be either; and a mark of which the highest bits alone are asked is printed as a prefix.

use std::borrow::Cow;

use serde_json::{Value, json};

/// The statements of a rule.
pub(super) fn in_one_form(statements: &[Value]) -> Cow<'_, [Value]> {
    if statements.iter().all(|statement| reformed(statement).is_none()) {
        return Cow::Borrowed(statements);
    }
    Cow::Owned(statements.iter().map(|one| reformed(one).unwrap_or_else(|| one.clone())).collect())
}

/// A statement in its other form, if it is not in the one that is read.
fn reformed(statement: &Value) -> Option<Value> {
    let (word, body) = statement.as_object()?.iter().next()?;
    match word.as_str() {
        "masquerade" => {
            let [flag] = body.get("flags")?.as_array()?.as_slice() else { return None };
            let mut body = body.clone();
            body["flags"] = flag.clone();
            Some(json!({word: body}))
        }
        "match" => {
            let (left, right) = (body.get("left")?, body.get("right")?);
            if let Some(fib) = left.get("fib") {
                let flag = fib.get("flags").filter(|flags| flags.is_string())?;
                let mut body = body.clone();
                body["left"]["fib"]["flags"] = json!([flag]);
                return Some(json!({word: body}));
            }
            if left.get("ct").is_some()
                && let Some([state]) = right.as_array().map(Vec::as_slice)
            {
                let mut body = body.clone();
                body["right"] = state.clone();
                return Some(json!({word: body}));
            }
            let prefix = right.get("prefix").filter(|_| left["meta"]["key"] == "mark")?;
            let (bits, length) = (prefix.get("addr")?.as_u64()?, prefix.get("len")?.as_u64()?);
            let mask = u32::MAX.checked_shl(32_u32.checked_sub(u32::try_from(length).ok()?)?)?;
            let mut body = body.clone();
            body["left"] = json!({"&": [left, mask]});
            body["right"] = json!(bits);
            Some(json!({word: body}))
        }
        _ => None,
    }
}
