//! Stores and loads results.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler_kernel::event::{Failure, Outcome, Output};
use ostler_kernel::id::NodeId;
use ostler_kernel::json::{self, Json};
use ostler_kernel::plan::Node;
use ostler_kernel::port::{Artifact, ArtifactError, ArtifactStore, JSON};
use ostler_kernel::run::{FailureCategory, Run};
use ostler_kernel::{agent, lineage};
use serde_json::Value;

use crate::base::limits::RESULT_DEPTH_MAX;
use crate::base::paused_time::{PausedTime, SPACE_RETRY};
use crate::base::system_status::SystemStatus;
use crate::storage::disk_space::DiskSpace;

/// Largest result in bytes that is stored in its record; larger ones go to the artifact store.
pub const INLINE_BYTES_MAX: usize = 4 * 1_024;

/// Largest result of a control node in bytes.
pub(crate) const CONTROL_RESULT_BYTES_MAX: usize = 128 << 10;

/// Small results go into their record, large ones into the artifact store.
pub(crate) struct ResultStore {
    pub(crate) artifacts: Arc<dyn ArtifactStore>,
    /// Largest result in bytes.
    pub(crate) bytes_max: usize,
    /// Most approximate bytes that a result takes in memory.
    pub(crate) memory_max: usize,
    pub(crate) status: Arc<SystemStatus>,
    pub(crate) disk: Arc<DiskSpace>,
}

impl ResultStore {
    pub(crate) async fn keep(&self, value: &Value) -> Result<Output, Failure> {
        Ok(self.store(&self.checked(value, self.bytes_max)?).await?)
    }

    /// Stores the result of an action that cannot be repeated: waits while the disk is full. Dropping the future loses
    /// the value.
    pub(crate) async fn keep_done(
        &self,
        value: &Value,
        most: usize,
        waited: &PausedTime,
    ) -> Result<Output, Failure> {
        let canonical = self.checked(value, most)?;
        let mut waits = None;
        loop {
            match self.store(&canonical).await {
                Err(Unkept::Full(why)) if !self.status.is_stopping() => {
                    waits.get_or_insert_with(|| self.disk.wait(&why, waited));
                    tokio::time::sleep(SPACE_RETRY).await;
                }
                stored => return Ok(stored?),
            }
        }
    }

    /// Keeps the result of a control node in its record, whatever its size up to [`CONTROL_RESULT_BYTES_MAX`]: decisions about the
    /// plan read it.
    pub(crate) fn keep_in_record(&self, value: &Value) -> Result<Output, Failure> {
        let canonical = self.checked(value, CONTROL_RESULT_BYTES_MAX)?;
        let content = canonical.as_str().as_bytes();
        let (artifact, bytes) = (lineage::artifact(JSON, content), content.len() as u64);
        Ok(Output { artifact, bytes, inline: Some(canonical), directive: None })
    }

    /// The canonical text of a result of at most `most` bytes that readers can hold.
    fn checked(&self, value: &Value, most: usize) -> Result<Json, Unkept> {
        let refused = |why: String| Unkept::Refused(invalid(why));
        let canonical = json::canonical(value).map_err(|error| refused(format!("the result: {error}")))?;
        if json::depth(value) > RESULT_DEPTH_MAX {
            return Err(refused(format!(
                "the result holds values within values {RESULT_DEPTH_MAX} deep and more"
            )));
        }
        let bytes = canonical.as_str().len();
        if bytes > most {
            return Err(refused(format!("the result has {bytes} bytes, at most {most} are kept")));
        }
        let (memory, most) = (json::memory(value), self.memory_max);
        if memory > most {
            return Err(refused(format!(
                "the result has {bytes} bytes and would take about {memory} in memory, at most {most} are kept: use fewer small lists \
                 and maps within others, or write them as a text"
            )));
        }
        Ok(canonical)
    }

    async fn store(&self, canonical: &Json) -> Result<Output, Unkept> {
        let bytes = canonical.as_str().len();
        if bytes <= INLINE_BYTES_MAX {
            let artifact = lineage::artifact(JSON, canonical.as_str().as_bytes());
            return Ok(Output {
                artifact,
                bytes: bytes as u64,
                inline: Some(canonical.clone()),
                directive: None,
            });
        }
        let content = canonical.as_str().as_bytes().to_vec();
        let stored = self.artifacts.put(Artifact { media: JSON.to_owned(), content }).await;
        let artifact = stored.map_err(|error| match error {
            ArtifactError::Full(why) => Unkept::Full(why),
            error => Unkept::Failed(error),
        })?;
        Ok(Output { artifact, bytes: bytes as u64, inline: None, directive: None })
    }

    /// Loads the results of executed nodes that an attempt of `node` needs; `null` for a node without one.
    pub(crate) async fn needed(
        &self,
        run: &Run,
        node: &Node,
    ) -> Result<BTreeMap<NodeId, Arc<Value>>, Unreadable> {
        let (mut results, mut taken) = (BTreeMap::new(), 0);
        for source in run.sources(node) {
            if taken > json::VALUE_MEMORY_MAX {
                // The input is refused; further results would only take more memory.
                break;
            }
            let result = match run.instance(&source).and_then(|instance| instance.output.as_ref()) {
                None => Value::Null,
                Some(output) => match self.load(output).await {
                    Ok(result) => result,
                    Err(error) => return Err(Unreadable { node: source, error }),
                },
            };
            taken += json::memory(&result);
            results.insert(source, Arc::new(result));
        }
        Ok(results)
    }

    /// Loads results that become parts of one value.
    ///
    /// # Errors
    ///
    /// A result cannot be read, or they are more together than one result may be. Then at most one too many has been loaded.
    pub(crate) async fn together<'a>(
        &self,
        outputs: impl Iterator<Item = (&'a NodeId, &'a Output)>,
    ) -> Result<BTreeMap<NodeId, Value>, Apart> {
        let (mut all, mut bytes, mut memory) = (BTreeMap::new(), 0_u64, 0);
        for (node, output) in outputs {
            bytes = bytes.saturating_add(output.bytes);
            if bytes > self.bytes_max as u64 || memory > self.memory_max {
                return Err(Apart::TooLarge { node: node.clone(), most: self.bytes_max });
            }
            let read = self.load(output).await;
            let value = read.map_err(|error| Unreadable { node: node.clone(), error })?;
            memory += json::memory(&value);
            all.insert(node.clone(), value);
        }
        Ok(all)
    }

    pub(crate) async fn load(&self, output: &Output) -> Result<Value, ArtifactError> {
        if let Some(inline) = &output.inline {
            return Ok(inline.value());
        }
        let artifact = self.artifacts.get(output.artifact).await?;
        serde_json::from_slice(&artifact.content)
            .map_err(|error| ArtifactError::Damaged { digest: output.artifact, what: error.to_string() })
    }

    /// True if a result reports low confidence, or cannot be read.
    pub(crate) async fn is_unsure(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Ok(output) => match self.load(output).await {
                Ok(value) => agent::is_unsure(&value),
                Err(_) => true,
            },
            Outcome::Failed(_) => false,
        }
    }
}

enum Unkept {
    /// The value is no valid result.
    Refused(Failure),
    /// The disk is full.
    Full(String),
    /// The artifact store failed.
    Failed(ArtifactError),
}

impl From<Unkept> for Failure {
    fn from(unkept: Unkept) -> Failure {
        let error = match unkept {
            Unkept::Refused(failure) => return failure,
            Unkept::Full(why) => ArtifactError::Full(why),
            Unkept::Failed(error) => error,
        };
        // The action cannot be undone; only its result is lost.
        Failure {
            category: FailureCategory::Crash,
            message: format!("the result could not be stored: {error}"),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the result of {node} cannot be read: {error}")]
pub(crate) struct Unreadable {
    pub(crate) node: NodeId,
    pub(crate) error: ArtifactError,
}

/// The reason why results do not become parts of one value.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Apart {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error(
        "the results up to that of {node} are more together than the {most} bytes that one result may have, or take too much memory: let each \
         node return less, or write it to a file"
    )]
    TooLarge { node: NodeId, most: usize },
}

pub(crate) fn invalid(message: String) -> Failure {
    Failure { category: FailureCategory::InvalidOutput, message }
}

/// True if a result that stands in the record itself gives the recorded digest. The store checks any other one.
pub(crate) fn verifies(output: &Output) -> bool {
    output
        .inline
        .as_ref()
        .is_none_or(|inline| lineage::artifact(JSON, inline.as_str().as_bytes()) == output.artifact)
}
