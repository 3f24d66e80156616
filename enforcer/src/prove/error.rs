//! Why a proof could not even be tried.

use netlab_core::policy::image::ImageError;
use netlab_lab::LabError;
use netlab_plugin::contract::BackendError;

/// A proof that could not be tried. A proof that was tried and failed is no error: see
/// [`super::proof::ProofOutcome`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProveError {
    /// A policy crosses a limit, so the tables would not say what the policies say.
    #[error("{policy}: {message}")]
    Refused {
        /// Which policy.
        policy: String,
        /// Why.
        message: String,
    },
    /// There is no packet to send.
    #[error("nothing to prove: {why}")]
    NothingToSend {
        /// Why not.
        why: String,
    },
    /// The tables have no encoding.
    #[error("the compiled tables cannot be encoded")]
    Image(#[from] ImageError),
    /// The network namespaces could not be made or used.
    #[error("the lab could not be built")]
    Lab(#[from] LabError),
    /// The enforcement backend failed.
    #[error("the {backend} backend failed")]
    Backend {
        /// Which.
        backend: &'static str,
        /// How.
        source: BackendError,
    },
    /// The kernel could not be asked.
    #[error("{action}")]
    Kernel {
        /// What was tried.
        action: &'static str,
        /// How it failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Whose an error is.
pub use netlab_plugin::contract::Blame;

impl ProveError {
    /// Who can do something about it.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Refused { .. } | Self::NothingToSend { .. } => Blame::Input,
            Self::Image(_) => Blame::Bug,
            Self::Lab(_) | Self::Kernel { .. } => Blame::Kernel,
            Self::Backend { source, .. } => source.blame,
        }
    }

    /// True when trying again may help.
    pub fn retry(&self) -> bool {
        match self {
            Self::Lab(error) => error.retry(),
            Self::Backend { source, .. } => source.retry,
            Self::Refused { .. } | Self::NothingToSend { .. } | Self::Image(_) | Self::Kernel { .. } => false,
        }
    }

    pub(super) fn kernel<E: std::error::Error + Send + Sync + 'static>(
        action: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Kernel { action, source: Box::new(source) }
    }
}
