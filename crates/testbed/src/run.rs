//! Plays a scenario.

use crate::command::Command;
use crate::world::World;
use crate::{Scenario, ScenarioError, invariants, restart, show};

/// How a scenario is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// Steps that the engine may spend in one poll; `None` is its default. The outcome may not depend on it.
    pub steps_per_poll: Option<u32>,
    /// Skips commands that make no sense where they stand, for histories that nobody wrote by hand.
    pub skips_nonsense: bool,
}

/// What the engine said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transcript {
    /// Output lines, by block.
    pub outputs: Vec<Vec<String>>,
}

/// Plays `scenario`. The commands of a block are brought in one instant, before the engine decides
/// anything; `settle`, `advance`, `show` and `explain` let it come to rest first. After each block the
/// invariants are checked.
///
/// # Errors
/// If a command makes no sense where it stands, the engine does not come to rest, or an invariant is broken.
pub fn run(scenario: &Scenario, options: RunOptions) -> Result<Transcript, ScenarioError> {
    let mut world = World::new(scenario.policy, options.steps_per_poll);
    world.skips_nonsense = options.skips_nonsense;
    let mut transcript = Transcript::default();
    let error = |line, what| ScenarioError { file: scenario.file.clone(), line, what };
    for block in &scenario.blocks {
        for (line, command) in &block.commands {
            match perform(&mut world, command) {
                Err(what) if world.blames(&what) => {
                    return Err(error(*line, what));
                }
                _ => {}
            }
        }
        let said = |world: &World| format!("; said so far in this block:\n  {}", world.output.join("\n  "));
        world.settle().map_err(|what| error(block.line, what + &said(&world)))?;
        let broken = invariants::broken(&world).or_else(|| restart::difference(&world));
        if let Some(what) = broken {
            return Err(error(block.line, format!("broken invariant: {what}{}", said(&world))));
        }
        transcript.outputs.push(std::mem::take(&mut world.output));
    }
    Ok(transcript)
}

/// Carries out one command.
pub(crate) fn perform(world: &mut World, command: &Command) -> Result<(), String> {
    match command {
        Command::Node(node) => world.apply_node(node),
        Command::DeleteNode(name) => return world.delete_node(name),
        Command::Report(report) => return world.report(report),
        Command::Unreport(node) => return world.unreport(node),
        Command::Pod(pod) => return world.submit(pod),
        Command::Update(pod, changes) => return world.update(pod, changes),
        Command::Bound(pod, node, record) => return world.bound(pod, node, record.as_deref()),
        Command::Echo(pod) => return world.echo(pod),
        Command::Terminate(pod) => return world.terminate(pod),
        Command::Delete(pod) => return world.delete(pod),
        Command::Finish(pod) => return world.finish(pod),
        Command::HoldBinds => world.hold_binds(),
        Command::ReleaseBinds => return world.release_binds(),
        Command::Confirm(pod) => return world.answer(pod, None),
        Command::FailBind(pod, why) => return world.answer(pod, Some(why)),
        Command::Refuse(pod, why) => world.refuse(pod, why),
        Command::Accept(pod) => return world.accept(pod),
        Command::OnBind(pod, then) => world.on_bind(pod, then),
        Command::Around(event) => world.tell((**event).clone()),
        Command::Advance(by) => return world.advance(*by),
        Command::Settle => return world.settle(),
        Command::Show(node) => {
            world.settle()?;
            let lines = show::cluster(world, node.as_deref())?;
            world.output.extend(lines);
        }
        Command::Explain(pod) => {
            world.settle()?;
            let lines = show::explanation(world, pod)?;
            world.output.extend(lines);
        }
    }
    Ok(())
}
