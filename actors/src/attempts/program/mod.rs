//! Agents written as code. A program is a tool that plans call: gated, scheduled, charged, retried and journaled like
//! any tool. Beyond a tool, a program remembers its finished steps.

mod call_log;
mod compose;
mod context;
mod model;
mod routine;
mod step;

pub use compose::Mapping;
pub use context::ProgramContext;
pub use model::{Chat, ProgramModel};
pub use step::{Step, StepError};

use std::fmt;
use std::sync::Arc;

use ostler_kernel::event::Failure;
use ostler_kernel::gate::{CallClass, Permit};
use ostler_kernel::plan::{Effect, Idempotency};
use ostler_kernel::port::{BoxFuture, CallContext, Tool, ToolResult, ToolSpec};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use compose::{Stage, Whole};
use routine::{Routine, Shape};

use crate::base::attempt_end::structural;

/// An agent written as code, or several of them, one after the other.
///
/// # Examples
///
/// ```
/// use ostler_actors::{Program, ProgramContext, Step};
/// use ostler_kernel::plan::{Effect, Idempotency};
/// use serde_json::{Value, json};
///
/// let order = Program::new("order", "1", async |agent: ProgramContext, input: Value| {
///     let price: u64 = agent.step("price", async || Ok(40 + 2)).await?;
///     let pay = Step::new("pay").input(&price).effect(Idempotency::Keyed);
///     let receipt: String = agent.step(pay, async || Ok(format!("paid {price}"))).await?;
///     Ok(json!({"receipt": receipt, "for": input["item"]}))
/// })
/// .input(json!({"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}))
/// .effect(Effect::External);
/// assert_eq!(order.name(), "order");
/// ```
#[derive(Clone)]
pub struct Program {
    stages: Vec<Stage>,
    spec: ToolSpec,
    /// Name of the whole program, independent of its stages.
    named: Option<String>,
    described: Option<String>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} {})", self.spec.name, self.spec.version)
    }
}

impl Program {
    /// A program with the name and version. Change the version when steps do something else or come in another order.
    /// By default a program takes any object, returns anything and does not change the world.
    ///
    /// `code` runs once for each attempt, with its context and input. Each attempt repeats all work outside of steps.
    pub fn new<I, O, F, R>(name: impl Into<String>, version: impl Into<String>, code: F) -> Program
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(ProgramContext, I) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let call = move |agent: ProgramContext, input: Value| -> BoxFuture<'static, ToolResult> {
            let input = serde_json::from_value::<I>(input);
            let code = code.clone();
            Box::pin(async move {
                let input = input.map_err(|error| structural(format!("its input: {error}")))?;
                let output = code(agent, input).await?;
                serde_json::to_value(output).map_err(|error| structural(format!("its output: {error}")))
            })
        };
        Program::of(vec![Stage::Routine(Routine {
            name: name.into(),
            version: version.into(),
            description: "An agent written as code.".to_owned(),
            code: Arc::new(call),
            input: Shape::new(json!({"type": "object", "additionalProperties": true})),
            output: Shape::new(json!({})),
            class: CallClass { impact: 0, effect: Effect::None, idem: Idempotency::Natural },
        })])
    }

    fn of(stages: Vec<Stage>) -> Program {
        let spec = compose::spec(&stages);
        Program { stages, spec, named: None, described: None }
    }

    /// Applies a declaration to the only stage, or to a composed program as a whole.
    fn with(mut self, change: impl FnOnce(&mut Routine), whole: impl FnOnce(&mut Vec<Stage>)) -> Program {
        match &mut self.stages[..] {
            [Stage::Routine(routine)] => change(routine),
            _ => whole(&mut self.stages),
        }
        let (named, described) = (self.named.take(), self.described.take());
        let mut program = Program::of(self.stages);
        if let Some(name) = named {
            program = program.named(name);
        }
        program.describe(described);
        program
    }

    fn describe(&mut self, described: Option<String>) {
        if let Some(description) = &described {
            self.spec.description.clone_from(description);
        }
        self.described = described;
    }

    /// Sets one line for people and models.
    pub fn description(mut self, description: impl Into<String>) -> Program {
        let description = description.into();
        if let [Stage::Routine(routine)] = &mut self.stages[..] {
            routine.description.clone_from(&description);
        }
        self.describe(Some(description));
        self
    }

    /// Sets the JSON Schema of the input, an object. The first stage of a composed program keeps its own schema too.
    pub fn input(self, schema: Value) -> Program {
        let shape = Shape::new(schema);
        let whole = shape.clone();
        self.with(
            |routine| routine.input = shape,
            |stages| stages.insert(0, Stage::Whole(Whole::Input(whole))),
        )
    }

    /// Sets the JSON Schema of the output. The last stage of a composed program keeps its own schema too.
    pub fn output(self, schema: Value) -> Program {
        let shape = Shape::new(schema);
        let whole = shape.clone();
        self.with(|routine| routine.output = shape, |stages| stages.push(Stage::Whole(Whole::Output(whole))))
    }

    /// Sets the effect of all steps together; `write` and `external` have impact 1. A composed program has at least the
    /// effects of its stages.
    pub fn effect(self, effect: Effect) -> Program {
        let impact = u8::from(effect.acts());
        let class = CallClass { impact, effect, idem: Idempotency::Natural };
        self.with(
            |routine| {
                routine.class.effect = effect;
                routine.class.impact = routine.class.impact.max(impact);
            },
            |stages| stages.push(Stage::Whole(Whole::Class(class))),
        )
    }

    /// Sets the impact: 0 observes, 1 operates, 2 controls. A composed program has at least that of its stages.
    pub fn impact(self, impact: u8) -> Program {
        let class = CallClass { impact: impact.min(2), effect: Effect::None, idem: Idempotency::Natural };
        self.with(
            |routine| routine.class.impact = class.impact,
            |stages| stages.push(Stage::Whole(Whole::Class(class))),
        )
    }

    /// Sets another name for plans. Steps keep their names.
    pub fn named(mut self, name: impl Into<String>) -> Program {
        let name = name.into();
        self.spec.name.clone_from(&name);
        self.named = Some(name);
        self
    }

    /// The name for plans.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The versions of all stages.
    pub fn version(&self) -> &str {
        &self.spec.version
    }

    async fn run(&self, permit: Permit, context: CallContext) -> ToolResult {
        let class = permit.class();
        let agent = ProgramContext::new(&context, class, permit.idempotency_key());
        let input = Value::Object(permit.into_params());
        compose::run(&self.stages, &agent, input).await
    }
}

impl Program {
    /// The identity program: returns the input.
    pub fn identity() -> Program {
        Program::of(Vec::new())
    }

    /// The program, then `next` on the mapped output. The value between them must fit the input schema of `next`, and
    /// the result of each stage is recorded: a later attempt continues after it.
    ///
    /// `a.then(f, b).then(g, c)` equals `a.then(f, b.then(g, c))`, and [`Program::identity`] with [`Mapping::none`]
    /// changes nothing.
    pub fn then(self, map: Mapping, next: Program) -> Program {
        let mut stages = self.stages;
        stages.extend(map.map.is_some().then_some(Stage::Mapping(map)));
        stages.extend(next.stages);
        Program::of(stages)
    }
}

impl Tool for Program {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn class(&self, _: &Map<String, Value>) -> CallClass {
        compose::class(&self.stages)
    }

    fn call(&self, permit: Permit, context: CallContext) -> BoxFuture<'_, ToolResult> {
        Box::pin(self.run(permit, context))
    }
}
