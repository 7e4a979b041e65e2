//! Requests that wait for the actor of their run.

use std::collections::BTreeMap;

use ostler_kernel::id::RunId;

use crate::messages::agent::{AskReply, Request};

/// Requests by run, in order.
#[derive(Default)]
pub(crate) struct PendingRequests {
    by_run: BTreeMap<RunId, Vec<(Request, AskReply)>>,
    count: usize,
}

impl PendingRequests {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn push(&mut self, run: RunId, request: Request, reply: AskReply) {
        self.by_run.entry(run).or_default().push((request, reply));
        self.count += 1;
    }

    pub(crate) fn take(&mut self, run: RunId) -> Vec<(Request, AskReply)> {
        let taken = self.by_run.remove(&run).unwrap_or_default();
        self.count -= taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use ostler_kernel::run::Operation;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn each_run_gets_its_own_in_the_order_they_came() {
        let run = |number| RunId(Uuid::from_u128(number));
        let mut waiting = PendingRequests::default();
        for (number, node) in [(1, "a"), (2, "b"), (1, "c")] {
            let (reply, _) = ractor::concurrency::oneshot();
            let request = Request::Operate(Operation::Cancel(node.into()));
            waiting.push(run(number), request, reply.into());
        }
        assert_eq!(waiting.len(), 3);
        let mut taken = |number| {
            let taken = waiting.take(run(number)).into_iter().map(|(request, _)| match request {
                Request::Operate(Operation::Cancel(node)) => node.to_string(),
                _ => unreachable!("none other was pushed"),
            });
            (taken.collect::<Vec<_>>().join(" "), waiting.len())
        };
        assert_eq!(taken(3), (String::new(), 3));
        assert_eq!(taken(1), ("a c".to_owned(), 1));
        assert_eq!(taken(1), (String::new(), 1));
        assert_eq!(taken(2), ("b".to_owned(), 0));
    }
}
