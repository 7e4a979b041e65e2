//! The built-in tools, implementations of `ostler_kernel::port::Tool`.

mod atomic_file;
mod blocking_tool;
mod config;
mod data_folder;
mod fs_edit;
mod fs_list;
mod fs_read;
mod fs_write;
mod git;
mod host_facts;
mod html;
mod http_client;
mod http_fetch;
mod http_request;
mod json_query;
mod named_files;
mod pid_files;
mod process;
mod process_tree;
mod progress;
mod removal;
mod shell_run;
mod sub_agent;
mod temporary_folder;
mod text;
mod text_render;
mod text_search;
mod text_stats;
mod time_sleep;
pub(crate) mod tls;
pub(crate) mod tool_spec;
mod walk;
mod web_search;
mod workspace;

use std::sync::Arc;

use ostler_kernel::port::Tool;

use crate::cage::FileWrites;

pub use atomic_file::ATOMIC_FILES_MAX;
pub use config::{
    HostConfig, HostPort, HostPortError, HttpConfig, SearchConfig, SearchUrl, SearchUrlError, ShellConfig,
    ToolConfig,
};
pub(crate) use data_folder::DATA_FOLDER_ENTRIES;
pub use data_folder::{DataFolder, TerminateError};
pub use fs_edit::{EDIT_BYTES_MAX, EDIT_COUNT_MAX, EDIT_LINES_MAX};
pub use fs_list::{LIST_FILES_DEFAULT, LIST_FILES_MAX};
pub use fs_read::{READ_BYTES_DEFAULT, READ_BYTES_MAX};
pub use fs_write::WRITE_BYTES_MAX;
pub use host_facts::{FACTS_FILE_BYTES_MAX, FACTS_ITEMS_MAX, FACTS_PROCESSES_MAX};
pub use html::{PAGE_LINKS_MAX, PAGE_TITLE_BYTES_MAX};
pub(crate) use http_client::HttpClient;
pub use http_client::{HTTP_BODY_BYTES_MAX, HTTP_CONNECT_MS};
pub use http_fetch::{FETCH_BYTES_DEFAULT, FETCH_BYTES_MAX, FETCH_REDIRECTS_MAX};
pub use http_request::{HTTP_HEADERS_MAX, HTTP_REQUEST_BYTES_MAX};
pub use json_query::{QUERY_BYTES_MAX, QUERY_NESTING_MAX, QUERY_RESULT_BYTES_MAX, QUERY_STEPS_MAX};
pub(crate) use named_files::{Naming, Way, is_as_read, lexical, named_files};
pub(crate) use process::{Folder, ProcessGroup, Program, RunningProgram};
pub use process::{OUTPUT_HEAD_BYTES, OUTPUT_TAIL_BYTES};
pub use progress::{PROGRESS, RESUME_TOKEN};
pub use shell_run::{SHELL_ARGV_MAX, SHELL_FAILURE_BYTES, SHELL_STDIN_BYTES_MAX, lacks_file};
pub use text::{FILES_MAX, TEXT_FILE_BYTES_MAX};
pub use text_search::{
    SEARCH_LINE_BYTES, SEARCH_LINE_BYTES_MAX, SEARCH_MATCHES_DEFAULT, SEARCH_MATCHES_MAX,
    SEARCH_REGEX_BYTES_MAX, SEARCH_TEXT_BYTES_MAX,
};
pub use time_sleep::SLEEP_MS_MAX;
pub use walk::{GITIGNORE_BYTES_MAX, GITIGNORE_LINES_MAX, WALK_DEPTH_MAX, WALK_ENTRIES_MAX};
pub use web_search::{WEB_SEARCH_DEFAULT, WEB_SEARCH_MAX, WEB_SEARCH_QUERY_CHARS_MAX};
pub(crate) use workspace::is_guarded;
pub use workspace::refused_path;

/// The built-in tools for `config`, sorted by name. Contains `shell.run` only if enabled, and `web.search` only with
/// a server. Programs are marked with the data
/// folder, so that the next process to open the folder finds and kills orphans ([`DataFolder::terminate_orphans`]).
pub fn builtin(config: &ToolConfig, data: Option<&DataFolder>) -> Vec<Arc<dyn Tool>> {
    let writes = FileWrites::new(&config.sandbox, data);
    let mut tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(sub_agent::SubAgent::new()),
        fs_edit::tool(&writes),
        fs_list::tool(),
        fs_read::tool(),
        fs_write::tool(&writes),
        host_facts::tool(),
        Arc::new(http_fetch::HttpFetch::new(&config.http)),
        Arc::new(http_request::HttpRequest::new(&config.http)),
        json_query::tool(),
    ];
    if config.shell.enabled {
        tools.push(Arc::new(shell_run::ShellRun::new(config, data)));
    }
    tools.push(text_render::tool());
    tools.push(text_search::tool());
    tools.push(text_stats::tool());
    tools.push(Arc::new(time_sleep::TimeSleep::new()));
    if let Some(server) = &config.search.url {
        tools.push(Arc::new(web_search::WebSearch::new(server)));
    }
    tools
}
