//! What is selected in the situations that people meet, and the words for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use myriarch_policy::{
    Bounds, Choice, Hold, Objection, PassedOver, Prerelease, Relation, Situation, Version, select,
};

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn versions(text: &str) -> Vec<Version> {
    text.split_whitespace().map(version).collect()
}

/// One situation, written as words; an empty one is not there.
#[derive(Default)]
struct Case {
    offers: &'static str,
    installed: &'static str,
    pin: &'static str,
    wanted: &'static str,
    quarantined: &'static str,
    min: &'static str,
    prerelease: Prerelease,
}

impl Case {
    fn select(&self) -> Result<Choice, Objection> {
        let one = |text: &str| versions(text).pop();
        let (installed, pin, wanted) = (one(self.installed), one(self.pin), one(self.wanted));
        let quarantined = versions(self.quarantined);
        let bounds = Bounds { min_version: one(self.min), allow_prerelease: self.prerelease };
        let situation = Situation {
            installed: installed.as_ref(),
            pin: pin.as_ref(),
            wanted: wanted.as_ref(),
            quarantined: &quarantined,
        };
        select(&versions(self.offers), &bounds, &situation)
    }

    fn takes(&self, expected: &str, relation: Option<Relation>) {
        match self.select() {
            Ok(Choice::Take { index, relation: found }) => {
                assert_eq!(versions(self.offers)[index].as_str(), expected);
                assert_eq!(found, relation);
            }
            other => panic!("expected {expected}, found {other:?}"),
        }
    }

    fn holds(&self) -> Hold {
        match self.select() {
            Ok(Choice::Hold { reason }) => reason,
            other => panic!("expected to hold, found {other:?}"),
        }
    }

    fn refuses(&self) -> Objection {
        let objection = self.select().unwrap_err();
        assert!(!objection.hint().is_empty());
        objection
    }
}

#[test]
fn the_newest_above_what_is_installed_is_taken() {
    let case = Case { offers: "1.0.0 1.10.0 1.9.0", installed: "1.0.0", ..Case::default() };
    case.takes("1.10.0", Some(Relation::Upgrade));
    Case { offers: "1.0.0 v2.0.0", ..Case::default() }.takes("v2.0.0", None);
}

#[test]
fn a_tag_that_vanished_is_no_reason_to_go_back() {
    let case = Case { offers: "1.0.0 1.1.0", installed: "1.2.0", ..Case::default() };
    let hold = case.holds();
    assert_eq!(hold, Hold::NothingNewer { installed: version("1.2.0"), newest: version("1.1.0") });
    assert!(hold.to_string().contains("nothing goes back by itself"), "{hold}");
    assert_eq!(Case { installed: "1.2.0", ..Case::default() }.holds(), Hold::NothingOffered);
}

#[test]
fn equal_precedence_holds() {
    for offers in ["1.2.0", "v1.2.0", "1.2.0+build.2", "1.2.0 1.1.0"] {
        let hold = Case { offers, installed: "1.2.0+build.1", ..Case::default() }.holds();
        assert_eq!(hold, Hold::UpToDate { installed: version("1.2.0+build.1") });
    }
}

#[test]
fn what_is_no_semantic_version_never_wins_by_comparison() {
    Case { offers: "nightly 1.0.0 dev", ..Case::default() }.takes("1.0.0", None);
    let hold = Case { offers: "nightly 1.11 1.0.0.1", installed: "1.0.0", ..Case::default() }.holds();
    assert_eq!(hold, Hold::NothingComparable { offered: 3 });
    let hold = Case { offers: "1.0.0", installed: "dev", ..Case::default() }.holds();
    assert_eq!(hold, Hold::InstalledIncomparable { installed: version("dev") });
    Case { offers: "1.0.0 dev", installed: "1.0.0", pin: "dev", ..Case::default() }
        .takes("dev", Some(Relation::Incomparable));
}

#[test]
fn a_prerelease_is_taken_only_where_it_is_allowed_or_named() {
    let case = Case { offers: "1.1.0-rc.1", installed: "1.0.0", ..Case::default() };
    let expected = Hold::PassedOver { newest: version("1.1.0-rc.1"), because: PassedOver::Prerelease };
    assert_eq!(case.holds(), expected);
    Case { prerelease: Prerelease::Allow, ..case }.takes("1.1.0-rc.1", Some(Relation::Upgrade));
    Case { offers: "1.1.0-rc.1", installed: "1.0.0", wanted: "1.1.0-rc.1", ..Case::default() }
        .takes("1.1.0-rc.1", Some(Relation::Upgrade));
    Case { offers: "1.1.0-rc.1 1.0.1", installed: "1.0.0", ..Case::default() }
        .takes("1.0.1", Some(Relation::Upgrade));
}

#[test]
fn a_quarantined_version_is_passed_over_and_refused_when_named() {
    let case = Case { offers: "1.1.0 1.2.0", installed: "1.0.0", quarantined: "v1.2.0", ..Case::default() };
    case.takes("1.1.0", Some(Relation::Upgrade));
    let hold = Case { offers: "1.2.0", ..case }.holds();
    assert_eq!(hold, Hold::PassedOver { newest: version("1.2.0"), because: PassedOver::Quarantined });
    let case = Case { offers: "1.2.0", installed: "1.0.0", quarantined: "1.2.0", ..Case::default() };
    for case in [
        Case { wanted: "1.2.0", ..case },
        Case { offers: "1.2.0", pin: "1.2.0", quarantined: "1.2.0", ..Case::default() },
    ] {
        assert_eq!(case.refuses(), Objection::Quarantined { version: version("1.2.0") });
    }
}

#[test]
fn what_is_named_and_installed_is_nothing_to_do() {
    for (pin, wanted) in [("v1.0.0", ""), ("", "v1.0.0"), ("1.0.0", "v1.0.0")] {
        let case = Case { offers: "1.1.0", installed: "1.0.0", pin, wanted, ..Case::default() };
        assert_eq!(case.holds(), Hold::AlreadyInstalled { installed: version("1.0.0") });
    }
}

#[test]
fn going_down_takes_a_pin() {
    let case = Case { offers: "1.0.0 2.0.0", installed: "2.0.0", wanted: "1.0.0", ..Case::default() };
    let objection = case.refuses();
    assert!(matches!(objection, Objection::Downgrade { .. }));
    assert_eq!(objection.to_string(), "expected a version not below 2.0.0, which is installed, found 1.0.0");
    Case { pin: "v1.0.0", ..case }.takes("1.0.0", Some(Relation::Downgrade));
    Case { offers: "1.0.0 2.0.0", installed: "2.0.0", pin: "1.0.0", ..Case::default() }
        .takes("1.0.0", Some(Relation::Downgrade));
}

#[test]
fn a_pin_leaves_no_other_choice() {
    let case = Case { offers: "1.0.0 2.0.0 3.0.0", installed: "1.0.0", pin: "2.0.0", ..Case::default() };
    case.takes("2.0.0", Some(Relation::Upgrade));
    let objection = Case { wanted: "3.0.0", ..case }.refuses();
    assert_eq!(objection, Objection::Pinned { pin: version("2.0.0"), wanted: version("3.0.0") });
    let hold = Case { offers: "1.0.0 3.0.0", installed: "1.0.0", pin: "2.0.0", ..Case::default() }.holds();
    assert_eq!(hold.to_string(), "expected the pinned version 2.0.0 on offer, found 3.0.0, 1.0.0");
}

#[test]
fn nothing_below_the_minimum_runs_by_any_way() {
    let case = Case { offers: "1.0.0 dev", min: "2.0.0", ..Case::default() };
    let below = |case: Case| {
        let objection = case.refuses();
        assert!(matches!(objection, Objection::BelowMinimum { .. }), "{objection}");
        objection.to_string()
    };
    assert_eq!(
        below(Case { wanted: "1.0.0", ..case }),
        "expected a version not below 2.0.0, the lowest allowed, found 1.0.0"
    );
    below(Case { offers: "1.0.0", min: "2.0.0", pin: "1.0.0", ..Case::default() });
    below(Case { offers: "1.0.0", min: "2.0.0", ..Case::default() });
    let words = below(Case { offers: "dev", min: "2.0.0", pin: "dev", ..Case::default() });
    assert!(words.ends_with("found dev, which cannot be compared with it"), "{words}");
    Case { offers: "2.0.0", min: "2.0.0", ..Case::default() }.takes("2.0.0", None);
    Case { offers: "2.0.0-rc.1 2.0.0+x", min: "2.0.0", ..Case::default() }.takes("2.0.0+x", None);
}

#[test]
fn what_is_not_on_offer_is_told_with_what_is_near() {
    let near = |wanted, offers| Case { offers, wanted, ..Case::default() }.refuses().to_string();
    let offers = "1.0.0 1.1.0 1.3.0 1.4.0 2.0.0";
    assert_eq!(near("1.2.0", offers), "expected 1.2.0 on offer, found 2.0.0, 1.3.0, 1.1.0");
    assert_eq!(near("3.0.0", offers), "expected 3.0.0 on offer, found 2.0.0");
    assert_eq!(near("0.1.0", offers), "expected 0.1.0 on offer, found 2.0.0, 1.0.0");
    assert_eq!(near("nightly", offers), "expected nightly on offer, found 2.0.0, 1.4.0, 1.3.0");
    assert_eq!(near("1.2.0", "dev"), "expected 1.2.0 on offer, found dev");
    assert_eq!(near("1.2.0", ""), "expected 1.2.0 on offer, found nothing on offer");
}

#[test]
fn bounds_read_from_a_configuration_that_says_nothing_are_the_default() {
    let bounds: Bounds = serde_json::from_str("{}").unwrap();
    assert_eq!(bounds, Bounds::default());
    assert_eq!(bounds.allow_prerelease, Prerelease::Skip);
    let bounds: Bounds =
        serde_json::from_str(r#"{"min_version":"1.0.0","allow_prerelease":"allow"}"#).unwrap();
    assert_eq!(bounds, Bounds { min_version: Some(version("1.0.0")), allow_prerelease: Prerelease::Allow });
}
