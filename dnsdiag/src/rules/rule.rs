//! What a rule is, and what it says when it fires.

use netlab_plugin::evidence::Probe;
use serde::{Deserialize, Serialize};

use crate::view::{Effect, Failure, View};

/// The kinds of verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// DNS works.
    Healthy,
    /// DNS is right; the name is wrong.
    Name,
    /// The pod, its node or its image are set up so that lookups go wrong.
    DnsConfig,
    /// The cluster's DNS servers.
    DnsServer,
    /// The servers that they forward to.
    Upstream,
    /// Something between the pod and a DNS server that works, or after DNS.
    NotDns,
    /// The evidence does not decide it.
    Undetermined,
}

impl Class {
    /// As JSON has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Name => "name",
            Self::DnsConfig => "dns-config",
            Self::DnsServer => "dns-server",
            Self::Upstream => "upstream",
            Self::NotDns => "not-dns",
            Self::Undetermined => "undetermined",
        }
    }
}

/// How sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It fits, and other causes fit too.
    Low,
    /// It fits, and nothing speaks against it.
    Medium,
    /// Seen directly: no other cause gives this evidence.
    High,
}

impl Confidence {
    /// As JSON has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// One way to fail.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// `F01`.
    pub mode: &'static str,
    /// `POLICY-EGRESS-DENY`.
    pub id: &'static str,
    /// The kind of verdict.
    pub class: Class,
    /// What it is, in a line.
    pub title: &'static str,
    /// The files without which it is not asked ([`crate::bundle::layout`]).
    pub needs: &'static [&'static str],
    /// True when it explains noise or a danger, not a failure: asked only when everything answers.
    pub latent: bool,
    /// The failures that its fact makes: it is a verdict only where one of them is among the facts that it cites. Empty for
    /// what makes none.
    pub explains: &'static [Effect],
    /// Whether it fires.
    pub test: fn(&View<'_>) -> Option<Hit>,
}

/// What a rule that fires comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Something that it cites fails as it explains, and the report may come from that.
    Explains,
    /// Something that it cites fails so, and the report tells of something else.
    BesideReport,
    /// It may be there, and nothing fails by it: never more than a contribution, or the danger that it is.
    Idle,
}

impl Rule {
    /// What a hit of this rule explains of what fails.
    #[must_use]
    pub fn standing(&self, hit: &Hit, view: &View<'_>, failures: &[Failure<'_>]) -> Standing {
        if self.latent {
            return Standing::Idle;
        }
        let explained = failures
            .iter()
            .filter(|one| self.explains.contains(&one.effect) && hit.evidence.iter().any(|id| id == one.id));
        let mut fits: Vec<bool> = explained.map(|one| !view.contradicts_report(one.effect)).collect();
        let answered = |(id, probe): (&str, &Probe)| {
            !probe.addresses().is_empty() && hit.evidence.iter().any(|cited| cited == id)
        };
        if self.explains.contains(&Effect::Misled) && view.evidence.probes().any(answered) {
            fits.push(true);
        }
        match (fits.is_empty(), fits.contains(&true)) {
            (true, _) => Standing::Idle,
            (false, true) => Standing::Explains,
            (false, false) => Standing::BesideReport,
        }
    }
}

/// What a rule says when it fires.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// How sure.
    pub confidence: Confidence,
    /// The verdict in a line of at most 55 characters: what is wrong, on which object.
    pub summary: String,
    /// Why, one sentence each.
    pub because: Vec<String>,
    /// Ids of facts that speak for it.
    pub evidence: Vec<String>,
    /// Ids of facts that speak against it.
    pub against: Vec<String>,
    /// What to do, one line each.
    pub fixes: Vec<String>,
    /// Commands that verify it.
    pub verify: Vec<String>,
    /// True when it is there and is not what fails first: it contributes, and is no verdict.
    pub partial: bool,
}

impl Hit {
    /// A verdict that nothing else explains.
    pub fn high(summary: impl Into<String>) -> Self {
        Self::new(Confidence::High, summary)
    }

    /// A verdict that fits.
    pub fn medium(summary: impl Into<String>) -> Self {
        Self::new(Confidence::Medium, summary)
    }

    /// A verdict that fits as others do.
    pub fn low(summary: impl Into<String>) -> Self {
        Self::new(Confidence::Low, summary)
    }

    fn new(confidence: Confidence, summary: impl Into<String>) -> Self {
        Self {
            confidence,
            summary: summary.into(),
            because: Vec::new(),
            evidence: Vec::new(),
            against: Vec::new(),
            fixes: Vec::new(),
            verify: Vec::new(),
            partial: false,
        }
    }

    /// Beside whatever it is that fails first.
    #[must_use]
    pub const fn partial_if(mut self, partial: bool) -> Self {
        self.partial = partial;
        self
    }

    /// With a reason.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.because.push(why.into());
        self
    }

    /// With a reason, where it holds.
    #[must_use]
    pub fn because_if(self, holds: bool, why: &str) -> Self {
        if holds { self.because(why) } else { self }
    }

    /// With facts that speak for it.
    #[must_use]
    pub fn citing<I: IntoIterator<Item = S>, S: Into<String>>(mut self, ids: I) -> Self {
        for id in ids {
            let id = id.into();
            if !self.evidence.contains(&id) {
                self.evidence.push(id);
            }
        }
        self
    }

    /// With facts that speak against it.
    #[must_use]
    pub fn despite<I: IntoIterator<Item = S>, S: Into<String>>(mut self, ids: I) -> Self {
        for id in ids {
            let id = id.into();
            if !self.against.contains(&id) {
                self.against.push(id);
            }
        }
        self
    }

    /// With what to do.
    #[must_use]
    pub fn fix(mut self, what: impl Into<String>) -> Self {
        self.fixes.push(what.into());
        self
    }

    /// With a command that verifies it.
    #[must_use]
    pub fn verify(mut self, command: impl Into<String>) -> Self {
        self.verify.push(command.into());
        self
    }
}
