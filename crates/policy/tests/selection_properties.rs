//! What holds for every selection, whatever is on offer, installed, pinned, asked for or in quarantine.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use myriarch_policy::{Bounds, Choice, Objection, Prerelease, Relation, Situation, Version, select};
use proptest::prelude::*;

/// Few enough numbers that versions meet, and every kind of oddity.
fn versions() -> impl Strategy<Value = Version> {
    let prerelease = prop::sample::select(&["", "", "", "-rc.1", "-rc.2", "-rc9", "-rc10"]);
    let build = prop::sample::select(&["", "", "", "+a", "+b"]);
    let semantic = (prop::sample::select(&["", "v"]), 0..3u8, 0..3u8, prerelease, build)
        .prop_map(|(v, major, minor, prerelease, build)| format!("{v}{major}.{minor}.0{prerelease}{build}"));
    let odd = prop::sample::select(&["dev", "nightly-1", "1.2", "1.0.0.1", "v", "2024.01.02"]);
    prop_oneof![6 => semantic, 1 => odd.prop_map(str::to_owned)].prop_map(|text| text.parse().unwrap())
}

#[derive(Debug, Clone)]
struct World {
    offers: Vec<Version>,
    bounds: Bounds,
    installed: Option<Version>,
    pin: Option<Version>,
    wanted: Option<Version>,
    quarantined: Vec<Version>,
}

impl World {
    fn select(&self) -> Result<Choice, Objection> {
        self.select_from(&self.offers)
    }

    fn select_from(&self, offers: &[Version]) -> Result<Choice, Objection> {
        let situation = Situation {
            installed: self.installed.as_ref(),
            pin: self.pin.as_ref(),
            wanted: self.wanted.as_ref(),
            quarantined: &self.quarantined,
        };
        select(offers, &self.bounds, &situation)
    }

    fn taken(&self) -> Option<(Version, Option<Relation>)> {
        match self.select() {
            Ok(Choice::Take { index, relation }) => Some((self.offers[index].clone(), relation)),
            _ => None,
        }
    }
}

fn worlds() -> impl Strategy<Value = World> {
    let some = || prop::option::weighted(0.7, versions());
    let rarely = || prop::option::weighted(0.3, versions());
    let bounds = (rarely(), any::<bool>()).prop_map(|(min_version, allow)| Bounds {
        min_version,
        allow_prerelease: if allow { Prerelease::Allow } else { Prerelease::Skip },
    });
    let many = prop::collection::vec(versions(), 0..8);
    let few = prop::collection::vec(versions(), 0..3);
    (many, bounds, some(), rarely(), rarely(), few).prop_map(
        |(offers, bounds, installed, pin, wanted, quarantined)| World {
            offers,
            bounds,
            installed,
            pin,
            wanted,
            quarantined,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn what_is_taken_is_on_offer_and_its_relation_is_true(world in worlds()) {
        if let Ok(Choice::Take { index, relation }) = world.select() {
            let taken = &world.offers[index];
            prop_assert_eq!(relation, world.installed.as_ref().map(|installed| taken.relation_to(installed)));
        }
    }

    #[test]
    fn the_same_is_decided_again_and_in_every_order(world in worlds(), seed in any::<prop::sample::Index>()) {
        let mut offers = world.offers.clone();
        if !offers.is_empty() {
            let middle = seed.index(offers.len());
            offers.rotate_left(middle);
            offers[..middle].reverse();
        }
        let name = |offers: &[Version], choice| match choice {
            Ok(Choice::Take { index, relation }) => Ok((Some(offers[index].clone()), relation, None)),
            Ok(Choice::Hold { reason }) => Ok((None, None, Some(reason))),
            Err(objection) => Err(objection),
        };
        let first = name(&world.offers, world.select());
        prop_assert_eq!(&first, &name(&world.offers, world.select()));
        prop_assert_eq!(first, name(&offers, world.select_from(&offers)));
    }

    #[test]
    fn nothing_goes_down_without_a_pin(world in worlds()) {
        if let (Some((taken, relation)), None) = (world.taken(), &world.pin) {
            prop_assert_ne!(relation, Some(Relation::Downgrade), "{}", taken);
        }
    }

    #[test]
    fn a_quarantined_version_is_never_taken(world in worlds()) {
        if let Some((taken, _)) = world.taken() {
            prop_assert!(!world.quarantined.iter().any(|quarantined| quarantined.names_same(&taken)));
        }
    }

    #[test]
    fn nothing_below_the_minimum_is_taken(world in worlds()) {
        if let (Some((taken, _)), Some(min)) = (world.taken(), &world.bounds.min_version) {
            prop_assert!(matches!(taken.relation_to(min), Relation::Upgrade | Relation::Same));
        }
    }

    #[test]
    fn only_what_is_named_is_taken_where_something_is_named(world in worlds()) {
        if let Some((taken, _)) = world.taken() {
            prop_assert!(world.wanted.iter().chain(&world.pin).all(|named| named.names_same(&taken)));
        }
    }

    #[test]
    fn where_nothing_is_named_the_newest_eligible_is_taken(world in worlds()) {
        let world = World { pin: None, wanted: None, ..world };
        if let Some((taken, relation)) = world.taken() {
            prop_assert!(taken.is_semver());
            prop_assert!(relation.is_none_or(|relation| relation == Relation::Upgrade));
            let skips = world.bounds.allow_prerelease == Prerelease::Skip;
            prop_assert!(!(skips && taken.is_prerelease()));
            for offer in &world.offers {
                let newer = offer.relation_to(&taken) == Relation::Upgrade;
                let quarantined = world.quarantined.iter().any(|version| version.names_same(offer));
                prop_assert!(!newer || quarantined || skips && offer.is_prerelease(), "{}", offer);
            }
        }
    }

    #[test]
    fn once_taken_there_is_nothing_more_to_do(world in worlds()) {
        if let Some((taken, _)) = world.taken() {
            let after = World { installed: Some(taken), ..world };
            let holds = matches!(after.select(), Ok(Choice::Hold { .. }));
            prop_assert!(holds, "{:?}", after.select());
        }
    }

    #[test]
    fn every_answer_has_words(world in worlds()) {
        let words = match world.select() {
            Ok(Choice::Take { .. }) => return Ok(()),
            Ok(Choice::Hold { reason }) => reason.to_string(),
            Err(objection) => objection.to_string(),
        };
        prop_assert!(!words.is_empty() && !words.ends_with('.'));
    }
}
