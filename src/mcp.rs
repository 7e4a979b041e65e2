//! The MCP servers of a configuration, with the accepted definitions of their tools.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_drivers::cage::{SandboxConfig, Workspaces};
use ostler_drivers::mcp::{Acceptance, Listing, McpConfig, McpServer, Pins, Place, tools};
use ostler_kernel::port::{Device, Tool};
use ostler_server::user_folder;

/// The configured MCP servers. A server starts with the first call of one of its tools.
#[derive(Debug, Clone, Default)]
pub struct McpServers {
    servers: Vec<Arc<McpServer>>,
    /// Folder of the configuration.
    folder: PathBuf,
    /// Notes of the folders where steps wrote.
    workspaces: Option<Workspaces>,
}

impl McpServers {
    /// The servers of a configuration in `folder`. Accepted tools are kept in the data folder; without a data folder, in this value
    /// alone.
    ///
    /// # Errors
    ///
    /// The accepted tools of a server cannot be read.
    pub fn read(
        tables: &BTreeMap<String, McpConfig>,
        sandbox: &SandboxConfig,
        folder: &Path,
        data: Option<&Path>,
    ) -> io::Result<McpServers> {
        let pins = data.map(Pins::of);
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // Links that the user has on the way count now, as the configuration was read by them; a later one would lead elsewhere.
        let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder))?;
        let data = data.map(Path::to_owned);
        let place = Place { folder: folder.clone(), data, sandbox: sandbox.clone(), user: user_folder() };
        let server = |(name, config): (&String, &McpConfig)| {
            McpServer::new(name, config.clone(), place.clone(), pins.clone()).map(Arc::new)
        };
        let servers = tables.iter().map(server).collect::<io::Result<_>>()?;
        Ok(McpServers { servers, folder, workspaces: sandbox.workspaces.clone() })
    }

    /// All servers, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<McpServer>> {
        self.servers.iter()
    }

    /// True if no server is configured.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// A server by name.
    pub fn get(&self, name: &str) -> Option<&Arc<McpServer>> {
        self.servers.iter().find(|server| server.name() == name)
    }

    /// The accepted tools of all servers.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.servers.iter().flat_map(tools).collect()
    }

    /// The servers as devices.
    pub fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.servers.iter().map(|server| Arc::clone(server) as Arc<dyn Device>).collect()
    }

    /// Servers without accepted tools.
    pub fn new_ones(&self) -> impl Iterator<Item = &Arc<McpServer>> {
        self.servers.iter().filter(|server| server.accepted().is_none())
    }

    /// Starts a new server, and accepts the listed tools: the operator has just configured the server.
    ///
    /// # Errors
    ///
    /// Steps may have written the program of the server, the server does not start, or the acceptance cannot be stored.
    pub async fn accept_first(&self, server: &McpServer) -> Result<Listing, String> {
        if self.may_be_of_steps(server.config()) {
            return Err(format!(
                "it is new, and steps ran where they could write its program; look at that, and accept it: `ostler mcp accept {}`",
                server.name()
            ));
        }
        let listing = server.look().await?;
        let (tools, program) = (listing.tools.clone(), Some(listing.program.clone()));
        let first = Acceptance { tools, program, ..Acceptance::default() };
        server.accept_tools(first, None).map_err(|error| error.to_string())?;
        Ok(listing)
    }

    /// Whether steps may have written what a command names or finds in the folder of the configuration. Another data folder may hold
    /// an acceptance of what was there before.
    fn may_be_of_steps(&self, config: &McpConfig) -> bool {
        let Some(workspaces) = &self.workspaces else { return false };
        let mut named = config.command.iter().map(|word| self.folder.join(word));
        !config.command.is_empty()
            && (workspaces.is_written(&self.folder) || named.any(|path| workspaces.is_written(&path)))
    }
}
