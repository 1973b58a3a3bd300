//! A scenario file: blocks of commands, each with what the engine is expected to say.

use gpu_scheduler_engine::Policy;

use crate::ScenarioError;
use crate::command::{self, Command};
use crate::node_syntax::Child;
use crate::run::Transcript;
use crate::words::{Args, split};

/// Between commands and the output that they are expected to have.
const RULE: &str = "----";

/// Commands that happen in one instant, and what is expected of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub(crate) commands: Vec<(usize, Command)>,
    /// The expected output.
    pub expected: Vec<String>,
    /// Line of the rule above the expected output, from 1.
    pub line: usize,
}

/// A scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The file's name, for messages.
    pub file: String,
    /// The policy that decides.
    pub policy: Policy,
    /// The blocks.
    pub blocks: Vec<Block>,
    text: String,
}

/// A command whose indented lines may still come.
struct Open {
    line: usize,
    verb: String,
    args: Args,
    children: Vec<Child>,
}

impl Scenario {
    /// Reads a scenario; `file` is its name for messages.
    ///
    /// # Errors
    /// At the first line that cannot be read, with its number and what to write.
    pub fn parse(file: &str, text: &str) -> Result<Self, ScenarioError> {
        let error = |(line, what): (usize, String)| ScenarioError { file: file.to_owned(), line, what };
        let (policy, blocks) = Reader::default().read(text).map_err(error)?;
        Ok(Self { file: file.to_owned(), policy, blocks, text: text.to_owned() })
    }

    /// The text with the outputs of `transcript` in place of the expected ones.
    pub fn with_outputs(&self, transcript: &Transcript) -> String {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut text = String::new();
        let mut from = 0;
        let mut push = |line: &str| {
            text.push_str(line);
            text.push('\n');
        };
        for (block, output) in self.blocks.iter().zip(&transcript.outputs) {
            lines[from..block.line].iter().for_each(|line| push(line));
            output.iter().for_each(|line| push(line));
            from = block.line + block.expected.len();
        }
        lines[from..].iter().for_each(|line| push(line));
        text
    }
}

#[derive(Default)]
struct Reader {
    blocks: Vec<Block>,
    commands: Vec<(usize, Command)>,
    open: Option<Open>,
    policy: Option<Policy>,
    commented: bool,
}

impl Reader {
    fn read(mut self, text: &str) -> Result<(Policy, Vec<Block>), (usize, String)> {
        let mut lines = (1..).zip(text.lines());
        let mut last = 1;
        while let Some((number, line)) = lines.next() {
            last = number;
            if line.trim_end() == RULE {
                self.close()?;
                let expected: Vec<String> =
                    lines.by_ref().map(|(_, l)| l).take_while(|l| !l.trim().is_empty()).map(str::to_owned).collect();
                let commands = std::mem::take(&mut self.commands);
                self.blocks.push(Block { commands, expected, line: number });
            } else {
                self.line(number, line)?;
            }
        }
        self.close()?;
        if !self.commands.is_empty() {
            return Err((last, format!("the last commands have no expected output; end the block with {RULE}")));
        }
        if !self.commented {
            return Err((1, "begin with a comment (#) that says what must hold, and what went wrong for whom".into()));
        }
        Ok((self.policy.unwrap_or(Policy::Fgd), self.blocks))
    }

    fn line(&mut self, number: usize, line: &str) -> Result<(), (usize, String)> {
        let here = |what: String| (number, what);
        self.commented |= line.starts_with('#');
        let mut words = split(line).map_err(here)?;
        if words.is_empty() {
            return Ok(());
        }
        let verb = words.remove(0);
        let args = Args::new(words);
        if line.starts_with([' ', '\t']) {
            let open = self.open.as_mut().ok_or_else(|| here("an indented line needs a command above it".into()))?;
            open.children.push((number, verb, args));
            return Ok(());
        }
        self.close()?;
        if verb == "policy" {
            return self.set_policy(args).map_err(here);
        }
        self.open = Some(Open { line: number, verb, args, children: Vec::new() });
        Ok(())
    }

    fn set_policy(&mut self, mut args: Args) -> Result<(), String> {
        if self.policy.is_some() || !self.commands.is_empty() || !self.blocks.is_empty() {
            return Err("the policy is named once, before every other command".into());
        }
        let policy: Policy = args.next("the policy's name")?.parse().map_err(|e| format!("{e}"))?;
        let seed = args.parse("seed", "a number")?.unwrap_or(0);
        self.policy = Some(policy.seeded(seed));
        args.finish("seed=")
    }

    fn close(&mut self) -> Result<(), (usize, String)> {
        if let Some(open) = self.open.take() {
            self.commands.push((open.line, command::parse(open.line, &open.verb, open.args, open.children)?));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunOptions, run};

    fn error(text: &str) -> String {
        Scenario::parse("x.txt", text).unwrap_err().to_string()
    }

    #[test]
    fn a_mistake_is_named_with_its_line_and_what_to_write() {
        for (text, line, part) in [
            ("# c\nnode n1 gpu=2\n----\n", 2, "known are: cpu="),
            ("# c\n\nfly a\n----\n", 3, "known are node"),
            ("# c\nnode n1 gpus=1\n  card 0 colour=red\n----\n", 3, "colour=red"),
            ("# c\npod a gpus=1\n  container b\n----\n", 2, "container lines"),
            ("# c\nadvance 5\n----\n", 2, "write 250ms"),
            ("# c\npod a\n", 2, "end the block with ----"),
            ("pod a\n----\n", 1, "begin with a comment"),
            ("# c\npod a\npolicy fgd\n----\n", 3, "before every other command"),
            ("# c\nupdate a cpu=1\n----\n", 2, "cpu=1"),
        ] {
            let error = error(text);
            assert!(error.starts_with(&format!("x.txt:{line}: ")) && error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_makes_no_sense_where_it_stands_is_named_with_its_line() {
        let scenario = Scenario::parse("x.txt", "# c\n\nconfirm a\n----\n").unwrap();
        let error = run(&scenario, RunOptions::default()).unwrap_err();
        assert_eq!((error.line, error.what.contains("no bind of default/a is open")), (3, true));
        let options = RunOptions { skips_nonsense: true, ..RunOptions::default() };
        assert!(run(&scenario, options).is_ok());
    }

    #[test]
    fn outputs_are_put_where_they_belong() {
        let text = "# c\n\npod a\n----\nwrong\nlines\n\nnode n1\n----\n\n# end\n";
        let scenario = Scenario::parse("x.txt", text).unwrap();
        let transcript = run(&scenario, RunOptions::default()).unwrap();
        let expected = "# c\n\npod a\n----\npending default/a: no nodes available to schedule pods\n\nnode n1\n----\nbind default/a -> n1\n\n# end\n";
        assert_eq!(scenario.with_outputs(&transcript), expected);
    }
}
