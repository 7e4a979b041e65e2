//! Rate limits over time: passing time, parking, corrections between dispatch and settlement, and waits.

use crate::bucket::{BucketLevels, Taking};
use crate::client::ClientHandle;
use crate::error::UnknownClient;
use crate::event::Event;
use crate::job::{JobHandle, ModelHandle};
use crate::run_queue::RunQueue;

impl<P> RunQueue<P> {
    /// Lets `ms` milliseconds pass: fills the token buckets and shortens parkings.
    pub fn advance(&mut self, ms: u64, events: &mut Vec<Event>) {
        self.buckets.advance(ms, &mut self.changed);
        self.refresh(events);
    }

    /// Milliseconds until time alone may admit another job; `None`: never. The caller lets this time pass with
    /// [`RunQueue::advance`], or asks again after its next operation.
    pub fn next_change_ms(&self) -> Option<u64> {
        self.buckets.next_change_ms()
    }

    /// Admits no job of a model for `ms` milliseconds, at most [`PARK_MS_MAX`](crate::PARK_MS_MAX). A longer parking that is in
    /// force stays. Running jobs go on.
    ///
    /// ```
    /// use ostler_scheduler::{Config, ModelLimits, NewClient, NewJob, RunQueue};
    ///
    /// let models = [("m".to_owned(), ModelLimits::default())].into();
    /// let mut queue = RunQueue::new(Config { models, ..Config::default() })?;
    /// let mut events = Vec::new();
    /// let client = queue.add_client(NewClient::default())?;
    /// let agent = queue.add_agent(client, 100)?;
    /// let model = queue.model("m").expect("the settings name it");
    /// queue.park(model, 2_000, &mut events);
    /// let job = queue.enqueue(agent, NewJob { model: Some(model), ..NewJob::flat(1) }, (), &mut events)?;
    /// assert_eq!((queue.dispatch(1, &mut events), queue.wait_ms(job)), (0, Some(2_000)));
    /// queue.advance(2_000, &mut events);
    /// assert_eq!(queue.dispatch(1, &mut events), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn park(&mut self, model: ModelHandle, ms: u64, events: &mut Vec<Event>) {
        if self.buckets.has(model) {
            self.buckets.park(model, ms, &mut self.changed);
            self.refresh(events);
        }
    }

    /// Milliseconds for which a model is parked; 0: it is not.
    pub fn parked_ms(&self, model: ModelHandle) -> u64 {
        if self.buckets.has(model) { self.buckets.parked_ms(model) } else { 0 }
    }

    /// Takes tokens and requests of a model from its buckets and the client's, or returns them if negative, outside of any job: a
    /// call that no job made, or the difference of an estimate to the count.
    ///
    /// # Errors
    ///
    /// The client is unknown.
    pub fn take_directly(
        &mut self,
        client: ClientHandle,
        model: ModelHandle,
        tokens: i64,
        requests: i64,
        events: &mut Vec<Event>,
    ) -> Result<(), UnknownClient> {
        let client = self.find_client(client)?.tokens;
        if self.buckets.has(model) {
            self.buckets.take(Taking { model, client, tokens, requests }, &mut self.changed);
            self.refresh(events);
        }
        Ok(())
    }

    /// Takes what one call of about `tokens` tokens needs, outside of any job, if the limits admit the call now and no job waits for
    /// them. Returns whether it was taken.
    ///
    /// # Errors
    ///
    /// The client is unknown.
    pub fn take_if_free(
        &mut self,
        client: ClientHandle,
        model: ModelHandle,
        tokens: u64,
        events: &mut Vec<Event>,
    ) -> Result<bool, UnknownClient> {
        let bucket = self.find_client(client)?.tokens;
        if !self.buckets.has(model) {
            return Ok(true);
        }
        let is_free = self.buckets.has_room(self.buckets.demand_of(model, bucket, tokens));
        if is_free {
            self.take_directly(client, model, i64::try_from(tokens).unwrap_or(i64::MAX), 1, events)?;
        }
        Ok(is_free)
    }

    /// Milliseconds until the limits of its model and client admit a queued job, if nothing else is taken: `Some(0)` if they do now,
    /// `Some(u64::MAX)` if a rate of 0 never does. `None` for a job that is not queued or has no model.
    pub fn wait_ms(&self, job: JobHandle) -> Option<u64> {
        if !self.is_queued(job) {
            return None;
        }
        let attributes = self.jobs.attributes(job.at)?;
        let client = self.clients[self.agents[job.agent].client].tokens;
        let demand = self.buckets.demand(attributes, client)?;
        Some(self.buckets.wait_ms(demand).unwrap_or(u64::MAX))
    }

    /// Levels of the buckets of models, for [`RunQueue::restore_levels`] of a later queue.
    pub fn levels(&self) -> BucketLevels {
        self.buckets.levels()
    }

    /// Takes the levels of an earlier queue with the same models over, so that a restart admits no second burst.
    pub fn restore_levels(&mut self, levels: &BucketLevels, events: &mut Vec<Event>) {
        self.buckets.restore(levels, &mut self.changed);
        self.refresh(events);
    }
}
