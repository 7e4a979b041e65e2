//! Hands invented frames of an MCP server to the host: a frame for each request, without panic or hang.

use std::time::Duration;

use ostler_drivers::mcp::frames;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex};
use tokio::time::timeout;

/// Bytes that a pipe holds.
const PIPE: usize = 64 << 10;

/// Silence after which the server closes the connection while the host waits for an answer. The clock is paused: no real
/// time passes.
const SILENCE: Duration = Duration::from_secs(1);

/// Time after which the test counts the host as hung.
const HANG: Duration = Duration::from_secs(3_600);

/// Sends the lines of `bytes` as frames; the end of the last one ends the connection. Returns the number of listed tools and
/// whether a call had a result.
pub(crate) fn mcp(bytes: &[u8]) -> (usize, bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime needs no more than memory");
    runtime.block_on(async {
        let (host, server) = duplex(PIPE);
        let (read, write) = tokio::io::split(host);
        let serve = async {
            let (asked, mut answers) = tokio::io::split(server);
            let mut asked = BufReader::new(asked).lines();
            for frame in bytes.split(|byte| *byte == b'\n') {
                // A notification of the host is no request.
                loop {
                    let Ok(Ok(Some(line))) = timeout(SILENCE, asked.next_line()).await else { return };
                    if line.contains("\"id\"") {
                        break;
                    }
                }
                if answers.write_all(frame).await.is_err() || answers.write_all(b"\n").await.is_err() {
                    return;
                }
            }
        };
        let talk = async { tokio::join!(frames::talk(read, write), serve).0 };
        let talked = timeout(HANG, talk).await.expect("the end of the frames ends the talk");
        talked.map_or((0, false), |(listing, answered)| (listing.tools.len(), answered == Some(true)))
    })
}
