//! Logins: a person logs in, calls carry the token, one renewal serves all calls, and a hostile server leads nowhere.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;

use ostler_drivers::mcp::{BegunLogin, LOGIN_ANSWER_BYTES_MAX, LOGIN_SCOPES_MAX, LoggedIn, LoginState};
use ostler_kernel::run::FailureCategory;
use serde_json::{Value, json};

use crate::authority::{Authority, Conduct, browse};
use crate::world::World;

const NEEDED: &str = "login needed: `ostler mcp login x`";

fn world(authority: &Authority) -> World {
    World::of_address(&authority.table())
}

/// The address at which a browser ends that opens the login.
async fn redirected(begun: &BegunLogin) -> String {
    let address = begun.address().to_owned();
    tokio::task::spawn_blocking(move || browse(&address).1.unwrap()).await.unwrap()
}

/// Logs in as a person whose browser returns to the port.
async fn log_in(world: &World) -> Result<LoggedIn, String> {
    let begun = world.server.log_in().await?;
    let there = redirected(&begun).await;
    let browser = tokio::task::spawn_blocking(move || browse(&there).0);
    let returned = begun.returned().await;
    assert_eq!(browser.await.unwrap(), "HTTP/1.1 200 OK");
    begun.finish(&returned).await
}

/// Logs in, and starts the server.
async fn logged_in(authority: &Authority) -> World {
    let world = world(authority);
    log_in(&world).await.unwrap();
    world.start().await
}

/// Files of logins in the user's folder.
fn files(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.path().join("user")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect()
}

#[tokio::test]
async fn a_person_logs_in_and_calls_carry_the_token_until_the_logout() {
    let authority = Authority::start(Conduct { lasts: Some(3_600), ..Conduct::default() });
    let world = world(&authority);
    assert_eq!(world.server.look().await.unwrap_err(), NEEDED);
    assert_eq!(world.server.login_state().unwrap(), Some(LoginState::None));
    let done = log_in(&world).await.unwrap();
    assert_eq!((done.issuer, done.scopes), (authority.base(), vec!["read".to_owned()]));
    let LoginState::Kept { until: Some(until), renewed: true } = done.state else {
        panic!("{:?}", done.state)
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now + 3_500..=now + 3_600).contains(&until));
    let [file] = &files(&world)[..] else { panic!("one login") };
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
    let resource = format!("resource={}", authority.base().replace(':', "%3A").replace('/', "%2F"));
    assert!(authority.heard("POST /token")[0].contains(&resource), "the token is for this server");
    let world = world.start().await;
    assert_eq!(world.call("say", json!({})).await.unwrap()["text"], "said");
    assert_eq!(authority.renewals(), 0);
    assert!(world.server.log_out().await.unwrap());
    assert!(!world.server.log_out().await.unwrap());
    assert_eq!(fs::read_dir(world.path().join("user")).unwrap().count(), 0);
    let failure = world.failure("say", json!({})).await;
    assert_eq!(failure.category, FailureCategory::Structural, "nothing was called");
    assert_eq!(failure.message, format!("server x: {NEEDED}"));
}

#[track_caller]
fn told(result: Result<LoggedIn, String>, expected: &str) {
    let why = result.unwrap_err();
    assert!(why.contains(expected), "{why:?} has no {expected:?}");
    for secret in ["access-", "refresh-", "code-9"] {
        assert!(!why.contains(secret), "{why}");
    }
}

#[tokio::test]
async fn an_answer_of_another_login_or_issuer_gets_no_token() {
    let with_iss = |iss: &str| Conduct { iss: Some(iss.to_owned()), ..Conduct::default() };
    let as_it_is: fn(String) -> String = |there| there;
    for (conduct, pasted, expected) in [
        (
            Conduct::default(),
            (|there| there.replace("state=", "state=x")) as fn(String) -> String,
            "another login",
        ),
        (Conduct::default(), |there| format!("{there}&state=x"), "another login"),
        (Conduct::default(), |there| there.replace("code=", "kode="), "has no `code`"),
        (Conduct::default(), |_| "hello".to_owned(), "no address"),
        (with_iss("https://evil.example.com"), as_it_is, "issuer mismatch"),
        (with_iss(""), as_it_is, "missing required issuer"),
        (Conduct { denies: Some("access_denied"), ..Conduct::default() }, as_it_is, "refused: access_denied"),
    ] {
        let authority = Authority::start(conduct);
        let world = world(&authority);
        let begun = world.server.log_in().await.unwrap();
        let there = redirected(&begun).await;
        told(begun.finish(&pasted(there)).await, expected);
        assert_eq!(authority.heard("POST /token"), Vec::<String>::new(), "{expected}");
        assert_eq!(files(&world), Vec::<PathBuf>::new(), "{expected}");
    }
}

#[tokio::test]
async fn the_port_goes_on_waiting_when_others_come() {
    let authority = Authority::start(Conduct::default());
    let world = world(&authority);
    let begun = world.server.log_in().await.unwrap();
    let there = redirected(&begun).await;
    let visits = tokio::task::spawn_blocking(move || {
        let elsewhere = there.replace("/callback", "/other");
        [there.replace("state=", "state=x"), elsewhere, there].map(|url| browse(&url).0)
    });
    let returned = begun.returned().await;
    let visits = visits.await.unwrap();
    assert_eq!(visits, ["HTTP/1.1 400 Bad Request", "HTTP/1.1 400 Bad Request", "HTTP/1.1 200 OK"]);
    begun.finish(&returned).await.unwrap();
}

#[tokio::test]
async fn one_renewal_serves_ten_calls_and_the_new_token_is_kept() {
    let authority = Authority::start(Conduct::default());
    let world = logged_in(&authority).await;
    world.call("say", json!({})).await.unwrap();
    authority.revoke();
    // A process of its own has other locks, and the same file.
    let other = World::of_address(&authority.table());
    symlink(world.path().join("user"), other.path().join("user")).unwrap();
    let other = [(); 5].map(|()| other.server.look());
    let calls: Vec<_> = (0..10).map(|_| world.call("say", json!({}))).collect();
    let (calls, looks) = futures::join!(futures::future::join_all(calls), futures::future::join_all(other));
    assert!(looks.iter().all(Result::is_ok), "{looks:?}");
    for answered in calls {
        assert_eq!(answered.unwrap()["text"], "said");
    }
    assert_eq!(authority.renewals(), 1);
    let kept = fs::read_to_string(&files(&world)[0]).unwrap();
    assert!(kept.contains("access-2") && kept.contains("refresh-2") && !kept.contains("refresh-1"), "{kept}");
    // A token that ends is renewed before a server refuses it, and a call that is given up loses none.
    authority.conduct(|conduct| conduct.lasts = Some(0));
    authority.revoke();
    world.call("say", json!({})).await.unwrap();
    authority.conduct(|conduct| conduct.lasts = None);
    let before = authority.renewals();
    world.call("say", json!({})).await.unwrap();
    assert!(authority.renewals() > before);
}

#[tokio::test]
async fn a_call_that_is_given_up_loses_no_renewed_token() {
    let authority = Authority::start(Conduct::default());
    let world = logged_in(&authority).await;
    world.call("say", json!({})).await.unwrap();
    authority.revoke();
    let (hears, lets) = authority.pause_renewal();
    let paused = tokio::task::spawn_blocking(move || hears.recv().unwrap());
    tokio::select! {
        answered = world.call("say", json!({})) => panic!("{answered:?}"),
        paused = paused => paused.unwrap(),
    }
    // The call is dropped by now.
    lets.send(()).unwrap();
    world.call("say", json!({})).await.unwrap();
    assert_eq!(authority.renewals(), 1);
}

#[tokio::test]
async fn a_page_that_shows_the_request_shows_no_token() {
    let authority = Authority::start(Conduct { echoes: true, ..Conduct::default() });
    let world = logged_in(&authority).await;
    let failure = world.failure("say", json!({})).await;
    assert!(failure.message.contains("authorization: bearer …"), "{}", failure.message);
}

#[tokio::test]
async fn a_refused_renewal_names_the_line_to_type_and_is_not_repeated() {
    for (error, category, message) in [
        ("invalid_grant", FailureCategory::Structural, format!("server x: {NEEDED}")),
        ("temporarily_unavailable", FailureCategory::Transient, "cannot be renewed now".to_owned()),
    ] {
        let authority = Authority::start(Conduct { refuses_renewals: Some(error), ..Conduct::default() });
        let world = logged_in(&authority).await;
        authority.revoke();
        for _ in 0..2 {
            let failure = world.failure("say", json!({})).await;
            assert_eq!(failure.category, category, "{}", failure.message);
            assert!(failure.message.contains(&message), "{}", failure.message);
            assert!(!failure.message.contains("refresh-"), "{}", failure.message);
        }
        // A renewal that may work later is tried again, later.
        assert!(authority.renewals() == 1 || error != "invalid_grant");
    }
}

#[tokio::test]
async fn a_token_goes_to_the_address_that_it_is_for_alone() {
    let (one, other) = (Authority::start(Conduct::default()), Authority::start(Conduct::default()));
    let world = logged_in(&one).await;
    world.call("say", json!({})).await.unwrap();
    let kept = files(&world).remove(0);
    for table in [other.table(), one.table().replace("/mcp", "/mcp?x")] {
        let elsewhere = World::of_address(&table);
        fs::create_dir(elsewhere.path().join("user")).unwrap();
        fs::copy(&kept, elsewhere.path().join("user").join(kept.file_name().unwrap())).unwrap();
        let before = one.bearers().len();
        elsewhere.server.look().await.unwrap_err();
        assert_eq!((other.bearers().len(), one.bearers().len()), (0, before), "{table}");
    }
}

#[tokio::test]
async fn a_call_that_needs_more_scopes_has_the_next_login_ask_for_them() {
    let authority = Authority::start(Conduct { needs: Some("write"), ..Conduct::default() });
    let world = logged_in(&authority).await;
    let failure = world.failure("say", json!({})).await;
    assert_eq!(failure.category, FailureCategory::Structural);
    assert_eq!(failure.message, format!("server x: the login lacks write; {NEEDED}"));
    let done = log_in(&world).await.unwrap();
    assert_eq!(done.scopes, ["read", "write"]);
    world.call("say", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_client_of_the_configuration_is_not_registered_and_its_secret_is_of_the_environment() {
    let authority = Authority::start(Conduct::default());
    // Cargo sets this variable for every test.
    let oauth =
        "oauth = {client_id = \"mine\", client_secret_env = \"CARGO_PKG_NAME\", scopes = [\"other\"], issuer";
    let world = World::of_address(&format!("{}{oauth} = \"{}\"}}", authority.table(), authority.base()));
    assert_eq!(log_in(&world).await.unwrap().scopes, ["other"]);
    assert_eq!(authority.heard("POST /register"), Vec::<String>::new());
    assert!(authority.heard("GET /authorize")[0].contains("client_id=mine"));
    let pinned = format!("{}oauth = {{issuer = \"https://login.example.com\"}}", authority.table());
    let why = World::of_address(&pinned).server.log_in().await.unwrap_err();
    assert!(why.contains("and `issuer` is https://login.example.com"), "{why}");
}

#[tokio::test]
async fn a_hostile_server_leads_nowhere() {
    let resource =
        |name: &'static str, value: Value| Conduct { resource: vec![(name, value)], ..Conduct::default() };
    let metadata =
        |name: &'static str, value: Value| Conduct { metadata: vec![(name, value)], ..Conduct::default() };
    let inner = "http://169.254.169.254/latest/meta-data";
    for (conduct, expected) in [
        (Conduct { floods: LOGIN_ANSWER_BYTES_MAX + 1, ..Conduct::default() }, "larger than"),
        (Conduct { redirects: Some(inner), ..Conduct::default() }, "redirect"),
        (resource("authorization_servers", json!([inner])), "none published usable metadata"),
        (resource("resource", json!("https://evil.example.com/mcp")), "mismatch"),
        (metadata("issuer", json!("https://evil.example.com")), "says that it is https://evil.example.com"),
        (metadata("authorization_endpoint", json!("file:///etc/passwd")), "neither https nor a loopback"),
        (metadata("authorization_endpoint", json!(inner)), "neither https nor a loopback"),
        (metadata("authorization_endpoint", json!("https://10.0.0.1/authorize")), "not a public address"),
        (metadata("token_endpoint", json!("https://169.254.169.254/token")), "not a public address"),
        (metadata("token_endpoint", json!("http://login.example.com/token")), "neither https nor a loopback"),
        (metadata("registration_endpoint", json!("https://192.168.0.1/register")), "not a public address"),
        (metadata("code_challenge_methods_supported", json!(["plain"])), "S256"),
        (metadata("code_challenge_methods_supported", json!(null)), "S256"),
    ] {
        let authority = Authority::start(conduct);
        let world = world(&authority);
        let why = world.server.log_in().await.unwrap_err();
        assert!(why.contains(expected), "{why:?} has no {expected:?}");
        assert_eq!(files(&world), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn a_server_cannot_speak_for_another_authorization_server() {
    // With the name of a good server and a token endpoint of its own, it would get the code that the good server gives.
    let authority = Authority::start(Conduct {
        metadata: vec![("issuer", json!("https://login.example.com"))],
        ..Conduct::default()
    });
    let other = format!("{}/.well-known/other", authority.base());
    authority.conduct(|conduct| conduct.resource = vec![("authorization_servers", json!([other]))]);
    let why = world(&authority).server.log_in().await.unwrap_err();
    assert!(why.contains("says that it is https://login.example.com"), "{why}");
}

#[tokio::test]
async fn a_server_fills_no_address_with_scopes() {
    let scopes: Vec<String> = (0..500).map(|at| format!("scope-{at}")).chain(["a b".to_owned()]).collect();
    let conduct = Conduct { resource: vec![("scopes_supported", json!(scopes))], ..Conduct::default() };
    let authority = Authority::start(Conduct { asks_no_scope: true, ..conduct });
    let begun = world(&authority).server.log_in().await.unwrap();
    assert_eq!(begun.address().matches("scope-").count(), LOGIN_SCOPES_MAX);
}
