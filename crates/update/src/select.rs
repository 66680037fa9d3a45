//! Select: which offer, if any. The policy decides; what is here only gathers what it must know.

use myriarch_policy::{Choice, Objection, Situation, Version};

use crate::{
    chain::{Error, Request, Updater},
    event::Event,
    outcome::{Refusal, RefusalKind, Stage},
    ports::{Offer, SourceError},
    state::{Quarantined, State},
};

/// An offer that the policy agrees to. Nothing of it is trusted yet.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) offer: Offer,
    pub(crate) installed: Option<Version>,
}

/// What selection came to.
#[derive(Debug)]
pub(crate) enum Selection {
    Candidate(Candidate),
    Nothing { installed: Option<Version>, reason: String },
}

/// What an update would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The version it would install, if any.
    pub available: Option<Version>,
    /// The version installed, if any.
    pub installed: Option<Version>,
    /// Why, in words.
    pub reason: String,
}

impl Updater {
    /// Asks the source and the policy what an update would do, and does nothing.
    ///
    /// # Errors
    /// As for [`Updater::update`].
    pub async fn check(&self, request: &Request) -> Result<Checked, Error> {
        Ok(match self.select(request).await? {
            Selection::Candidate(Candidate { offer, installed }) => {
                let reason = format!("{} is on offer", offer.version);
                Checked { available: Some(offer.version), installed, reason }
            }
            Selection::Nothing { installed, reason } => Checked { available: None, installed, reason },
        })
    }

    pub(crate) async fn select(&self, request: &Request) -> Result<Selection, Error> {
        let state = self.state()?;
        let installed = self.store.current_slot()?.and_then(|slot| slot.manifest().version.parse().ok());
        let offers = self.offers(request, &state).await.map_err(unreachable_source)?;
        if let Some(wanted) = &request.to
            && let Some(standing) = offers
                .iter()
                .filter(|offer| offer.version.names_same(wanted))
                .find_map(|offer| against(&state, offer))
        {
            return Err(quarantined(standing).into());
        }
        let held: Vec<Version> = offers
            .iter()
            .filter(|offer| against(&state, offer).is_some())
            .map(|offer| offer.version.clone())
            .collect();
        let versions: Vec<Version> = offers.iter().map(|offer| offer.version.clone()).collect();
        let situation = Situation {
            installed: installed.as_ref(),
            pin: state.pin(),
            wanted: request.to.as_ref(),
            quarantined: &held,
        };
        match myriarch_policy::select(&versions, &self.settings.bounds, &situation)
            .map_err(|objection| objected(&objection))?
        {
            Choice::Hold { reason } => Ok(Selection::Nothing { installed, reason: reason.to_string() }),
            Choice::Take { index, relation } => {
                let offer = offers[index].clone();
                self.tell(&Event::Selected {
                    version: offer.version.clone(),
                    installed: installed.clone(),
                    relation,
                    source: offer.location.clone(),
                });
                Ok(Selection::Candidate(Candidate { offer, installed }))
            }
        }
    }

    /// The whole list, and the version asked for or pinned also where a source cannot list.
    async fn offers(&self, request: &Request, state: &State) -> Result<Vec<Offer>, SourceError> {
        let named = request.to.as_ref().or(state.pin());
        let Some(version) = named else { return self.ports.source.offers().await };
        match self.ports.source.offer(version).await? {
            Some(offer) => Ok(vec![offer]),
            // The list only helps to say what else there is; a source of templates has none.
            None => Ok(self.ports.source.offers().await.unwrap_or_default()),
        }
    }
}

/// The quarantine that stands against an offer. Where the source does not tell the archive's digest, the
/// version's name has to do: a release published again needs its digest told, or a release from quarantine.
fn against<'a>(state: &'a State, offer: &Offer) -> Option<&'a Quarantined> {
    state.standing(|build| {
        build.version.names_same(&offer.version)
            && offer.claimed.is_none_or(|claimed| claimed == build.archive)
    })
}

/// The refusal of a build that is quarantined.
pub(crate) fn quarantined(standing: &Quarantined) -> Refusal {
    let Quarantined { build, reason, since } = standing;
    Refusal {
        stage: Stage::Select,
        kind: RefusalKind::Policy,
        reason: format!(
            "{} (archive sha256 {}) is quarantined since {since}: {reason}",
            build.version, build.archive
        ),
        hint: format!("if it deserves another trial: release {}", build.version),
    }
}

fn objected(objection: &Objection) -> Refusal {
    let hint = objection.hint();
    Refusal {
        stage: Stage::Select,
        kind: RefusalKind::Policy,
        reason: objection.to_string(),
        hint: hint.to_string(),
    }
}

fn unreachable_source(error: SourceError) -> Refusal {
    Refusal { stage: Stage::Select, kind: RefusalKind::Environment, reason: error.reason, hint: error.hint }
}
