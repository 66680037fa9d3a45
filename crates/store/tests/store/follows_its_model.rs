//! The store does, in any order of things done to it, what a plain model in memory does.
//!
//! The model knows nothing of files: a map from names to whether they are intact, and which one is current.
//! Among the things done are those that the store itself never does: damage, a writer killed in the middle of
//! staging or switching, another process at the lock.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write as _,
    os::unix::fs::symlink,
};

use myriarch_store::{Current, LockError, SlotName, StoreError, Writer};
use myriarch_verify::Digest;
use proptest::{prelude::*, sample::select};

use crate::kit::{BINARY, manifest, names, overwrite, store, try_publish};

/// Few versions and few contents, so that they meet often.
const VERSIONS: [&str; 3] = ["1.0.0", "1.1.0-rc.1", "v2"];
const CONTENTS: [&[u8]; 2] = [b"one program", b"another program"];

#[derive(Debug, Clone, Copy)]
struct Build {
    version: &'static str,
    content: &'static [u8],
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Bytes,
    NoProgram,
    NoManifest,
    Empty,
}

#[derive(Debug, Clone)]
enum Step {
    Publish(Build),
    Point(Build),
    Clear,
    Prune(Vec<Build>),
    Damage(Build, Damage),
    DieStaging(Build),
    DieSwitching(Build),
    Sweep,
    SecondWriter,
    Relock,
}

/// What there should be.
#[derive(Debug, Default)]
struct Model {
    /// Each slot's content while it is intact.
    slots: BTreeMap<SlotName, Option<&'static [u8]>>,
    current: Option<SlotName>,
    left_over: usize,
    link_left_over: bool,
}

impl Build {
    fn name(self) -> SlotName {
        SlotName::new(self.version, &Digest::of(self.content)).unwrap()
    }
}

fn builds() -> impl Strategy<Value = Build> {
    (select(&VERSIONS), select(&CONTENTS)).prop_map(|(version, content)| Build { version, content })
}

fn steps() -> impl Strategy<Value = Step> {
    let damage = select(&[Damage::Bytes, Damage::NoProgram, Damage::NoManifest, Damage::Empty]);
    prop_oneof![
        6 => builds().prop_map(Step::Publish),
        4 => builds().prop_map(Step::Point),
        1 => Just(Step::Clear),
        2 => prop::collection::vec(builds(), 0..4).prop_map(Step::Prune),
        3 => (builds(), damage).prop_map(|(build, damage)| Step::Damage(build, damage)),
        1 => builds().prop_map(Step::DieStaging),
        1 => builds().prop_map(Step::DieSwitching),
        1 => Just(Step::Sweep),
        1 => Just(Step::SecondWriter),
        1 => Just(Step::Relock),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn the_store_follows_its_model(steps in prop::collection::vec(steps(), 1..40)) {
        let (_dir, store) = store();
        let mut writer = store.lock("the model").unwrap();
        let mut model = Model::default();
        for step in steps {
            writer = take(writer, &mut model, step);
            compare(&writer, &model);
        }
    }
}

/// Does one step to the store and to the model, and compares what they answer.
fn take(writer: Writer, model: &mut Model, step: Step) -> Writer {
    match step {
        Step::Publish(build) => publish(&writer, model, build),
        Step::Point(build) => point(&writer, model, build),
        Step::Clear => {
            writer.clear().unwrap();
            model.current = None;
        }
        Step::Prune(keep) => {
            let keep: BTreeSet<_> = keep.into_iter().map(Build::name).collect();
            let needed = |name: &SlotName| keep.contains(name) || model.current.as_ref() == Some(name);
            let doomed: Vec<_> = model.slots.keys().filter(|name| !needed(name)).cloned().collect();
            assert_eq!(writer.prune(&keep).unwrap(), doomed);
            model.slots.retain(|name, _| !doomed.contains(name));
        }
        Step::Damage(build, damage) => {
            if let Some(content) = model.slots.get_mut(&build.name()) {
                inflict(&writer, build, damage);
                *content = None;
            }
        }
        Step::DieStaging(build) => {
            let mut staging = writer.staging(BINARY).unwrap();
            staging.write_all(build.content).unwrap();
            std::mem::forget(staging);
            model.left_over += 1;
        }
        Step::DieSwitching(build) => {
            let link = writer.root().join("current.next");
            let _ = fs::remove_file(&link);
            symlink(format!("versions/{}", build.name()), link).unwrap();
            model.link_left_over = true;
        }
        Step::Sweep => {
            assert_eq!(writer.sweep().unwrap(), model.left_over + usize::from(model.link_left_over));
            model.left_over = 0;
            model.link_left_over = false;
        }
        Step::SecondWriter => {
            let error = writer.lock("a second one").unwrap_err();
            assert!(matches!(error, LockError::Held { holder: Some(_), .. }), "{error}");
        }
        Step::Relock => {
            let store = (*writer).clone();
            drop(writer);
            return store.lock("the model again").unwrap();
        }
    }
    writer
}

fn publish(writer: &Writer, model: &mut Model, build: Build) {
    let name = build.name();
    let answer = try_publish(writer, build.version, build.content);
    let damaged = model.slots.get(&name).is_some_and(Option::is_none);
    if damaged && model.current.as_ref() == Some(&name) {
        assert!(matches!(answer, Err(StoreError::DamagedInUse { .. })), "{answer:?}");
        return;
    }
    let slot = answer.unwrap();
    assert_eq!(slot.manifest(), &manifest(build.version, Digest::of(build.content)));
    model.slots.insert(name, Some(build.content));
}

fn point(writer: &Writer, model: &mut Model, build: Build) {
    let name = build.name();
    match writer.slot(&name) {
        Ok(slot) => {
            writer.point(&slot).unwrap();
            model.current = Some(name);
            model.link_left_over = false;
        }
        Err(StoreError::Absent { .. }) => assert!(!model.slots.contains_key(&name)),
        Err(error) => assert_eq!(model.slots.get(&name), Some(&None), "{error}"),
    }
}

fn inflict(writer: &Writer, build: Build, damage: Damage) {
    let dir = writer.versions_dir().join(build.name().as_str());
    let program = dir.join("bin").join(BINARY);
    match damage {
        Damage::Bytes if program.exists() => overwrite(&program, b"rubbish"),
        Damage::Bytes => {}
        Damage::NoProgram => drop(fs::remove_file(program)),
        Damage::NoManifest => drop(fs::remove_file(dir.join("slot.json"))),
        Damage::Empty => {
            fs::remove_dir_all(&dir).unwrap();
            fs::create_dir(&dir).unwrap();
        }
    }
}

/// What is on disk and what the model says must be one, litter included.
fn compare(writer: &Writer, model: &Model) {
    let listed = writer.slots().unwrap();
    assert!(listed.iter().map(|(name, _)| name).eq(model.slots.keys()));
    for (name, slot) in listed {
        let intact = slot.is_ok_and(|slot| slot.check().is_ok());
        assert_eq!(intact, model.slots[&name].is_some(), "{name}");
        if let Some(content) = model.slots[&name] {
            let program = writer.versions_dir().join(name.as_str()).join("bin").join(BINARY);
            assert_eq!(fs::read(program).unwrap(), content);
        }
    }
    let current = model.current.clone().map_or(Current::Absent, Current::Slot);
    assert_eq!(writer.current().unwrap(), current);
    if let Some(content) = model.current.as_ref().and_then(|name| model.slots[name]) {
        assert_eq!(fs::read(writer.program(BINARY)).unwrap(), content);
    }
    let left_over = names(writer.root()).into_iter().filter(|name| name.starts_with("staging-")).count();
    assert_eq!(left_over, model.left_over);
    assert_eq!(writer.root().join("current.next").is_symlink(), model.link_left_over);
    assert_eq!(writer.holder().unwrap().unwrap().pid, std::process::id());
}
