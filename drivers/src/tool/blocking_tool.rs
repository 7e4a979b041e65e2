//! Tools with blocking work. The work runs on a blocking thread, learns when its caller is gone, and then has no further visible
//! effect.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::lineage;
use ostler_kernel::port::{
    BoxFuture, CallContext, NamedFile, ParamProblem, Tool, ToolResult, ToolSpec, WorkspaceUse,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::named_files::in_time;
use super::tool_spec::{crash, params};
use super::workspace::Workspace;

/// A tool defined by functions over its parameters `P`.
pub(super) struct BlockingTool<P> {
    /// Declaration of the tool.
    pub spec: ToolSpec,
    /// Class of a call.
    pub class: fn(&Map<String, Value>) -> CallClass,
    /// Use of workspace files by calls.
    pub workspace_use: WorkspaceUse,
    /// Faults of literal parameters beyond the schema.
    pub check: fn(&Map<String, Value>) -> Vec<ParamProblem>,
    /// The work. Checks the [`CancelFlag`] every few milliseconds.
    pub work: Work<P>,
}

/// Work of a tool over its parameters.
pub(super) type Work<P> = Arc<dyn Fn(&P, &CallContext, &CancelFlag) -> ToolResult + Send + Sync>;

impl<P: DeserializeOwned + Send + 'static> Tool for BlockingTool<P> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, params: &Map<String, Value>) -> CallClass {
        (self.class)(params)
    }

    fn check(&self, params: &Map<String, Value>) -> Vec<ParamProblem> {
        (self.check)(params)
    }

    fn workspace_use(&self) -> WorkspaceUse {
        self.workspace_use
    }

    /// Where a call writes, if links lead there: a link that comes later is another question.
    fn named_files(
        &self,
        params: &Map<String, Value>,
        workspace: Arc<Path>,
    ) -> BoxFuture<'_, Vec<NamedFile>> {
        let path = params.get("path").and_then(Value::as_str).filter(|_| self.workspace_use.writes);
        let Some(path) = path.map(str::to_owned) else { return Box::pin(std::future::ready(Vec::new())) };
        Box::pin(async move {
            let named = path.clone();
            let found = off_runtime(move |_| {
                let workspace = Workspace::open(&workspace)?;
                let written = workspace.relative(&named)?;
                let real = workspace.real(&written);
                let real = real.strip_prefix(".").unwrap_or(&real);
                Ok((real != written).then(|| led_by_links(&written, real)).into_iter().collect())
            });
            in_time(&path, found).await
        })
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        let work = Arc::clone(&self.work);
        Box::pin(async move {
            let params: P = params(permit)?;
            off_runtime(move |cancel| work(&params, &context, cancel)).await
        })
    }
}

/// A path that links lead elsewhere, bound to the place where they lead.
fn led_by_links(written: &Path, real: &Path) -> NamedFile {
    let digest = lineage::hash("aos/file-link/1", &[real.as_os_str().as_encoded_bytes()]);
    let text = Some(format!("a link to {}\n", real.display()));
    NamedFile { path: written.display().to_string(), digest, bytes: 0, text, unbound: None, by_word: false }
}

/// Set when the caller drops the call. Long work checks the flag between chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct CancelFlag(Arc<Caller>);

#[derive(Debug, Default)]
struct Caller {
    gone: AtomicBool,
    acting: Mutex<()>,
}

impl CancelFlag {
    /// Fails if the caller is gone; the failure reaches no one.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.0.gone.load(Ordering::SeqCst) { Err(crash("the call was cancelled")) } else { Ok(()) }
    }

    /// Performs a visible effect, unless the caller is gone. The caller's drop waits for a running effect, so no effect happens after
    /// a call was dropped. Keep effects short.
    pub(super) fn act<T>(&self, act: impl FnOnce() -> T) -> Result<T, Failure> {
        let _acting = self.0.acting.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        Ok(act())
    }
}

#[cfg(test)]
impl CancelFlag {
    pub(super) fn cancelled() -> CancelFlag {
        let cancel = CancelFlag::default();
        drop(RaiseOnDrop(cancel.clone()));
        cancel
    }
}

struct RaiseOnDrop(CancelFlag);

impl Drop for RaiseOnDrop {
    fn drop(&mut self) {
        let Caller { gone, acting } = &*self.0.0;
        gone.store(true, Ordering::SeqCst);
        drop(acting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Runs `work` on a blocking thread. Dropping the future sets the [`CancelFlag`]; work that ignores the flag runs to its end and
/// its result is lost.
pub(super) async fn off_runtime<T: Send + 'static>(
    work: impl FnOnce(&CancelFlag) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let cancel = CancelFlag::default();
    let _raise = RaiseOnDrop(cancel.clone());
    match tokio::task::spawn_blocking(move || work(&cancel)).await {
        Ok(result) => result,
        Err(error) => Err(crash(format!("the tool aborted: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_learns_that_nobody_waits() {
        let (started, begun) = tokio::sync::oneshot::channel();
        let (finished, ended) = tokio::sync::oneshot::channel();
        let call = tokio::spawn(off_runtime(move |cancel| {
            started.send(()).expect("the test waits");
            while cancel.check().is_ok() {
                std::thread::yield_now();
            }
            finished.send(cancel.act(|| ()).is_err()).expect("the test waits");
            Ok(())
        }));
        begun.await.unwrap();
        call.abort();
        assert!(ended.await.expect("the work ended by itself"), "it acted after it was given up");
    }

    #[test]
    fn a_caller_cannot_go_while_something_is_done() {
        let cancel = CancelFlag::default();
        let (done, going) = (AtomicBool::new(false), RaiseOnDrop(cancel.clone()));
        std::thread::scope(|scope| {
            let acted = cancel.act(|| {
                scope.spawn(|| {
                    drop(going);
                    assert!(done.load(Ordering::SeqCst), "the caller went first");
                });
                while cancel.check().is_ok() {
                    std::thread::yield_now(); // until the caller starts to drop
                }
                done.store(true, Ordering::SeqCst);
            });
            assert!(acted.is_ok());
        });
        assert!(cancel.act(|| ()).is_err());
    }

    #[tokio::test]
    async fn a_panic_is_a_failure() {
        let failed = off_runtime(|_| -> Result<(), Failure> { panic!("broken") }).await.unwrap_err();
        assert_eq!(failed.category, ostler_kernel::run::FailureCategory::Crash);
    }
}
