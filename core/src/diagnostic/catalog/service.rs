//! `NL0246`: Services and endpoint slices.

use super::{Page, code};

pub(super) const PAGES: [Page; 1] = [Page {
    code: code::INVALID_SERVICE,
    title: "a Service or endpoint slice that the API server refuses",
    explanation: "Of several ports each needs a name of its own, since endpoints are found by it; an ExternalName \
                      needs the name; addresses are of the slice's `addressType`. What a proxy would make of it cannot be \
                      said, so the object is left out.",
    bad: "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n\
              \x20 ports: [{port: 80}, {port: 443}]\n",
    good: "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  selector: {app: web}\n\
               \x20 ports: [{name: http, port: 80}, {name: https, port: 443}]\n",
}];
