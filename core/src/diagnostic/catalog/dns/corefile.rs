//! Corefiles.

use super::{Page, code};

pub(super) const PAGES: [Page; 16] = [
    Page {
        code: code::COREFILE_SYNTAX,
        title: "a Corefile that the server cannot read",
        explanation: "A server that starts with such a file stops at once. One that runs keeps its old configuration \
                      when `reload` meets it, and says so in its log alone: the file is a fault that waits for the \
                      next restart, which may be a drained node weeks later. `{` stands at the end of a line, `}` on a \
                      line of its own.",
        bad: "== Corefile ==\n.:53 { forward . 9.9.9.9 }\n",
        good: "== Corefile ==\n.:53 {\n    forward . 9.9.9.9\n}\n",
    },
    Page {
        code: code::PLUGIN_UNKNOWN,
        title: "a plugin that the server does not have",
        explanation: "Plugins are compiled in. A name that the server does not know stops it when it starts; one that \
                      runs goes on with its old configuration until then. Some names were taken out over the years \
                      (`proxy`, `federation`), and plugins of others need an image that has them.",
        bad: corefile!("    kubernets cluster.local\n    forward . 9.9.9.9\n    cache 30\n"),
        good: corefile!("    kubernetes cluster.local\n    forward . 9.9.9.9\n    cache 30\n"),
    },
    Page {
        code: code::PLUGIN_ARGUMENTS,
        title: "a plugin's words or properties that it refuses",
        explanation: "Each plugin reads its own words and properties when the server starts, and refuses what it does \
                      not know. What follows is the same as for text that cannot be read: the server stops, now or at \
                      its next restart. Addresses in `hosts` have to stand before `fallthrough`, for instance.",
        bad: corefile!(
            "    hosts {\n        fallthrough\n        10.0.0.1 db.corp.example\n    }\n",
            usual!()
        ),
        good: corefile!(
            "    hosts {\n        10.0.0.1 db.corp.example\n        fallthrough\n    }\n",
            usual!()
        ),
    },
    Page {
        code: code::ZONE_TAKEN,
        title: "a zone that two blocks want",
        explanation: "A zone on a port belongs to one block; with a second one the server does not start, unless they \
                      `bind` to different addresses or a `view` tells them apart.",
        bad: "== Corefile ==\n.:53 {\n    errors\n    forward . 9.9.9.9\n}\n.:53 {\n    cache 30\n}\n",
        good: "== Corefile ==\n.:53 {\n    errors\n    forward . 9.9.9.9\n    cache 30\n}\n",
    },
    Page {
        code: code::DNS_LOOP,
        title: "a server that asks itself",
        explanation: "`forward . /etc/resolv.conf` asks the servers of the node's file, which the DNS pod has because \
                      of `dnsPolicy: Default`. Where that file names a resolver of the node itself (127.0.0.53 of \
                      systemd-resolved) or the cluster's own DNS, each question comes back and is asked again. The \
                      plugin `loop` notices and stops the server, which then crashes in a loop of its own.",
        bad: concat!(corefile!(usual!()), "== resolv.conf ==\nnameserver 127.0.0.53\n"),
        good: concat!(corefile!(usual!()), "== resolv.conf ==\nnameserver 192.0.2.53\n"),
    },
    Page {
        code: code::NO_FALLTHROUGH,
        title: "a plugin that keeps the names that it does not know",
        explanation: "`hosts`, `template`, `file` and `kubernetes` answer for their zones, and without zones of their \
                      own for those of the block. A name that they do not know is then denied (`hosts` and \
                      `template` answer SERVFAIL), and no plugin behind them is asked: with `fallthrough` it is. `kubernetes` needs that for reverse zones, as \
                      addresses outside of the cluster have names too.",
        bad: corefile!("    hosts {\n        10.0.0.1 db.corp.example\n    }\n", usual!()),
        good: corefile!(
            "    hosts {\n        10.0.0.1 db.corp.example\n        fallthrough\n    }\n",
            usual!()
        ),
    },
    Page {
        code: code::ZONE_NOT_SERVED,
        title: "the cluster's zone is not what the server serves",
        explanation: "Kubelet writes its `clusterDomain` into each pod's search list; the server knows the zone of \
                      its `kubernetes` plugin. If they differ, every name of the cluster goes to the upstream, where \
                      it does not exist.",
        bad: concat!(
            corefile!(usual!()),
            kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: k8s.corp.example\n")
        ),
        good: concat!(
            corefile!(usual!()),
            kubelet!("clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local\n")
        ),
    },
    Page {
        code: code::UPSTREAMS_MIXED,
        title: "upstreams that know different names",
        explanation: "`forward` chooses among its servers at random, and an answer that a name does not exist is \
                      final. With a server of the inside beside a public one, names of the inside do not exist half of \
                      the time. `policy sequential` asks the second only when the first is down; `next NXDOMAIN` goes \
                      on to another `forward`. Best are servers that all know the same.",
        bad: corefile!("    forward . 10.0.0.2 8.8.8.8\n    cache 30\n"),
        good: corefile!("    forward . 10.0.0.2 10.0.0.3\n    cache 30\n"),
    },
    Page {
        code: code::ZONE_SHADOWED,
        title: "names of the cluster that another block takes",
        explanation: "A question goes to the block with the longest zone that covers the name, and to no other. A \
                      block for `cluster.local`, or for some namespace's names, takes them away from the block whose \
                      `kubernetes` knows them.",
        bad: concat!(corefile!(usual!()), "cluster.local:53 {\n    errors\n    forward . 10.0.0.2\n}\n"),
        good: concat!(corefile!(usual!()), "corp.example:53 {\n    errors\n    forward . 10.0.0.2\n}\n"),
    },
    Page {
        code: code::PLUGIN_ORDER,
        title: "a plugin that is asked before one that stands above it",
        explanation: "The order in which plugins are asked was decided when the server was built; the order of the \
                      file decides nothing. `hosts` and `template` come before `kubernetes`, so what they have for \
                      names of the cluster wins, wherever they stand.",
        bad: corefile!(
            usual!(),
            "    hosts {\n        10.0.0.1 api.shop.svc.cluster.local\n        fallthrough\n    }\n"
        ),
        good: corefile!(
            "    hosts {\n        10.0.0.1 api.shop.svc.cluster.local\n        fallthrough\n    }\n",
            usual!()
        ),
    },
    Page {
        code: code::CONCURRENCY_LOW,
        title: "a limit that refuses queries early",
        explanation: "More questions at once than `max_concurrent` are answered REFUSED, which glibc takes for the \
                      end of its search: programs then say that the name is not known. One slow upstream is enough to \
                      reach a low limit, as each question that waits counts.",
        bad: corefile!("    forward . 9.9.9.9 {\n        max_concurrent 20\n    }\n    cache 30\n"),
        good: corefile!("    forward . 9.9.9.9 {\n        max_concurrent 1000\n    }\n    cache 30\n"),
    },
    Page {
        code: code::CACHE_LONG,
        title: "answers that outlive what they say",
        explanation: "A failure that is cached for minutes turns a blip of the upstream into an outage, and a least \
                      TTL for denials keeps a new Service from being found. The defaults (SERVFAIL 5 s, least TTLs 5 s) \
                      protect the upstream well enough.",
        bad: corefile!("    forward . 9.9.9.9\n    cache 30 {\n        servfail 2m\n    }\n"),
        good: corefile!("    forward . 9.9.9.9\n    cache 30 {\n        servfail 5s\n    }\n"),
    },
    Page {
        code: code::AUTOPATH_UNVERIFIED,
        title: "`autopath` without the pods it needs to know",
        explanation: "`autopath @kubernetes` answers the first question of a search with the last one's answer, for \
                      which it must know the namespace of the pod that asks. It learns that from `pods verified` alone, \
                      which costs memory for each pod.",
        bad: corefile!("    autopath @kubernetes\n", usual!()),
        good: corefile!(
            "    autopath @kubernetes\n    kubernetes cluster.local {\n        pods verified\n    }\n",
            "    forward . /etc/resolv.conf\n    cache 30\n"
        ),
    },
    Page {
        code: code::PLUGIN_MISSING,
        title: "a plugin that is missed when something goes wrong",
        explanation: "`ready` keeps questions away until the server knows the cluster, `health` has it restarted when \
                      it hangs, `errors` logs what fails upstream, `loop` notices a node file that leads back, `cache` \
                      keeps most questions from the upstream, `reload` takes up a changed file.",
        bad: "== Corefile ==\n.:53 {\n    kubernetes cluster.local\n    forward . 9.9.9.9\n}\n",
        good: corefile!("    kubernetes cluster.local\n    forward . 9.9.9.9\n    cache 30\n"),
    },
    Page {
        code: code::RECORD_TTL,
        title: "records that live too long or not at all",
        explanation: "The TTL of the cluster's records is for how long clients and caches may use the address of an \
                      endpoint that is gone. With 0 nobody caches, and each connection of each program asks the \
                      server again.",
        bad: corefile!(
            "    kubernetes cluster.local {\n        ttl 3600\n    }\n    forward . 9.9.9.9\n    cache 30\n"
        ),
        good: corefile!(
            "    kubernetes cluster.local {\n        ttl 30\n    }\n    forward . 9.9.9.9\n    cache 30\n"
        ),
    },
    Page {
        code: code::AAAA_NXDOMAIN,
        title: "AAAA answered as if the name did not exist",
        explanation: "NXDOMAIN is about the name, not about the type that was asked for. musl believes the worse of \
                      its two answers, so in Alpine images the name does not exist although A has an answer; caches \
                      may conclude the same. NOERROR without a record says that there is no IPv6 address.",
        bad: corefile!(
            "    template ANY AAAA {\n        rcode NXDOMAIN\n    }\n    forward . 9.9.9.9\n    cache 30\n"
        ),
        good: corefile!(
            "    template ANY AAAA {\n        rcode NOERROR\n    }\n    forward . 9.9.9.9\n    cache 30\n"
        ),
    },
];
