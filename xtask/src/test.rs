//! `test`: the tiers, what each needs, and a table of what came of them.
//!
//! A tier is run to its end whatever fails in it, and a tier that cannot run says which command would let it. In CI a
//! tier that was skipped has failed: nobody reads a table that nobody prints.

mod need;
mod tally;
mod tier;

use std::{process::ExitCode, time::Duration, time::Instant};

use need::Installer;
use tally::Tally;
use tier::{Act, After, Chosen, Step, TIERS, Tier};

use crate::{
    command,
    failure::{Failure, Result},
    workspace::Workspace,
};

pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<ExitCode> {
    let wish = Wish::parse(words)?;
    let mut installer =
        if wish.install { Installer::Willing { apt_updated: false } } else { Installer::Unwilling };
    let reports: Vec<Report> =
        wish.tiers().into_iter().map(|tier| run_tier(workspace, tier, &mut installer)).collect();
    let skipping =
        if std::env::var("CI").is_ok_and(|ci| ci == "true") { Skipping::Fails } else { Skipping::IsFine };
    let total = total(&reports, skipping);
    print!("{}", table(&reports, skipping));
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was asked for.
#[derive(Debug, Default)]
struct Wish {
    install: bool,
    all: bool,
    named: Vec<&'static Tier>,
}

impl Wish {
    fn parse(words: &[String]) -> Result<Self> {
        let mut wish = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--install" => wish.install = true,
                "--all" => wish.all = true,
                "--tier" => {
                    let name = words.next().ok_or_else(|| Failure::usage("--tier wants a name"))?;
                    wish.named.push(tier::named(name)?);
                }
                other => {
                    let known = "--install, --tier NAME and --all";
                    return Err(Failure::usage(format!("test takes {known}, not `{other}`")));
                }
            }
        }
        Ok(wish)
    }

    /// In the table's order, each once.
    fn tiers(&self) -> Vec<&'static Tier> {
        let wanted = |tier: &&Tier| {
            if self.all || !self.named.is_empty() {
                self.all || self.named.iter().any(|named| named.name == tier.name)
            } else {
                tier.chosen == Chosen::Always
            }
        };
        TIERS.iter().filter(wanted).collect()
    }
}

/// What came of a tier.
#[derive(Debug)]
struct Report {
    tier: &'static str,
    came_of_it: CameOfIt,
    took: Duration,
}

#[derive(Debug)]
enum CameOfIt {
    /// It ran; `red` names the steps that failed.
    Ran { tally: Tally, red: Vec<String> },
    /// It could not run, and why.
    Skipped(String),
}

/// What a tier that was skipped means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skipping {
    IsFine,
    Fails,
}

fn run_tier(workspace: &Workspace, tier: &'static Tier, installer: &mut Installer) -> Report {
    let start = Instant::now();
    println!("== {}: {}", tier.name, tier.what);
    let lacks: Vec<String> = tier.needs.iter().filter_map(|need| installer.provide(need).err()).collect();
    let came_of_it = if lacks.is_empty() {
        let (tally, red) = run_steps(workspace, (tier.steps)(workspace));
        CameOfIt::Ran { tally, red }
    } else {
        println!("skipped: {}", lacks.join("; "));
        CameOfIt::Skipped(lacks.join("; "))
    };
    Report { tier: tier.name, came_of_it, took: start.elapsed() }
}

fn run_steps(workspace: &Workspace, steps: Vec<Step>) -> (Tally, Vec<String>) {
    let mut total = Tally::default();
    let mut red = Vec::new();
    let mut given_up = false;
    for step in steps {
        if given_up {
            println!("-- {}: not run, what it needs has failed", step.name);
            total += Tally { passed: 0, failed: 1 };
            red.push(step.name);
            continue;
        }
        println!("-- {}", step.name);
        let start = Instant::now();
        let (tally, result) = run_step(workspace, step.act);
        if let Err(failure) = &result {
            println!("FAILED {}: {failure}", step.name);
            given_up = step.after == After::OthersNeedIt;
        }
        println!("-- {}: {tally}, {:.1} s", step.name, start.elapsed().as_secs_f64());
        if tally.failed > 0 {
            red.push(step.name);
        }
        total += tally;
    }
    (total, red)
}

/// A step that prints no libtest verdicts counts as one test.
fn run_step(workspace: &Workspace, act: Act) -> (Tally, Result<()>) {
    let mut tally = Tally::default();
    let result = match act {
        Act::Run(mut command) => command::each_line(&mut command, |line| tally.read(line)),
        Act::Within(task) => task(workspace),
    };
    match &result {
        Ok(()) if tally == Tally::default() => tally.passed = 1,
        Err(_) if tally.failed == 0 => tally.failed = 1,
        _ => {}
    }
    (tally, result)
}

fn total(reports: &[Report], skipping: Skipping) -> Tally {
    let mut total = Tally::default();
    for report in reports {
        match &report.came_of_it {
            CameOfIt::Ran { tally, .. } => total += *tally,
            CameOfIt::Skipped(_) if skipping == Skipping::Fails => total.failed += 1,
            CameOfIt::Skipped(_) => {}
        }
    }
    total
}

fn table(reports: &[Report], skipping: Skipping) -> String {
    let mut text =
        format!("\n{:12} {:8} {:>7} {:>7} {:>9}  why\n", "tier", "result", "passed", "failed", "time");
    for Report { tier, came_of_it, took } in reports {
        let (result, tally, why) = match came_of_it {
            CameOfIt::Ran { tally, red } if red.is_empty() => ("passed", *tally, String::new()),
            CameOfIt::Ran { tally, red } => ("FAILED", *tally, red.join(", ")),
            CameOfIt::Skipped(why) if skipping == Skipping::Fails => {
                ("SKIPPED", Tally::default(), format!("{why} (in CI a skipped tier fails)"))
            }
            CameOfIt::Skipped(why) => ("skipped", Tally::default(), why.clone()),
        };
        let Tally { passed, failed } = tally;
        let seconds = took.as_secs_f64();
        let row = format!("{tier:12} {result:8} {passed:>7} {failed:>7} {seconds:>7.1} s  {why}");
        text += row.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(words: &[&str]) -> Result<Vec<&'static str>> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Ok(Wish::parse(&words)?.tiers().iter().map(|tier| tier.name).collect())
    }

    #[test]
    fn tiers_that_need_the_outside_run_by_name_only() {
        assert_eq!(wish(&[]).unwrap(), ["fast", "real", "host"]);
        assert_eq!(wish(&["--install", "--tier", "advisories"]).unwrap(), ["advisories"]);
        assert_eq!(wish(&["--tier", "real", "--tier", "fast"]).unwrap(), ["fast", "real"]);
        assert_eq!(wish(&["--all"]).unwrap().len(), TIERS.len());
    }

    #[test]
    fn a_tier_that_is_not_there_is_answered_with_those_that_are() {
        let failure = wish(&["--tier", "quick"]).unwrap_err().to_string();
        assert!(failure.contains("quick") && failure.contains("fast, real"), "{failure}");
        assert!(wish(&["--tier"]).is_err());
        assert!(wish(&["--instal"]).is_err());
    }

    fn skipped() -> Vec<Report> {
        let ran = CameOfIt::Ran { tally: Tally { passed: 7, failed: 0 }, red: Vec::new() };
        let skipped = CameOfIt::Skipped("go is missing".to_owned());
        vec![
            Report { tier: "fast", came_of_it: ran, took: Duration::from_millis(1500) },
            Report { tier: "real", came_of_it: skipped, took: Duration::ZERO },
        ]
    }

    #[test]
    fn a_skipped_tier_fails_in_ci_only() {
        assert_eq!(total(&skipped(), Skipping::IsFine), Tally { passed: 7, failed: 0 });
        assert_eq!(total(&skipped(), Skipping::Fails), Tally { passed: 7, failed: 1 });
    }

    #[test]
    fn the_table_says_what_ran_and_why_not() {
        let text = table(&skipped(), Skipping::IsFine);
        let expected = "\n\
            tier         result    passed  failed      time  why\n\
            fast         passed         7       0     1.5 s\n\
            real         skipped        0       0     0.0 s  go is missing\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_step_without_verdicts_counts_as_one_and_its_dependants_fail_with_it() {
        let here = Workspace { root: ".".into(), target: "target".into(), packages: Vec::new() };
        let broken = || Step {
            name: "broken".to_owned(),
            after: After::OthersNeedIt,
            act: Act::Within(|_| Err(Failure::new("as meant"))),
        };
        let fine = || Step { name: "fine".to_owned(), after: After::GoOn, act: Act::Within(|_| Ok(())) };
        let (tally, red) = run_steps(&here, vec![fine(), broken(), fine()]);
        assert_eq!(tally, Tally { passed: 1, failed: 2 });
        assert_eq!(red, ["broken", "fine"]);
    }
}
