//! The count of calls that have written in workspaces, and the trait [`WorkspaceWrites`].

use std::path::Path;

/// Counts calls that have written in workspaces, so that an approval holds only while no further one has.
///
/// The calls are short and may block for the time of a write to the page cache. The counts are not synced: a power failure may lose the
/// last ones. A crash of the process loses none, and a call that wrote at that time counts as ended.
///
/// ```
/// # use ostler_kernel::port::WorkspaceWrites;
/// # use std::path::Path;
/// fn is_unchanged_by(writes: &dyn WorkspaceWrites, call: impl FnOnce()) -> bool {
///     let before = writes.ended_in(Path::new("/srv/site"));
///     call();
///     writes.ended_in(Path::new("/srv/site")) == before
/// }
/// ```
pub trait WorkspaceWrites: Send + Sync + 'static {
    /// Notes that a call begins that may write in a workspace. One [`WorkspaceWrites::end`] with the same folder follows, or the end of the
    /// process.
    fn begin(&self, workspace: &Path);

    /// Notes the end of such a call.
    fn end(&self, workspace: &Path);

    /// Returns a number that grows with each call that ends and may have written in the workspace: in the folder, below it, or in a
    /// workspace around it. The end of a call elsewhere may add to it.
    fn ended_in(&self, workspace: &Path) -> u64;
}
