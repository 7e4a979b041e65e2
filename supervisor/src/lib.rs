#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod child;
mod child_slab;
mod child_table;
mod clock;
mod completion;
mod control;
mod entry;
mod error;
mod exit;
pub mod intensity;
mod observer;
mod pool;
mod pool_task;
mod spec;
mod stable;
mod start_guard;
mod status;
pub mod strategy;
mod supervised;
mod supervisor;
pub mod testing;
mod tree;

pub use child::{ChildRef, KILL_GRACE};
pub use clock::{Clock, SystemClock};
pub use error::{
    DeleteChildError, GetSpecError, RestartChildError, SpecError, StartChildError, StartError,
    TerminateChildError,
};
pub use exit::{Cause, EXIT_TEXT_BYTES_MAX, Exit, Ignore};
pub use intensity::Intensity;
pub use observer::{ChildEvent, Event, Observer};
pub use pool::Pool;
pub use spec::{
    AutoShutdown, CHILD_ID_BYTES_MAX, ChildId, ChildSpec, Kind, POOL_CHILDREN_DEFAULT, PoolSpec, Restart,
    SHUTDOWN_DEFAULT, SUPERVISOR_CHILDREN_MAX, Shutdown, Strategy, SupervisorSpec,
};
pub use stable::{StableRef, Unreachable};
pub use status::{Branch, ChildState, ChildStatus, Counts};
pub use supervisor::{Supervisor, SupervisorRef};
