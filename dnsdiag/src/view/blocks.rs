//! The server blocks of the recorded Corefile, as far as rules look into them: zones, plugins, their words and bodies.
//!
//! Invariant: told from the text alone, line by line; what is imported from other files is not there. A block is chosen by the longest
//! zone that covers a name (`core/dnsserver/server.go`).

use super::{View, is_below};
use crate::bundle::layout;

/// A plugin of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginUse {
    /// Its name.
    pub name: String,
    /// The words behind it.
    pub words: Vec<String>,
    /// The lines of its body, as words.
    pub body: Vec<Vec<String>>,
    /// The line, from 1.
    pub line: usize,
}

/// A server block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerBlock {
    /// Its zones without ports, schemes and last dots; empty text for the root.
    pub zones: Vec<String>,
    /// Its plugins, in order of the file.
    pub plugins: Vec<PluginUse>,
    /// The line, from 1.
    pub line: usize,
}

impl PluginUse {
    /// True when its body has this property.
    #[must_use]
    pub fn has(&self, property: &str) -> bool {
        self.body.iter().any(|line| line.first().is_some_and(|word| word == property))
    }
}

impl ServerBlock {
    /// Its plugins of this name.
    pub fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'b PluginUse> {
        self.plugins.iter().filter(move |plugin| plugin.name == name)
    }
}

impl View<'_> {
    /// The blocks; empty when the Corefile was not recorded.
    #[must_use]
    pub fn server_blocks(&self) -> Vec<ServerBlock> {
        let text = self.text(layout::COREFILE).unwrap_or_default();
        let mut blocks: Vec<ServerBlock> = Vec::new();
        let mut depth = 0_usize;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<String> = line.split_ascii_whitespace().map(str::to_owned).collect();
            let Some(last) = words.last() else { continue };
            if words.first().is_some_and(|word| word == "}") {
                depth = depth.saturating_sub(1);
                continue;
            }
            let opens = last == "{";
            let bare: Vec<String> =
                words.iter().filter(|word| !matches!(word.as_str(), "{" | "}")).cloned().collect();
            match (depth, blocks.last_mut()) {
                (0, _) => blocks.push(ServerBlock {
                    zones: bare.iter().map(|key| zone(key)).collect(),
                    plugins: Vec::new(),
                    line: number + 1,
                }),
                (1, Some(block)) => {
                    let mut bare = bare.into_iter();
                    let name = bare.next().unwrap_or_default();
                    block.plugins.push(PluginUse {
                        name,
                        words: bare.collect(),
                        body: Vec::new(),
                        line: number + 1,
                    });
                }
                (_, Some(block)) => {
                    if let Some(plugin) = block.plugins.last_mut() {
                        plugin.body.push(bare);
                    }
                }
                (_, None) => {}
            }
            if opens {
                depth += 1;
            }
        }
        blocks
    }

    /// The block that takes a name: the one with the longest zone that covers it.
    #[must_use]
    pub fn block_of(&self, name: &str) -> Option<(ServerBlock, String)> {
        let blocks = self.server_blocks().into_iter();
        let all =
            blocks.flat_map(|block| block.zones.clone().into_iter().map(move |zone| (block.clone(), zone)));
        all.filter(|(_, zone)| is_below(name, zone)).max_by_key(|(_, zone)| zone.len())
    }
}

/// `dns://corp.example.:53` is `corp.example`.
fn zone(key: &str) -> String {
    let key = key.trim_end_matches(',');
    let bare = key.split_once("://").map_or(key, |(_, rest)| rest);
    let bare = match bare.rsplit_once(':') {
        Some((zone, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => zone,
        _ => bare,
    };
    bare.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlab_plugin::check::Target;
    use netlab_plugin::evidence::{Evidence, Fact};

    #[test]
    fn blocks_are_read_and_chosen() {
        let text = "corp.example:53 Other.example. { # x\n  forward . 10.0.0.1\n}\n.:53 {\n  hosts {\n    10.1.1.1 a\n    \
                    fallthrough\n  }\n  forward . /etc/resolv.conf {\n    max_concurrent 9\n  }\n}\n";
        let mut evidence = Evidence::default();
        evidence.facts.insert(layout::COREFILE.to_owned(), Fact::Text { text: text.to_owned() });
        let target = Target::default();
        let view = View::new(&target, &evidence);
        let (stub, zone) = view.block_of("www.corp.example.").expect("a block");
        assert_eq!((zone.as_str(), stub.line), ("corp.example", 1));
        assert_eq!(stub.zones, ["corp.example", "other.example"]);
        let (root, _) = view.block_of("example.com").expect("a block");
        assert_eq!(root.plugins.len(), 2);
        assert!(root.all("hosts").all(|plugin| plugin.has("fallthrough")));
        assert_eq!(root.plugins[1].line, 9);
    }
}
