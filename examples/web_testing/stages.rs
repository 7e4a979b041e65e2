//! The stages: a crawler, who makes checks, who loads, who looks, and who writes the report.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use ostler::{Outbox, PipelineEvent, Publisher, Stage, StageError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::fetch::Site;

/// Pages that are crawled, at most.
const PAGES_MAX: usize = 100;

/// Requests of one load, and how many at once: enough to see, too few to hurt.
const REQUESTS: usize = 8;
const AT_ONCE: usize = 4;

/// An answer that takes longer than this is an anomaly.
const SLOW: Duration = Duration::from_millis(500);

/// Crawls the site from its first page on, and publishes each page as it is found.
pub(crate) async fn recon(out: &Publisher, site: &Site) -> Result<(), Box<dyn Error>> {
    let mut known = BTreeSet::from(["/".to_owned()]);
    let mut waiting = VecDeque::from(["/".to_owned()]);
    while let Some(path) = waiting.pop_front() {
        let answer = site.get(&path).await.map_err(|error| error.to_string())?;
        let links = answer.links();
        let page = json!({"path": path, "status": answer.status, "title": answer.title(), "links": links});
        out.publish_soon("page_discovered", &page).await?;
        for link in links {
            if known.len() < PAGES_MAX && known.insert(link.clone()) {
                if link.starts_with("/api/") {
                    out.publish_soon("api_found", &json!({"path": link})).await?;
                } else {
                    waiting.push_back(link);
                }
            }
        }
    }
    out.publish("sitemap_built", &json!({"paths": known})).await?;
    Ok(())
}

fn restored<T: Default + for<'a> Deserialize<'a>>(kept: Option<Value>) -> T {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

/// Looks at each page, and says what is to be checked of it and how people get there.
pub(crate) struct Behavior {
    site: Site,
    /// Pages by path: titles that were seen.
    seen: BTreeMap<String, String>,
}

impl Behavior {
    pub(crate) fn with(site: &Site, kept: Option<Value>) -> Behavior {
        Behavior { site: site.clone(), seen: restored(kept) }
    }
}

#[derive(Deserialize)]
struct Page {
    path: String,
    title: String,
    links: Vec<String>,
}

impl Stage for Behavior {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        if event.kind.as_str() == "sitemap_built" {
            let paths: Vec<String> = serde_json::from_value(event.value()["paths"].clone())?;
            let unseen =
                paths.iter().filter(|path| !path.starts_with("/api/") && !self.seen.contains_key(*path));
            for path in unseen {
                out.publish("test_generated", &json!({"path": path, "status": 200, "title": null}))?;
            }
            return Ok(());
        }
        let Page { path, title, links } = event.read()?;
        // As somebody who comes by meets it, and not as the crawler did.
        let now = self.site.get(&path).await?;
        let title = if now.title().is_empty() { title } else { now.title() };
        out.publish("test_generated", &json!({"path": path, "status": 200, "title": title}))?;
        if let Some(next) = links.iter().find(|link| !link.starts_with("/api/")) {
            out.publish("flow_mapped", &json!({"path": next, "from": path}))?;
        }
        self.seen.insert(path, title);
        Ok(out.keep(&self.seen)?)
    }
}

/// Asks for what was found, several times and a few at once.
pub(crate) struct Load {
    site: Site,
}

impl Load {
    pub(crate) fn of(site: &Site) -> Load {
        Load { site: site.clone() }
    }
}

impl Stage for Load {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        let path = event.value()["path"].as_str().unwrap_or("/").to_owned();
        let (mut took, mut errors) = (Vec::new(), 0);
        for _ in 0..REQUESTS / AT_ONCE {
            for answer in join_all((0..AT_ONCE).map(|_| self.site.get(&path))).await {
                let answer = answer?;
                errors += u32::from(answer.status >= 500);
                took.push(answer.took);
            }
        }
        took.sort_unstable();
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let (half, most) = (micros(took[took.len() / 2]), micros(took[took.len() - 1]));
        out.publish("load_result", &json!({"path": path, "requests": REQUESTS, "errors": errors}))?;
        Ok(out.publish("perf_metric", &json!({"path": path, "median_us": half, "most_us": most}))?)
    }
}

/// Does the checks, and looks at what the load came to.
pub(crate) struct Observer {
    site: Site,
    seen: Observed,
}

#[derive(Default, Serialize, Deserialize)]
struct Observed {
    checks: u64,
    loads: u64,
    anomalies: u64,
}

impl Observer {
    pub(crate) fn with(site: &Site, kept: Option<Value>) -> Observer {
        Observer { site: site.clone(), seen: restored(kept) }
    }

    /// What is wrong, if anything is.
    async fn anomaly(&mut self, event: &PipelineEvent) -> Result<Option<String>, StageError> {
        let told = event.value();
        Ok(match event.kind.as_str() {
            "test_generated" => {
                self.seen.checks += 1;
                let answer = self.site.get(told["path"].as_str().unwrap_or("/")).await?;
                let status = u64::from(answer.status);
                match told["status"].as_u64() {
                    Some(wanted) if wanted != status => Some(format!("answers {status}, not {wanted}")),
                    _ if answer.title().is_empty() => Some("has no title".to_owned()),
                    _ => None,
                }
            }
            "load_result" => {
                self.seen.loads += 1;
                let errors = told["errors"].as_u64().filter(|errors| *errors > 0);
                errors.map(|errors| format!("fails under load: {errors} of {}", told["requests"]))
            }
            _ => {
                let most = Duration::from_micros(told["most_us"].as_u64().unwrap_or(0));
                (most > SLOW).then(|| format!("takes up to {most:?}"))
            }
        })
    }
}

impl Stage for Observer {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        if let Some(what) = self.anomaly(&event).await? {
            self.seen.anomalies += 1;
            out.publish("anomaly_detected", &json!({"path": event.value()["path"], "what": what}))?;
        }
        Ok(out.keep(&self.seen)?)
    }

    async fn ended(&mut self, out: Outbox) -> Result<(), StageError> {
        Ok(out.publish("observation_complete", &self.seen)?)
    }
}

/// Writes the report, when everything was heard.
pub(crate) struct Synthesis {
    report: PathBuf,
    told: Told,
}

#[derive(Default, Serialize, Deserialize)]
struct Told {
    checks: BTreeSet<String>,
    loads: BTreeMap<String, u64>,
    anomalies: BTreeSet<(String, String)>,
    complete: Option<Value>,
}

impl Synthesis {
    pub(crate) fn with(report: &Path, kept: Option<Value>) -> Synthesis {
        Synthesis { report: report.to_owned(), told: restored(kept) }
    }
}

impl Stage for Synthesis {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        let value = event.value();
        let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "test_generated" => drop(self.told.checks.insert(word("path"))),
            "load_result" => {
                *self.told.loads.entry(word("path")).or_default() += value["requests"].as_u64().unwrap_or(0);
            }
            "anomaly_detected" => drop(self.told.anomalies.insert((word("path"), word("what")))),
            _ => self.told.complete = Some(value),
        }
        Ok(out.keep(&self.told)?)
    }

    async fn ended(&mut self, _: Outbox) -> Result<(), StageError> {
        let Told { checks, loads, anomalies, complete } = &self.told;
        let complete =
            complete.as_ref().ok_or_else(|| StageError::new("the observer said nothing at its end"))?;
        let mut text = format!("# {} pages, {} places under load\n\n", checks.len(), loads.len());
        text += &format!(
            "{} checks, {} loads of {REQUESTS} requests each.\n\n",
            complete["checks"], complete["loads"]
        );
        for (path, what) in anomalies {
            text += &format!("- {path} {what}\n");
        }
        Ok(std::fs::write(&self.report, text)?)
    }
}
