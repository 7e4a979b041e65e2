//! Stored templates.

use super::BoxFuture;
use crate::policy::Template;

/// A place that keeps learnt plans.
pub trait TemplateStore: Send + Sync + 'static {
    /// Every template that can be read. Damaged ones are left out: they hold no goal up.
    fn templates(&self) -> BoxFuture<'_, Vec<Template>>;
}
