//! The kinds that stamp pods: `apps/v1` Deployment, ReplicaSet, StatefulSet and DaemonSet, `v1`
//! ReplicationController, `batch/v1` Job and CronJob, as far as their pods go.

use serde::{Deserialize, Serialize};

use super::core_v1::PodSpec;
use super::meta::{ObjectMeta, Unknown};

/// Any of them but CronJob: they agree on where the pod template is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Workload {
    /// `kind`.
    pub kind: String,
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<WorkloadSpec>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `DeploymentSpec`, `ReplicaSetSpec`, `StatefulSetSpec`, `DaemonSetSpec`, `ReplicationControllerSpec`, `JobSpec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkloadSpec {
    /// `replicas`; a Job or `DaemonSet` has none.
    pub replicas: Option<i64>,
    /// `template`.
    pub template: Option<PodTemplate>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `PodTemplateSpec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplate {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<PodSpec>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `batch/v1 CronJob`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJob {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`.
    pub spec: Option<CronJobSpec>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `CronJobSpec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// `jobTemplate`.
    pub job_template: Option<JobTemplate>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// `JobTemplateSpec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobTemplate {
    /// `metadata`.
    pub metadata: ObjectMeta,
    /// `spec`: a Job's.
    pub spec: Option<WorkloadSpec>,
    /// Everything else.
    #[serde(flatten)]
    pub unknown: Unknown,
}
