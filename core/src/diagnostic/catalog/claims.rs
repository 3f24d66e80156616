//! Pages about files of claims (`policy test`), which are no manifests.

use super::Page;

pub(super) const PAGES: [Page; 2] = [
    Page {
        code: "NL0501",
        title: "a claim that cannot be read",
        explanation: "A claim is tried as it is written or not at all: one that is skipped would count as one that \
                      holds. `from` and `to` are `[TYPE/][NAMESPACE/]NAME` or an address, `port` is a number or name \
                      with an optional `/udp`, `expect` is `allow` or `deny`; `by` names the policy, or its rule, that \
                      is to decide, and `protocol` stands for what has no ports. As in `- {from: shop/web, to: \
                      shop/db, port: 5432, expect: deny, by: NetworkPolicy shop/db}` below `claims:`.",
        bad: "",
        good: "",
    },
    Page {
        code: "NL0502",
        title: "a part of a netassert file that cannot be tried here",
        explanation: "Files of netassert are read as claims, both its forms. What starts on a machine that is reached \
                      by SSH, or goes to a name that only DNS could resolve, has no answer in policies: name a \
                      Deployment, and an address. With `--skip-invalid` the rest of the file is tried, and the \
                      answer says that it is incomplete.",
        bad: "",
        good: "",
    },
];
