//! A sample shop: twelve pages, three of which link to an API, and one dead link.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

/// Response time of the site.
const ANSWER: Duration = Duration::from_millis(10);

/// Path, title and links of the pages.
const PAGES: [(&str, &str, &[&str]); 12] = [
    ("/", "Shop", &["/books", "/music", "/about", "/api/status"]),
    ("/books", "Books", &["/books/1", "/books/2", "/books/3", "/"]),
    ("/books/1", "Walden", &["/books", "/cart"]),
    ("/books/2", "Emma", &["/books", "/cart"]),
    ("/books/3", "Ulysses", &["/books", "/cart"]),
    ("/music", "Music", &["/music/1", "/music/2", "/"]),
    ("/music/1", "Goldberg Variations", &["/music", "/cart"]),
    ("/music/2", "Kind of Blue", &["/music", "/cart"]),
    ("/cart", "Cart", &["/checkout", "/api/cart"]),
    ("/checkout", "Checkout", &["/api/order", "/cart"]),
    ("/about", "About us", &["/", "/jobs"]),
    ("/contact", "", &["/"]),
];

/// Serves the site on a free port until the process exits.
pub(crate) async fn serve() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let routes = Router::new()
        .route("/", get(|| page("/".to_owned())))
        .route("/{*path}", get(|Path(path): Path<String>| page(format!("/{path}"))));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            eprintln!("the site is no longer served: {error}");
        }
    });
    Ok(address)
}

async fn page(path: String) -> Response {
    tokio::time::sleep(ANSWER).await;
    if path == "/api/order" {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the till is closed").into_response();
    }
    if path.starts_with("/api/") {
        return axum::Json(serde_json::json!({"ok": true})).into_response();
    }
    let Some((_, title, links)) = PAGES.iter().find(|(known, ..)| *known == path) else {
        return (StatusCode::NOT_FOUND, Html("<title>Not found</title>")).into_response();
    };
    let links: String = links.iter().map(|link| format!("<a href=\"{link}\">{link}</a>\n")).collect();
    let contact = if path == "/about" { "<a href=\"/contact\">contact</a>\n" } else { "" };
    Html(format!("<html><title>{title}</title><body>\n{links}{contact}</body></html>")).into_response()
}
