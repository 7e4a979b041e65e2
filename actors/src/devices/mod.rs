//! The tree of devices: an actor for each keeps its device running while calls want it.

mod keeper;

use std::sync::Arc;
use std::time::Duration;

use ostler_kernel::port::Device;
use ostler_supervisor::{
    ChildSpec, Intensity, StartError, Strategy, Supervisor, SupervisorRef, SupervisorSpec,
};

use keeper::Keeper;

/// Restarts of all keepers within [`PERIOD`]. Only a panic restarts one: a device that ends is no failure of its keeper.
const RESTARTS: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// The devices of a system, and the tree that keeps them.
pub(crate) struct Devices {
    pub(crate) tree: SupervisorRef,
    all: Vec<Arc<dyn Device>>,
}

impl Devices {
    /// Starts a keeper for each device.
    pub(crate) async fn start(devices: Vec<Arc<dyn Device>>) -> Result<Devices, StartError> {
        Ok(Devices { tree: start(devices.clone()).await?, all: devices })
    }

    /// A device by name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn Device>> {
        self.all.iter().find(|device| device.name() == name)
    }
}

/// Starts a keeper for each device, one for one.
async fn start(devices: Vec<Arc<dyn Device>>) -> Result<SupervisorRef, StartError> {
    let keeper = |device: Arc<dyn Device>| {
        let name = device.name().to_owned();
        ChildSpec::actor(name, || Keeper, move || Arc::clone(&device))
    };
    let mut spec = SupervisorSpec::new(Strategy::OneForOne, devices.into_iter().map(keeper).collect());
    spec.intensity = Intensity::new(RESTARTS, PERIOD);
    Supervisor::start(spec).await
}
