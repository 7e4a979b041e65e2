//! Artifact stores: results too large for a record, named by the digest of their content.

mod folder;
mod memory;

use ostler_kernel::port::{Artifact, ArtifactError};

pub use folder::FolderArtifacts;
pub use memory::MemoryArtifacts;

/// Largest content of an artifact, in bytes.
pub const ARTIFACT_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Longest media type, in bytes.
pub const MEDIA_BYTES_MAX: usize = 255;

fn check(artifact: &Artifact) -> Result<(), ArtifactError> {
    let refuse = |why: String| Err(ArtifactError::Io(why));
    if artifact.content.len() > ARTIFACT_BYTES_MAX {
        return refuse(format!(
            "an artifact of {} bytes, ARTIFACT_BYTES_MAX is {ARTIFACT_BYTES_MAX}",
            artifact.content.len()
        ));
    }
    if artifact.media.len() > MEDIA_BYTES_MAX || artifact.media.contains(['\n', '\r']) {
        return refuse(format!("a media type is one line of up to {MEDIA_BYTES_MAX} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ostler_kernel::port::Artifact;

    use crate::data_folder::artifact_files::digest;

    #[test]
    fn the_digest_is_that_of_the_design() {
        let artifact = Artifact {
            media: "application/json".into(),
            content: br#"{"members":["x","y"],"slots":[]}"#.into(),
        };
        assert_eq!(
            digest(&artifact).to_string(),
            "4f9c7f28fc189dfeab37e35c687c0958e0cd310ed92d7ca992ede6f39d9b0a85"
        );
    }
}
