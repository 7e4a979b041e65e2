//! The stages: crawler, check writer, load test, observer and report writer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::join_all;
use ostler::kernel::event::Failure;
use ostler::kernel::plan::Effect;
use ostler::kernel::run::FailureCategory;
use ostler::{
    Outbox, PipelineEnd, PipelineEvent, PipelineHandle, Program, ProgramContext, Publisher, Stage, StageError,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::analysts::{Check, Observed, Page, Report, ReportInput, Tests, report_schema};
use super::case_studies::analyst::{Analyst, answer};
use super::case_studies::model::Question;
use super::fetch::Site;

/// Maximum crawled pages.
const PAGES_MAX: usize = 100;

/// Requests per load test, and how many concurrently.
const REQUESTS: usize = 8;
const AT_ONCE: usize = 4;

/// Response time from which a page is an anomaly.
const SLOW: Duration = Duration::from_millis(500);

/// A handle on the pipeline for agents created before it.
#[derive(Clone, Default)]
pub(crate) struct PipelineSlot(Arc<OnceLock<PipelineHandle>>);

impl PipelineSlot {
    /// Sets the pipeline.
    pub(crate) fn set(&self, pipeline: PipelineHandle) {
        // Set once per system.
        let _ = self.0.set(pipeline);
    }

    fn get(&self) -> Result<&PipelineHandle, Failure> {
        self.0.get().ok_or_else(|| failed("there is no pipeline yet"))
    }
}

fn failed(what: impl std::fmt::Display) -> Failure {
    Failure::new(FailureCategory::Structural, what.to_string())
}

fn failure(failure: Failure) -> StageError {
    StageError::new(failure.message)
}

/// The crawler, an agent of the run that publishes each page it finds. A source stage has no actor of its own, so the crawler is
/// supervised as an agent and its steps are durable. If the process dies between publishing and recording a step, the step publishes
/// its page again.
pub(crate) fn recon(site: &Site, line: &PipelineSlot, reading: Reading<impl Analyst>) -> Program {
    let (site, line, reading) = (site.clone(), line.clone(), Arc::new(reading));
    let crawl = move |agent: ProgramContext, _: Value| {
        let (site, line, reading) = (site.clone(), line.clone(), Arc::clone(&reading));
        async move {
            let out = line.get()?.publisher("recon").map_err(failed)?;
            let mut known = BTreeSet::from(["/".to_owned()]);
            let mut waiting = VecDeque::from(["/".to_owned()]);
            while let Some(path) = waiting.pop_front() {
                for link in visit(&agent, &reading, &site, &out, &path).await?.links {
                    if known.len() == PAGES_MAX || !known.insert(link.clone()) {
                        continue;
                    }
                    if link.starts_with("/api/") {
                        let found = || publish(&out, "api_found", json!({"path": link}));
                        agent.step(format!("api {link}"), found).await?;
                    } else {
                        waiting.push_back(link);
                    }
                }
            }
            let map = || publish(&out, "sitemap_built", json!({"paths": known}));
            agent.step("sitemap", map).await?;
            out.end().await.map_err(failed)?;
            Ok::<Value, Failure>(json!({"paths": known.len()}))
        }
    };
    Program::new("web.recon", "1", crawl).description("Crawls a site.").effect(Effect::Write)
}

/// What reads pages.
pub(crate) enum Reading<A> {
    Code(A),
    /// The model of this name.
    Model(String),
}

const READ: &str = "Say what this page is called, and where it leads.";

/// Requests a page, reads and publishes it. With code, that is one step; the answer of a model is a step of its own.
async fn visit(
    agent: &ProgramContext,
    reading: &Reading<impl Analyst>,
    site: &Site,
    out: &Publisher,
    path: &str,
) -> Result<Page, Failure> {
    match reading {
        Reading::Code(analyst) => {
            let look = || async {
                let page: Page = answer(analyst.complete(READ, &fetch(site, path).await?).await?)?;
                publish(out, "page_discovered", serde_json::to_value(&page).map_err(failed)?).await?;
                Ok(page)
            };
            Ok(agent.step(format!("page {path}"), look).await?)
        }
        Reading::Model(model) => {
            let found = agent.step(format!("fetch {path}"), || fetch(site, path)).await?;
            let PageWords { title, links } = question().ask(agent, model, path, &found).await?;
            let status = u16::try_from(found["status"].as_u64().unwrap_or_default()).map_err(failed)?;
            let page = Page { path: path.to_owned(), status, title, links };
            let data = serde_json::to_value(&page).map_err(failed)?;
            agent.step(format!("page {path}"), || publish(out, "page_discovered", data)).await?;
            Ok(page)
        }
    }
}

async fn fetch(site: &Site, path: &str) -> Result<Value, Failure> {
    let found = site.get(path).await?;
    Ok(json!({"path": path, "status": found.status, "text": found.text}))
}

/// What a model says of a page.
#[derive(Debug, Serialize, Deserialize)]
struct PageWords {
    title: String,
    links: Vec<String>,
}

/// Asks for title and links; both have to stand in the page.
fn question() -> Question<PageWords> {
    let text = json!({"type": "string", "maxLength": 200});
    Question {
        instruction: "Read this HTML page: give the text of its title element (empty if it has none), and the paths that its \
                      links lead to, as they stand in href.",
        schema: json!({"type": "object", "required": ["title", "links"], "additionalProperties": false,
                       "properties": {"title": text, "links": {"type": "array", "items": text, "maxItems": 50}}}),
        check: |page, PageWords { title, links }| {
            let text = page["text"].as_str().unwrap_or_default();
            let is_there = |word: &str, frame: &str| text.contains(&frame.replace("{}", word));
            if !title.is_empty() && !is_there(title, "<title>{}</title>") {
                return Err(format!("the title is not {title:?}"));
            }
            match links.iter().find(|link| !link.starts_with('/') || !is_there(link, "href=\"{}\"")) {
                Some(link) => Err(format!("the page has no link to {link:?} of its own site")),
                None => Ok(()),
            }
        },
    }
}

async fn publish(out: &Publisher, kind: &str, data: Value) -> Result<(), Failure> {
    out.publish_soon(kind, &data).await.map(drop).map_err(failed)
}

/// The agent that waits for the end of the pipeline and submits the last published event.
pub(crate) fn report(line: &PipelineSlot) -> Program {
    let line = line.clone();
    let wait = move |_: ProgramContext, _: Value| {
        let line = line.clone();
        async move { final_report(line.get()?).await }
    };
    let wait = Program::new("web.report", "1", wait).description("Hands in the final report.");
    wait.output(report_schema()).effect(Effect::Read)
}

async fn final_report(pipeline: &PipelineHandle) -> Result<Report, Failure> {
    match pipeline.ended().await.map_err(failed)? {
        PipelineEnd::Ended => {}
        PipelineEnd::Stuck { stage, reason } => return Err(failed(format!("{stage} is stuck: {reason}"))),
    }
    // The report is the last event.
    let last = pipeline.event(pipeline.row().head).map_err(failed)?;
    let last = last.filter(|event| event.kind.as_str() == "final_report");
    last.ok_or_else(|| failed("there is no final report"))?.read().map_err(failed)
}

fn restored<T: Default + for<'a> Deserialize<'a>>(kept: Option<Value>) -> T {
    kept.and_then(|kept| serde_json::from_value(kept).ok()).unwrap_or_default()
}

/// Derives the checks and flows of each page.
pub(crate) struct Behavior<A> {
    site: Site,
    analyst: Arc<A>,
    /// Titles by path.
    seen: BTreeMap<String, String>,
}

impl<A> Behavior<A> {
    pub(crate) fn with(site: &Site, analyst: &Arc<A>, kept: Option<Value>) -> Behavior<A> {
        Behavior { site: site.clone(), analyst: Arc::clone(analyst), seen: restored(kept) }
    }
}

impl<A: Analyst> Stage for Behavior<A> {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        if event.kind.as_str() == "sitemap_built" {
            let paths: Vec<String> = serde_json::from_value(event.value()["paths"].clone())?;
            let unseen =
                paths.into_iter().filter(|path| !path.starts_with("/api/") && !self.seen.contains_key(path));
            for path in unseen {
                out.publish("test_generated", &Check { path, status: 200, title: None })?;
            }
            return Ok(());
        }
        let mut page: Page = event.read()?;
        // Requests the page again, as a visitor rather than the crawler.
        let now = self.site.get(&page.path).await.map_err(failure)?.title();
        if !now.is_empty() {
            page.title = now;
        }
        let given = serde_json::to_value(&page)?;
        let wanted = "Say what is to be checked of this page, and how people go on from it.";
        let tests = self.analyst.complete(wanted, &given).await.and_then(answer::<Tests>).map_err(failure)?;
        tests.checks.iter().try_for_each(|check| out.publish("test_generated", check))?;
        tests.flows.iter().try_for_each(|flow| out.publish("flow_mapped", flow))?;
        self.seen.insert(page.path, page.title);
        Ok(out.keep(&self.seen)?)
    }
}

/// Sends several concurrent requests to each page.
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
                let answer = answer.map_err(failure)?;
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

/// Performs checks and inspects load results.
pub(crate) struct Observer {
    site: Site,
    seen: Observed,
}

impl Observer {
    pub(crate) fn with(site: &Site, kept: Option<Value>) -> Observer {
        Observer { site: site.clone(), seen: restored(kept) }
    }

    /// The problem behind an event, if any.
    async fn anomaly(&mut self, event: &PipelineEvent) -> Result<Option<String>, StageError> {
        let told = event.value();
        Ok(match event.kind.as_str() {
            "test_generated" => {
                self.seen.checks += 1;
                let answer = self.site.get(told["path"].as_str().unwrap_or("/")).await.map_err(failure)?;
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

/// Publishes the report once the input has ended.
pub(crate) struct Synthesis<A> {
    analyst: Arc<A>,
    told: ReportInput,
}

impl<A> Synthesis<A> {
    pub(crate) fn with(analyst: &Arc<A>, kept: Option<Value>) -> Synthesis<A> {
        Synthesis { analyst: Arc::clone(analyst), told: restored(kept) }
    }
}

impl<A: Analyst> Stage for Synthesis<A> {
    async fn handle(&mut self, event: Arc<PipelineEvent>, out: Outbox) -> Result<(), StageError> {
        let value = event.value();
        let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        match event.kind.as_str() {
            "test_generated" => drop(self.told.checks.insert(word("path"))),
            "load_result" => {
                *self.told.loads.entry(word("path")).or_default() += value["requests"].as_u64().unwrap_or(0);
            }
            "anomaly_detected" => drop(self.told.anomalies.insert((word("path"), word("what")))),
            _ => self.told.complete = Some(event.read()?),
        }
        Ok(out.keep(&self.told)?)
    }

    async fn ended(&mut self, out: Outbox) -> Result<(), StageError> {
        let given = serde_json::to_value(&self.told)?;
        let wanted = "Write the report of what was checked, loaded and found.";
        let report = self.analyst.complete(wanted, &given).await.and_then(answer::<Report>);
        Ok(out.publish("final_report", &report.map_err(failure)?)?)
    }
}
