//! The server blocks of the recorded Corefile, as far as rules look into them: zones, plugins, their words and bodies.
//!
//! Invariant: read by [`crate::corefile`]; what is imported from other files is not there. A block is chosen by the longest zone that
//! covers a name (`core/dnsserver/server.go`).

use super::{View, is_below};
use crate::corefile::{Plugin, Property};

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
        let Some(corefile) = self.corefile() else { return Vec::new() };
        let blocks = corefile.blocks.iter();
        blocks
            .map(|block| ServerBlock {
                zones: block
                    .zones()
                    .into_iter()
                    .map(|key| key.zone.trim_end_matches('.').to_owned())
                    .collect(),
                plugins: block.plugins.iter().map(plugin).collect(),
                line: block.keys.first().map_or(0, |key| line(key.position.line)),
            })
            .collect()
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

fn plugin(plugin: &Plugin) -> PluginUse {
    PluginUse {
        name: plugin.name.text.clone(),
        words: plugin.words().map(str::to_owned).collect(),
        body: plugin.properties().map(words).collect(),
        line: line(plugin.name.position.line),
    }
}

fn words(property: &Property) -> Vec<String> {
    std::iter::once(&property.name).chain(&property.arguments).map(|token| token.text.clone()).collect()
}

fn line(number: u32) -> usize {
    usize::try_from(number).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::layout;
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
