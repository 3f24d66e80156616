//! `NL01xx`: the text itself.

use super::{Page, code};

pub(super) const PAGES: [Page; 11] = [
    Page {
        code: code::SYNTAX,
        title: "the text is not YAML",
        explanation: "The document cannot be read, so whatever it holds is missing from the answer. Other documents \
                      of the same file, separated by `---`, are read all the same. Frequent causes: a tab in the \
                      indentation, a value with `: ` in it that needs quotes, a template that was not rendered.",
        bad: "kind: NetworkPolicy\nmetadata:\n\tname: db\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: db\nspec: {podSelector: {}}\n",
    },
    Page {
        code: code::NOT_AN_OBJECT,
        title: "a document that is no Kubernetes object",
        explanation: "Every document needs `apiVersion` and `kind`; without them nobody can tell whether it would \
                      change a verdict. If the file belongs to something else, keep it out of the directory that \
                      `-f` names.",
        bad: "metadata:\n  name: web\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n",
    },
    Page {
        code: code::TEXT_TOO_LARGE,
        title: "a text larger than the budget",
        explanation: "netlab reads at most 64 MiB from one file and 512 MiB in all, which is more than a dump of \
                      10,000 pods. A larger text is usually the wrong file.",
        bad: "apiVersion: v1\nkind: List\nitems: []\n# and another 64 MiB\n",
        good: "apiVersion: v1\nkind: List\nitems: []\n",
    },
    Page {
        code: code::TOO_DEEP,
        title: "values nested deeper than the budget",
        explanation: "No Kubernetes object nests deeper than about 20 levels; netlab follows 100. Text that goes on \
                      is made to exhaust its reader.",
        bad: "apiVersion: v1\nkind: ConfigMap\ndata: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\
              [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\n",
        good: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n",
    },
    Page {
        code: code::TOO_MANY_VALUES,
        title: "more values in one document than the budget",
        explanation: "A document may hold four million values. A `List` that is larger can be dumped one namespace \
                      at a time.",
        bad: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b, c: d, e: f}\n",
        good: "apiVersion: v1\nkind: List\n",
    },
    Page {
        code: code::TOO_MANY_ALIASES,
        title: "anchors and aliases that copy too much",
        explanation: "An alias stands for a copy of its anchor, so a few lines of aliases of aliases can mean \
                      billions of values. netlab copies 100,000 values per document and then stops.",
        bad: "a: &a [x, x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n\
              c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n\
              e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\nf: [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: &labels {app: web}\n  annotations: *labels\n",
    },
    Page {
        code: code::ANCHOR_CYCLE,
        title: "an anchor that contains its own alias",
        explanation: "Such a value has no end. The Kubernetes API has none either: write the value out.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: web\n  annotations: *m\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n",
    },
    Page {
        code: code::DOUBLED_KEY,
        title: "a key that stands twice in one mapping",
        explanation: "Parsers disagree about which of the two counts: with two `ingress` lists, half of the rules \
                      vanish on some of them. netlab does not choose, and leaves the object out.",
        bad: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n  podSelector: {}\n\
              \x20 ingress: []\n  ingress: [{}]\n",
        good: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n  podSelector: {}\n\
               \x20 ingress: [{}]\n",
    },
    Page {
        code: code::KEY_NOT_STRING,
        title: "a key that is not read as it is written",
        explanation: "`kubectl` reads YAML 1.1: an unquoted `on`, `yes` or `y` is a boolean, and as a key becomes \
                      `true`. A label of that name then selects nothing.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels:\n    on: call\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels:\n    \"on\": call\n",
    },
    Page {
        code: code::CONTROL_CHARACTER,
        title: "a control character in the text",
        explanation: "YAML allows no control characters but tab and line ends. Some readers stop at a NUL and \
                      silently drop what follows it.",
        bad: "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n\u{0}\n",
        good: "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n",
    },
    Page {
        code: code::NOT_UTF8,
        title: "a file that is not UTF-8",
        explanation: "Kubernetes manifests are UTF-8. A file in another encoding, UTF-16 for instance, or a binary \
                      file, is left out as a whole.",
        bad: "caf\u{fffd} (the last byte is 0xE9, Latin-1)\n",
        good: "apiVersion: v1\nkind: List\n# café\n",
    },
];
