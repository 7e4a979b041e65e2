//! An MCP server that asks for tokens, and the authorization server that gives them, at one loopback address.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};

use super::wire::{Request, document, respond};

/// Conduct of the servers. Texts replace what a good server says.
#[derive(Clone, Default)]
pub(crate) struct Conduct {
    /// `iss` of the redirect; an empty text leaves it out.
    pub(crate) iss: Option<String>,
    /// `error` of the redirect.
    pub(crate) denies: Option<&'static str>,
    /// Members of the metadata of the resource, and of the authorization server.
    pub(crate) resource: Vec<(&'static str, Value)>,
    pub(crate) metadata: Vec<(&'static str, Value)>,
    /// Answers requests for the metadata of the authorization server with so many bytes.
    pub(crate) floods: usize,
    /// Answers requests for the metadata of the authorization server with a redirect.
    pub(crate) redirects: Option<&'static str>,
    /// Seconds for which a token holds.
    pub(crate) lasts: Option<u64>,
    /// `error` of renewals.
    pub(crate) refuses_renewals: Option<&'static str>,
    /// Answers a call with a page that shows the request.
    pub(crate) echoes: bool,
    /// Names no scope where it asks for a token.
    pub(crate) asks_no_scope: bool,
    /// Scope that calls need beyond those of the token.
    pub(crate) needs: Option<&'static str>,
}

#[derive(Default)]
struct Held {
    conduct: Conduct,
    /// Requests, as `METHOD TARGET BODY`, each with the bearer token.
    heard: Vec<(String, Option<String>)>,
    /// Tokens given so far; the last one is valid.
    given: usize,
    revoked: bool,
    scope: String,
    /// Told of the next renewal, which waits for an answer.
    pause: Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>,
}

#[derive(Clone)]
pub(crate) struct Authority {
    address: SocketAddr,
    held: Arc<Mutex<Held>>,
}

impl Authority {
    /// Starts both servers, which end with the test process.
    pub(crate) fn start(conduct: Conduct) -> Authority {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let held = Held { conduct, ..Held::default() };
        let authority =
            Authority { address: listener.local_addr().unwrap(), held: Arc::new(Mutex::new(held)) };
        let server = authority.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = server.clone();
                std::thread::spawn(move || drop(server.answer(&stream)));
            }
        });
        authority
    }

    pub(crate) fn conduct(&self, change: impl FnOnce(&mut Conduct)) {
        change(&mut self.held.lock().unwrap().conduct);
    }

    /// Refuses the tokens given so far.
    pub(crate) fn revoke(&self) {
        self.held.lock().unwrap().revoked = true;
    }

    /// Stops the next renewal. Returns what hears of it, and what lets it go on.
    pub(crate) fn pause_renewal(&self) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((arrived, hears), (lets, go)) = (mpsc::channel(), mpsc::channel());
        self.held.lock().unwrap().pause = Some((arrived, go));
        (hears, lets)
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn table(&self) -> String {
        format!("url = \"{}/mcp\"\nimpact = 0\n", self.base())
    }

    /// Requests whose text begins so.
    pub(crate) fn heard(&self, begin: &str) -> Vec<String> {
        let held = self.held.lock().unwrap();
        held.heard.iter().map(|(text, _)| text).filter(|text| text.starts_with(begin)).cloned().collect()
    }

    /// Renewals that were asked for.
    pub(crate) fn renewals(&self) -> usize {
        self.heard("POST /token").iter().filter(|text| text.contains("grant_type=refresh_token")).count()
    }

    /// Bearer tokens that came.
    pub(crate) fn bearers(&self) -> Vec<String> {
        self.held.lock().unwrap().heard.iter().filter_map(|(_, bearer)| bearer.clone()).collect()
    }

    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let Some(request) = Request::read(stream)? else { return Ok(()) };
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let body = String::from_utf8_lossy(&request.body);
        let mut held = self.held.lock().unwrap();
        held.heard.push((
            format!("{} {} {body}", request.method, request.target),
            request.bearer().map(str::to_owned),
        ));
        if body.contains("grant_type=refresh_token")
            && let Some((arrived, go)) = held.pause.take()
        {
            drop(held);
            arrived.send(()).unwrap();
            go.recv().unwrap();
            held = self.held.lock().unwrap();
        }
        let conduct = held.conduct.clone();
        match (&*request.method, path) {
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                let good = json!({"resource": format!("{}/mcp", self.base()), "authorization_servers": [self.base()]});
                document(stream, &with(good, &conduct.resource))
            }
            ("GET", "/.well-known/oauth-authorization-server") if conduct.floods > 0 => {
                respond(stream, "200 OK", "", &"x".repeat(conduct.floods))
            }
            ("GET", "/.well-known/oauth-authorization-server" | "/.well-known/other") => {
                match conduct.redirects {
                    Some(there) => respond(stream, "302 Found", &format!("Location: {there}\r\n"), ""),
                    None => document(stream, &with(self.metadata(), &conduct.metadata)),
                }
            }
            ("POST", "/register") => {
                let asked: Value = serde_json::from_slice(&request.body).unwrap();
                document(stream, &json!({"client_id": "client-7", "redirect_uris": asked["redirect_uris"]}))
            }
            ("GET", "/authorize") => self.authorize(stream, query, &conduct, &mut held),
            ("POST", "/token") => token(stream, &body, &conduct, &mut held),
            ("POST", "/mcp") => self.mcp(stream, &request, &conduct, &held),
            _ => respond(stream, "404 Not Found", "", ""),
        }
    }

    fn metadata(&self) -> Value {
        let base = self.base();
        json!({
            "issuer": base, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
        })
    }

    fn authorize(
        &self,
        stream: &TcpStream,
        query: &str,
        conduct: &Conduct,
        held: &mut Held,
    ) -> std::io::Result<()> {
        let asked = parameters(query);
        assert_eq!(asked["code_challenge_method"], "S256");
        held.scope = asked.get("scope").cloned().unwrap_or_default();
        let iss = conduct.iss.clone().unwrap_or_else(|| self.base());
        let iss = if iss.is_empty() { iss } else { format!("&iss={iss}") };
        let answer =
            conduct.denies.map_or_else(|| "code=code-9".to_owned(), |error| format!("error={error}"));
        let there = format!("{}?{answer}&state={}{iss}", asked["redirect_uri"], asked["state"]);
        respond(stream, "302 Found", &format!("Location: {there}\r\n"), "")
    }

    fn mcp(
        &self,
        stream: &TcpStream,
        request: &Request,
        conduct: &Conduct,
        held: &Held,
    ) -> std::io::Result<()> {
        let message: Value = serde_json::from_slice(&request.body).unwrap();
        let valid = format!("access-{}", held.given);
        if held.revoked || request.bearer() != Some(valid.as_str()) {
            let scope = if conduct.asks_no_scope { "" } else { ", scope=\"read\"" };
            let challenge = format!(
                "WWW-Authenticate: Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource/mcp\"{scope}\r\n",
                self.base()
            );
            return respond(stream, "401 Unauthorized", &challenge, "");
        }
        let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
        let result = match method {
            _ if id.is_null() => return respond(stream, "202 Accepted", "", ""),
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "authority", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "say", "inputSchema": {"type": "object"}}]}),
            "tools/call" if conduct.echoes => return respond(stream, "400 Bad Request", "", &request.head),
            "tools/call" => {
                match conduct.needs.filter(|scope| !held.scope.split('+').any(|one| one == *scope)) {
                    Some(scope) => {
                        let challenge = format!(
                            "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope}\"\r\n"
                        );
                        return respond(stream, "403 Forbidden", &challenge, "");
                    }
                    None => json!({"content": [{"type": "text", "text": "said"}]}),
                }
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                return document(stream, &json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
        };
        document(stream, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }
}

fn token(stream: &TcpStream, body: &str, conduct: &Conduct, held: &mut Held) -> std::io::Result<()> {
    let asked = parameters(body);
    let is_renewal = asked["grant_type"] == "refresh_token";
    let refused = match (is_renewal, conduct.refuses_renewals) {
        (true, Some(error)) => Some(error),
        (true, None) if asked["refresh_token"] != format!("refresh-{}", held.given) => Some("invalid_grant"),
        (false, _) if asked["code"] != "code-9" || !asked.contains_key("code_verifier") => {
            Some("invalid_grant")
        }
        _ => None,
    };
    if let Some(error) = refused {
        let body = json!({"error": error}).to_string();
        return respond(stream, "400 Bad Request", "Content-Type: application/json\r\n", &body);
    }
    (held.given, held.revoked) = (held.given + 1, false);
    let mut tokens = json!({
        "access_token": format!("access-{}", held.given), "refresh_token": format!("refresh-{}", held.given),
        "token_type": "Bearer",
    });
    if let Some(lasts) = conduct.lasts {
        tokens["expires_in"] = lasts.into();
    }
    document(stream, &tokens)
}

fn with(mut document: Value, members: &[(&'static str, Value)]) -> Value {
    for (name, value) in members {
        document[*name] = value.clone();
    }
    document
}

/// Parameters of a query or a form. Only what these tests compare is decoded.
fn parameters(text: &str) -> HashMap<String, String> {
    let decoded = |text: &str| text.replace("%3A", ":").replace("%2F", "/");
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), decoded(value)))
        .collect()
}

/// Sends a GET as a browser does; returns the status line, and the address of a redirect.
pub(crate) fn browse(url: &str) -> (String, Option<String>) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, target) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let there = answer.lines().find_map(|line| line.strip_prefix("Location: "));
    (answer.lines().next().unwrap_or_default().to_owned(), there.map(str::to_owned))
}
